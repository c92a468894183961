"""Makes the adapter for Slurm of what the site configures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_rl_plugin.batch_systems.kind import AdapterParts, LimitKeys
from slurm_rl_plugin.batch_systems.slurm.adapter_choice import PYSLURM, choose_adapter
from slurm_rl_plugin.batch_systems.slurm.adapter_settings import SlurmAdapterSettings
from slurm_rl_plugin.batch_systems.slurm.batch_limit.licenses import LICENSES
from slurm_rl_plugin.batch_systems.slurm.batch_limit.limit import LimitNames, LimitSettings
from slurm_rl_plugin.batch_systems.slurm.batch_limit.qos import QOS
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
    from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm

logger = logging.getLogger(__name__)


def slurm_batch_system(parts: AdapterParts) -> SlurmCommands | Slurm:
    """By pyslurm where that is wanted or fits, else by commands.

    Raises:
        ConfigurationError: pyslurm is wanted and cannot work here.
    """
    adapter = _adapter(parts.adapter, parts.timeout)
    limit = parts.limit
    site = SlurmAdapterSettings(
        shares=parts.shares,
        interactive=parts.interactive,
        clock=parts.clock,
        timeout=parts.timeout,
        on_call=parts.on_call,
        history_days=parts.history_days,
        host=parts.host,
        nice_file=_nice_file(parts.state_file),
        limit=None if limit.mechanism is None else _settings(limit, limit.mechanism),
        limits_file=parts.limits_file,
        limit_names=_limit_names(limit) if limit.is_known else None,
        class_defaults=parts.class_defaults,
    )
    return adapter(site)


def _adapter(wanted: str, timeout: float) -> type[SlurmCommands] | type[Slurm]:
    """The adapter for a configured name, and a line of the log that says why.

    Args:
        wanted: `auto`, or the name of one.
        timeout: seconds that Slurm may take to tell its release.

    Raises:
        ConfigurationError: pyslurm is wanted and cannot work here.
    """
    commands = CommandRunner(environment=None, timeout=timeout, on_call=None)
    choice = choose_adapter(wanted, commands)
    logger.info("adapter=%s because=%s", choice.adapter, choice.because)
    if choice.adapter == PYSLURM:
        from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm  # noqa: PLC0415 - chosen by name

        return Slurm
    from slurm_rl_plugin.batch_systems.slurm.commands import (  # noqa: PLC0415 - chosen by name
        SlurmCommands,
    )

    return SlurmCommands


def _nice_file(state_file: Path) -> Path:
    """Where the users' nice values are kept, beside the state file."""
    return state_file.with_name(state_file.name + ".nice")


def _settings(limit: LimitKeys, mechanism: str) -> LimitSettings:
    return LimitSettings(
        mechanism=mechanism,
        qos=limit.qos,
        license=limit.license,
        reservation=limit.reservation,
    )


def _limit_names(limit: LimitKeys) -> frozenset[LimitNames]:
    """Of limits that may be ours, also while the mechanism is off."""
    settings = [_settings(limit, each) for each in (QOS, LICENSES)]
    return frozenset((each.mechanism, each.names) for each in settings)
