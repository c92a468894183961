"""What has to hold in PBS before a soft_walltime is of use and does no harm, with its mend."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from slurm_rl_plugin.batch_systems.pbs.answers.fields import SOFT_WALLTIME, parse_count, text
from slurm_rl_plugin.batch_systems.pbs.answers.nodes import QSTAT_QUEUES
from slurm_rl_plugin.batch_systems.pbs.answers.sched_config import SchedConfig, sched_folder
from slurm_rl_plugin.batch_systems.pbs.answers.schedulers import read_schedulers
from slurm_rl_plugin.batch_systems.pbs.answers.server import PbsServer
from slurm_rl_plugin.batch_systems.pbs.plan_estimates.closed_times import (
    ClosedTimes,
    read_closed_times,
)
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands, section
from slurm_rl_plugin.batch_systems.pbs.sort_settings import queue_default

_HUP = "and send pbs_sched a HUP"


class Requirement(NamedTuple):
    """One condition: its name, what holds where it does, and why it does not, one sentence."""

    name: str
    holds: str
    fault: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What pbs_server and the files of its scheduler say of planning.

    Attributes:
        server: its attributes.
        queues: attributes of each queue, by its name.
        schedulers: their names.
        times: what the files of the scheduler say.
    """

    server: PbsServer
    queues: Mapping[str, Mapping[str, Any]]
    schedulers: tuple[str, ...]
    times: ClosedTimes


def read_plan_settings(commands: PbsCommands, server: PbsServer) -> PlanSettings:
    """Ask the server for its queues and schedulers, and read the files in sched_priv.

    Raises:
        BatchSystemUnavailable: no answer in time.
        BatchSystemError: an answer that cannot be understood.
    """
    return PlanSettings(
        server=server,
        queues=section(commands.read_json(QSTAT_QUEUES), "Queue"),
        schedulers=tuple(each.name for each in read_schedulers(commands.read)),
        times=read_closed_times(sched_folder(commands)),
    )


def requirements(settings: PlanSettings, user: str) -> Iterator[Requirement]:
    """Every condition, those first without which others cannot be told.

    Args:
        settings: as read now.
        user: name of whom the daemon runs as.
    """
    files = "sched_config and dedicated_time can be read"
    yield Requirement("files", files, settings.times.fault)
    yield Requirement("scheduler", "one scheduler plans all jobs", _several(settings))
    if settings.times.config is not None:
        planned = _plans_nothing(settings, settings.times.config)
        yield Requirement("plan", "a top job is planned", planned)
    nobody = f"jobs have no {SOFT_WALLTIME} by default"
    yield Requirement("default", nobody, _given_by_default(settings))
    right = f"{user} may set {SOFT_WALLTIME}"
    yield Requirement("right", right, _no_manager(settings.server.managers, user))


def daemon_user() -> str:
    """Name of the user that this process runs as."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _several(settings: PlanSettings) -> str | None:
    if len(settings.schedulers) == 1:
        return None
    names = ", ".join(settings.schedulers) or "none"
    return (
        f"PBS has not one scheduler but {names}: plan estimates were tried with the default alone"
    )


def _plans_nothing(settings: PlanSettings, config: SchedConfig) -> str | None:
    """strict_ordering makes a top job wait with a planned start, backfill_depth says how many."""
    if not config.always("strict_ordering"):
        return (
            f"pbs_sched plans no start for the first waiting job, so {SOFT_WALLTIME} would do "
            f"nothing: set `strict_ordering: true ALL` in {config.path} {_HUP}"
        )
    of_server = settings.server.backfill_depth
    own = [text(queue.get("backfill_depth")) for queue in settings.queues.values()]
    if any(parse_count(words) if words else of_server != 0 for words in own):
        return None
    return (
        f"backfill_depth is 0, so pbs_sched plans no start and {SOFT_WALLTIME} would do nothing: "
        "qmgr -c 'set server backfill_depth = 1'"
    )


def _given_by_default(settings: PlanSettings) -> str | None:
    """What is taken away would come back as the default."""
    if settings.server.gives_soft_walltime:
        return (
            f"resources_default.{SOFT_WALLTIME} is set, so none could be taken away: "
            f"qmgr -c 'unset server resources_default.{SOFT_WALLTIME}'"
        )
    return queue_default(settings.queues, SOFT_WALLTIME)


def _no_manager(managers: tuple[str, ...], user: str) -> str | None:
    """By the name alone: the server decides by the host too, and refuses what it must."""
    if user == "root" or user in {entry.partition("@")[0].lstrip("+") for entry in managers}:
        return None
    return (
        f"{user} is no manager of PBS, and nobody else may set {SOFT_WALLTIME}: "
        f"qmgr -c 'set server managers += {user}@HOST'"
    )
