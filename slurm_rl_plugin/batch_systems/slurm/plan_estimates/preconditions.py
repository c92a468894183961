"""What must hold of a cluster before any job may have a TimeMin, each with its mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    SHOW_CONFIG,
    SlurmSettings,
    parse_settings,
    release_numbers,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

FLAG = "time_min_as_soft_limit"
BACKFILL, CONS_TRES = "sched/backfill", "select/cons_tres"
#: The first release that knows the flag; those before pass it over in silence and cut limits.
FIRST_RELEASE = (23, 11)
#: Shows limits on minutes of processors and other TRES, asked for by a job or still to be run.
#: Slurm looks at TimeMin for them; for limits on wall time alone it does not (run on 24.11, 26.05).
SHOW_LIMITS = ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")
_MINUTES = re.compile(r"\b(?P<name>\w*TRES(?:Run)?Mins\w*)=\S*?=\d")
#: A budget, which keeps no job from its start unless AccountingStorageEnforce has `safe`.
_BUDGET = "GrpTRESMins"
_OWNER = re.compile(r"\b(?P<kind>Account|QOS)=(?P<name>[^(\s]+)")


class Precondition(NamedTuple):
    """One of them: its name, why it does not hold and what mends it or None, and what holds."""

    name: str
    fault: str | None
    holds: str


def first_fault(commands: CommandRunner) -> str | None:
    """Why no job may have a TimeMin, one sentence; None where they may.

    Raises:
        BatchSystemUnavailable: no answer in time.
        BatchSystemError: an answer that cannot be understood.
    """
    return next((each.fault for each in preconditions(commands) if each.fault), None)


def preconditions(commands: CommandRunner) -> Iterator[Precondition]:
    """Every one, as slurmctld has it now; raises as `first_fault` does."""
    settings = parse_settings(commands.read(SHOW_CONFIG))
    yield _release(settings)
    yield _plugin("SchedulerType", settings.scheduler_type, BACKFILL)
    yield _plugin("SelectType", settings.select_type, CONS_TRES)
    yield _flag(settings)
    yield limits_on_minutes(commands.read(SHOW_LIMITS), safe="safe" in settings.enforced)


def limits_on_minutes(text: str, *, safe: bool) -> Precondition:
    """That none would be passed by, from the answer of SHOW_LIMITS.

    Args:
        text: the answer.
        safe: whether jobs only start that fit into a budget.
    """
    fault = None
    for line in text.splitlines():
        names = [found["name"] for found in _MINUTES.finditer(line)]
        names = [name for name in names if safe or name != _BUDGET]
        if names:
            owner = _OWNER.search(line)
            of = f"{owner['kind']} {owner['name']}" if owner else "Slurm"
            fault = (
                f"{names[0]} of {of} would be passed by, since Slurm counts TimeMin for it: "
                "take that limit away, or leave [plan] estimates off"
            )
            break
    return Precondition("limits", fault, "no limit on minutes of processors is in use")


def _release(settings: SlurmSettings) -> Precondition:
    fault = None
    if release_numbers(settings.release) < FIRST_RELEASE:
        fault = (
            f"Slurm {settings.release} cuts the limit of a job to its TimeMin and kills it: "
            "take 25.11 or later, 23.11 at least, or leave [plan] estimates off"
        )
    return Precondition("release", fault, f"Slurm {settings.release} can plan by TimeMin")


def _plugin(key: str, found: str, wanted: str) -> Precondition:
    fault = None
    if found != wanted:
        fault = f"{key}={found} plans by no TimeMin: set {key}={wanted} in slurm.conf"
    return Precondition(key, fault, f"{key}={wanted}")


def _flag(settings: SlurmSettings) -> Precondition:
    fault = None
    if FLAG not in settings.scheduler:
        fault = (
            f"{FLAG} is not in SchedulerParameters, so Slurm would cut limits to TimeMin: add it "
            "in slurm.conf and run `scontrol reconfigure`"
        )
    return Precondition("flag", fault, f"{FLAG} is in SchedulerParameters")
