"""Builds the batch system from a configuration, and says where its files lie.

The way out (`release`, `disable`, `status`) needs no more than this: nothing here may import a
policy, its inference library or the metrics.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin.batch_systems.detection import choose_batch_system
from slurm_rl_plugin.batch_systems.pbs.site import PbsSite
from slurm_rl_plugin.batch_systems.port import BatchSystem
from slurm_rl_plugin.batch_systems.slurm.adapter_choice import PYSLURM, choose_adapter
from slurm_rl_plugin.batch_systems.slurm.batch_limit.limit import LimitNames, LimitSettings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.site import SlurmSite
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.keys.reserve import LICENSES, MAX_RUN_RES, OFF, QOS

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
    from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm

logger = logging.getLogger(__name__)


def build_batch_system(
    configuration: Configuration, calls: list[tuple[str, float]], *, learns_from_runs: bool = False
) -> BatchSystem:
    """The configured adapter.

    Args:
        configuration: of the site.
        calls: receives the duration of every command.
        learns_from_runs: the first snapshot is to report the runs of the past.

    Raises:
        ConfigurationError: the adapter cannot work here.
    """
    settings = configuration.values["batch_system"]
    choice = choose_batch_system(settings["adapter"], os.environ)
    logger.info("batch_system=%s because=%s", "pbs" if choice.pbs else "slurm", choice.because)
    if choice.pbs:
        return _pbs(configuration, calls, learns_from_runs)
    adapter = slurm_adapter(settings["adapter"], float(settings["timeout"]))
    state_file = Path(configuration.values["hook"]["state_file"])
    site = SlurmSite(
        shares=configuration.shares,
        interactive=configuration.classifier.is_interactive,
        clock=time.time,  # noqa: TID251 - the composition root hands out the clock
        timeout=float(settings["timeout"]),
        on_call=lambda call, seconds: calls.append((call, seconds)),
        history_days=float(settings["history_days"]) if learns_from_runs else 0.0,
        host=socket.gethostname(),
        nice_file=nice_path(state_file),
        limit=_slurm_limit(configuration.values["reserve"]),
        limits_file=limits_path(state_file),
        limit_names=_limit_names(configuration),
    )
    return adapter(site)


def _pbs(
    configuration: Configuration, calls: list[tuple[str, float]], learns_from_runs: bool
) -> BatchSystem:
    from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs  # noqa: PLC0415 - chosen by name

    settings = configuration.values["batch_system"]
    state_file = Path(configuration.values["hook"]["state_file"])
    return Pbs(
        PbsSite(
            shares=configuration.shares,
            interactive=configuration.classifier.is_interactive,
            clock=time.time,  # noqa: TID251 - the composition root hands out the clock
            timeout=float(settings["timeout"]),
            environment=dict(os.environ),
            on_call=lambda call, seconds: calls.append((call, seconds)),
            heartbeat=heartbeat_path(state_file),
            history_days=float(settings["history_days"]) if learns_from_runs else 0.0,
            batch_queues=_pbs_batch_queues(configuration.values["reserve"]),
            limits_file=limits_path(state_file),
            limit_queues=_limit_queues(configuration),
        )
    )


def _pbs_batch_queues(reserve: Mapping[str, Any]) -> tuple[str, ...]:
    """The queues that a limit on batch jobs is set on; none for another mechanism."""
    return tuple(reserve["queues"]) if reserve["mechanism"] == MAX_RUN_RES else ()


def _slurm_limit(reserve: Mapping[str, Any]) -> LimitSettings | None:
    """What carries the limit on batch jobs; None for none."""
    return None if reserve["mechanism"] == OFF else _limit_settings(reserve)


def _limit_settings(reserve: Mapping[str, Any]) -> LimitSettings:
    return LimitSettings(
        mechanism=reserve["mechanism"],
        qos=reserve["qos"],
        license=reserve["license"],
        reservation=reserve["reservation"],
    )


def _limit_names(configuration: Configuration) -> frozenset[LimitNames] | None:
    """Of limits that may be ours, also while the mechanism is off; None for a faulty configuration.

    What it would name is not known then, and a limit must not stand for it.
    """
    if not configuration.is_whole:
        return None
    reserve = configuration.values["reserve"]
    settings = [_limit_settings({**reserve, "mechanism": each}) for each in (QOS, LICENSES)]
    return frozenset((each.mechanism, each.names) for each in settings)


def _limit_queues(configuration: Configuration) -> frozenset[str] | None:
    """See `_limit_names`."""
    return frozenset(configuration.values["reserve"]["queues"]) if configuration.is_whole else None


def heartbeat_path(state_file: Path) -> Path:
    """Where PBS's dead-man hook looks for our sign of life, beside the state file."""
    return state_file.with_name("heartbeat")


def limits_path(state_file: Path) -> Path:
    """Where the site's own limits on batch jobs are kept, beside the state file."""
    return state_file.with_name(state_file.name + ".limits")


def nice_path(state_file: Path) -> Path:
    """Where the users' nice values are kept, beside the state file."""
    return state_file.with_name(state_file.name + ".nice")


def slurm_adapter(wanted: str, timeout: float) -> type[SlurmCommands] | type[Slurm]:
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


def class_defaults_path(configuration: Configuration) -> Path | None:
    """The table for job_submit.lua; None for none."""
    given = configuration.values["hook"]["class_defaults_file"]
    return Path(given) if given else None
