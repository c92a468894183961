"""A configuration of one parsed TOML document, as if from one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.files import ConfigurationFile
from slurm_rl_plugin.configuration.reading import configuration_of_parts


def configuration_of(content: Mapping[str, Any]) -> Configuration:
    """The configuration of this document, which has no fault."""
    files = [ConfigurationFile(name="test", content=content)]
    found, faults = configuration_of_parts(files, {}, (), complete=True)
    assert not faults
    return found
