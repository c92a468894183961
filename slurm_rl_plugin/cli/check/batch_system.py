"""Checks of `slurm-rl check` on the batch system: what is asked of it, and what mends it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.detection import choose_batch_system
from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE
from slurm_rl_plugin.batch_systems.port import (
    BatchSystem,
    ChecksItself,
    FactorChange,
    SchedulerFacts,
    SchedulerLoad,
)
from slurm_rl_plugin.cli.look.queue_look import QueueLook
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle.in_charge import NO_CONTROLLER_HERE, NOBODY_IN_CHARGE
from slurm_rl_plugin.hook.daemon.lock import daemon_runs

PASS, WARN, FAIL = "pass", "warn", "fail"
#: Releases of Slurm that the tests have run on.
OLDEST, NEWEST = (22, 5), (26, 5)
#: Below this part of what the site's own priorities differ by, bounded influence changes little.
_LITTLE = 0.1
#: What each lever costs.
COSTS = {
    "SiteFactor": "SiteFactor: a term of its own, nothing else is touched",
    "Nice": "Nice, since PriorityType is priority/basic: users' own values are remembered and "
    "given back; each write is a message to slurmdbd",
    SCORE: "rl_score: a resource that job_sort_formula sorts by; each write is a record of "
    "PBS's accounting",
}


#: Where it is set with PBS; the daemon does not order there either.
NO_INFLUENCE_ON_PBS = (
    "influence_hours has no meaning with PBS, which tells nobody what its formula makes of a job: "
    "set it to 0; the site's own terms then decide between jobs of one score"
)


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """One check: its result, its name, and one sentence of what was found and what to do."""

    result: str
    name: str
    what: str


def site(
    configuration: Configuration, facts: SchedulerFacts, load: SchedulerLoad, cycle: Cycle
) -> Iterator[SiteCheck]:
    """What the batch system is, which lever works, what our order would be worth."""
    yield _release(facts, cycle.batch_system)
    yield adapter(configuration)
    if facts.harm is not None:
        yield SiteCheck(FAIL, "lever", facts.harm)
    else:
        cost = COSTS.get(facts.lever, facts.lever)
        yield SiteCheck(WARN if facts.lever == "Nice" else PASS, "lever", cost)
    yield _influence(float(configuration.values["hook"]["influence_hours"]), facts)
    if configuration.values["hook"]["beside_controllers"] and not facts.controller_here:
        yield SiteCheck(FAIL, "controller", NO_CONTROLLER_HERE)
    elif facts.in_charge or not configuration.values["hook"]["beside_controllers"]:
        yield SiteCheck(PASS, "controller", "a daemon here acts")
    elif facts.in_charge is None:
        yield SiteCheck(WARN, "controller", NOBODY_IN_CHARGE)
    else:
        yield SiteCheck(WARN, "controller", "another host's is in charge: a daemon here stands by")
    if load.struggles is not None:
        yield SiteCheck(WARN, "load", f"{load.struggles}: cycles do nothing meanwhile")
    else:
        yield SiteCheck(PASS, "load", "the batch system answers at ease")


def adapter(configuration: Configuration) -> SiteCheck:
    """Which of the batch systems was taken, and why."""
    wanted = configuration.values["batch_system"]["adapter"]
    choice = choose_batch_system(wanted, os.environ)
    taken = "OpenPBS" if choice.pbs else "Slurm"
    return SiteCheck(PASS if choice.sure else WARN, "adapter", f"{taken}: {choice.because}")


def own_checks(system: BatchSystem) -> list[SiteCheck]:
    """What only this batch system has to be asked; most have nothing."""
    if not isinstance(system, ChecksItself):
        return []
    return [SiteCheck(*each) for each in system.own_checks()]


def _release(facts: SchedulerFacts, system: BatchSystem) -> SiteCheck:
    what = f"release {facts.release} by {system.name}"
    numbers = tuple(int(number) for number in re.findall(r"\d+", facts.release)[:2])
    if isinstance(system, ChecksItself) or OLDEST <= numbers <= NEWEST:
        return SiteCheck(PASS, "batch system", what)
    tried = " to ".join(f"{year}.{month:02d}" for year, month in (OLDEST, NEWEST))
    what = f"{what}: tried with {tried}; watch it in shadow mode first"
    return SiteCheck(WARN, "batch system", what)


def _influence(hours: float, facts: SchedulerFacts) -> SiteCheck:
    if not hours:
        return SiteCheck(PASS, "influence", "full: our order wins")
    points = hours * facts.points_an_hour
    if facts.lever == SCORE:
        return SiteCheck(FAIL, "influence", NO_INFLUENCE_ON_PBS)
    if points < 1.0:
        return SiteCheck(
            FAIL,
            "influence",
            f"{hours:g} h of age are worth {points:.2f} points here: set influence_hours = 0, or "
            "raise PriorityWeightAge",
        )
    return SiteCheck(PASS, "influence", f"{hours:g} h of age: {points:.0f} points")


def scheduler_of(configuration: Configuration, look: QueueLook) -> Iterator[SiteCheck]:
    """The queue was read; whether priorities may be written."""
    snapshot = look.considered.plan.snapshot
    waiting, running = len(snapshot.pending), len(snapshot.running)
    yield SiteCheck(PASS, "queue", f"{waiting} jobs wait, {running} run")
    if look.considered.plan.fallback_reason is not None:
        yield SiteCheck(FAIL, "decision", look.considered.plan.fallback_reason)
    yield _weights(configuration, look)
    runs = daemon_runs(Path(configuration.values["hook"]["state_file"]))
    if runs is not False or look.cycle.stands_by():  # Slurm has just answered
        # it may be writing the very job that we would try
        yield SiteCheck(WARN, "right to write", "not tried: a daemon runs, see `slurm-rl status`")
    else:
        yield _right_to_write(look)


def _weights(configuration: Configuration, look: QueueLook) -> SiteCheck:
    """What our order is worth beside what the site's own priorities differ by."""
    hours = float(configuration.values["hook"]["influence_hours"])
    if not hours:
        return SiteCheck(PASS, "weights", "our order wins over the site's own weights")
    plan = look.considered.plan
    native = plan.snapshot.pending.native_priority[plan.order]
    if len(native) < 2:
        return SiteCheck(PASS, "weights", "not compared: fewer than two jobs wait")
    spread = int(native.max() - native.min())
    points = hours * look.cycle.batch_system.facts().points_an_hour
    what = f"the priorities of waiting jobs differ by {spread} points, ours by {points:.0f}"
    if points < _LITTLE * spread:
        return SiteCheck(WARN, "weights", f"{what}: raise influence_hours to move much")
    return SiteCheck(PASS, "weights", what)


def _right_to_write(look: QueueLook) -> SiteCheck:
    """Write one job the factor that it has: nothing changes, and we hear whether we may."""
    plan = look.considered.plan
    system = look.cycle.batch_system
    if system.facts().lever not in ("SiteFactor", SCORE) or not plan.order:
        return SiteCheck(WARN, "right to write", "not tried: no job to try it on without a change")
    place = plan.order[-1]
    job = int(plan.snapshot.pending.jobs.job_id[place])
    factor = int(plan.snapshot.pending.factor[place])
    try:
        report = system.apply([FactorChange(job_id=job, old=factor, new=factor)])
    except BatchSystemError as error:
        return SiteCheck(FAIL, "right to write", str(error))
    words = report.rejected.get(job)
    if words is not None:
        return SiteCheck(WARN, "right to write", f"job {job}: {words}")
    return SiteCheck(PASS, "right to write", f"job {job} was written the factor that it has")
