"""Amounts of resources beside processors, as a site writes them in [reserve]."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_rl_plugin.accounting.slurm.resources import parse_memory
from slurm_rl_plugin.domain.resources import GPUS, MEMORY

#: Words of batch systems, and our own.
_NAMES = {"gres/gpu": GPUS, "gpus": GPUS, "ngpus": GPUS, "mem": MEMORY, "memory": MEMORY}
_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)


def reserved_amounts(words: Iterable[str]) -> dict[str, int]:
    """Amounts by resource, memory in MiB.

    Args:
        words: such as `gres/gpu=2`, `ngpus=2` or `mem=64G`.

    Raises:
        ValueError: another word, or the same resource twice.
    """
    found: dict[str, int] = {}
    for word in words:
        name, _, value = word.partition("=")
        resource = _NAMES.get(name.strip().lower())
        if resource is None or resource in found:
            raise ValueError(word)
        amount = value.strip()
        if resource == GPUS and not _COUNT.fullmatch(amount):
            raise ValueError(word)
        found[resource] = int(amount) if resource == GPUS else int(parse_memory(amount))
        if not found[resource]:
            raise ValueError(word)
    return found
