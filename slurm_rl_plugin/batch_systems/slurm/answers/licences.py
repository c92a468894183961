"""Licences of this moment, as `scontrol show licenses` prints them."""

from __future__ import annotations

import re

from slurm_rl_plugin.domain.resources import LICENCE_PREFIX

SHOW_LICENCES = ("scontrol", "-o", "show", "licenses")
#: Not of hierarchical resources: of these one name has a line for each layer of nodes.
_FREE = re.compile(r"^LicenseName=(?P<name>\S+) (?!.*\bMode=).*?\bFree=(?P<free>\d+)", re.MULTILINE)


def parse_free_licences(text: str) -> dict[str, float]:
    """How many of each are free, by the names of `domain.resources`; {} where there are none."""
    return {LICENCE_PREFIX + found["name"]: float(found["free"]) for found in _FREE.finditer(text)}
