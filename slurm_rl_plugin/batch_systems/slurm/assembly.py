"""Makes the adapter for Slurm of what the site configures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.adapter_choice import PYSLURM, choose_adapter
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
    from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm

logger = logging.getLogger(__name__)


def slurm_batch_system(parts: AdapterParts) -> SlurmCommands | Slurm:
    """By pyslurm where that is wanted or fits, else by commands; the log says which and why.

    Raises:
        ConfigurationError: pyslurm is wanted and cannot work here.
    """
    commands = CommandRunner(environment=None, timeout=parts.timeout, on_call=None)
    choice = choose_adapter(parts.adapter, commands)
    logger.info("adapter=%s because=%s", choice.adapter, choice.because)
    if choice.adapter == PYSLURM:
        from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm  # noqa: PLC0415 - chosen by name

        return Slurm(parts)
    from slurm_rl_plugin.batch_systems.slurm.commands import (  # noqa: PLC0415 - chosen by name
        SlurmCommands,
    )

    return SlurmCommands(parts)
