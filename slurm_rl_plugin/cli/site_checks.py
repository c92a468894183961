"""The checks of `slurm-rl check`: what is asked of the site, and what mends it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import FactorChange, SchedulerFacts, SchedulerLoad
from slurm_rl_plugin.cli.hook_assembly import load_policy
from slurm_rl_plugin.cli.queue_look import QueueLook
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import BatchSystemError, PolicyError
from slurm_rl_plugin.hook.cycle import Cycle
from slurm_rl_plugin.hook.daemon import daemon_runs

PASS, WARN, FAIL = "pass", "warn", "fail"
#: What each lever costs.
COSTS = {
    "SiteFactor": "SiteFactor: a term of its own, nothing else is touched",
    "Nice": "Nice, since PriorityType is priority/basic: users' own values are remembered and "
    "given back; each write is a message to slurmdbd",
}


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """One check: its result, its name, and one sentence of what was found and what to do."""

    result: str
    name: str
    what: str


def site(
    configuration: Configuration, facts: SchedulerFacts, load: SchedulerLoad, cycle: Cycle
) -> Iterator[SiteCheck]:
    """What Slurm is, which lever works, what our order would be worth."""
    yield SiteCheck(PASS, "batch system", f"release {facts.release} by {cycle.batch_system.name}")
    if facts.harm is not None:
        yield SiteCheck(FAIL, "lever", facts.harm)
    else:
        cost = COSTS.get(facts.lever, facts.lever)
        yield SiteCheck(WARN if facts.lever == "Nice" else PASS, "lever", cost)
    yield _influence(float(configuration.values["hook"]["influence_hours"]), facts)
    if facts.in_charge or not configuration.values["hook"]["beside_controllers"]:
        yield SiteCheck(PASS, "controller", "a daemon here acts")
    else:
        yield SiteCheck(WARN, "controller", "another host's is in charge: a daemon here stands by")
    if load.struggles is not None:
        yield SiteCheck(WARN, "load", f"{load.struggles}: cycles do nothing meanwhile")
    else:
        yield SiteCheck(PASS, "load", "slurmctld answers at ease")


def _influence(hours: float, facts: SchedulerFacts) -> SiteCheck:
    if not hours:
        return SiteCheck(PASS, "influence", "full: our order wins")
    points = hours * facts.points_an_hour
    if points < 1.0:
        return SiteCheck(
            FAIL,
            "influence",
            f"{hours:g} h of age are worth {points:.2f} points here: raise PriorityWeightAge, or "
            "set influence_hours = 0",
        )
    return SiteCheck(PASS, "influence", f"{hours:g} h of age: {points:.0f} points")


def scheduler_of(configuration: Configuration, look: QueueLook) -> Iterator[SiteCheck]:
    """The queue was read; whether priorities may be written."""
    snapshot = look.considered.plan.snapshot
    waiting, running = len(snapshot.pending), len(snapshot.running)
    yield SiteCheck(PASS, "queue", f"{waiting} jobs wait, {running} run")
    if look.considered.plan.fallback_reason is not None:
        yield SiteCheck(FAIL, "decision", look.considered.plan.fallback_reason)
    runs = daemon_runs(Path(configuration.values["hook"]["state_file"]))
    if runs is not False or look.cycle.stands_by():  # Slurm has just answered
        # it may be writing the very job that we would try
        yield SiteCheck(WARN, "right to write", "not tried: a daemon runs, see `slurm-rl status`")
    else:
        yield _right_to_write(look)


def _right_to_write(look: QueueLook) -> SiteCheck:
    """Write one job the factor that it has: nothing changes, and Slurm says whether we may."""
    plan = look.considered.plan
    system = look.cycle.batch_system
    if system.facts().lever != "SiteFactor" or not plan.order:
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


def files_of(configuration: Configuration) -> Iterator[SiteCheck]:
    """Whether the daemon's files can be written by this user."""
    hook = configuration.values["hook"]
    for name in ("state_file", "audit_file"):
        if not hook[name]:
            continue
        folder = Path(hook[name]).parent
        if os.access(folder, os.W_OK | os.X_OK):
            yield SiteCheck(PASS, name, f"{folder} is writable for this user")
        else:
            yield SiteCheck(FAIL, name, f"{folder} is missing or not writable for this user")


def model_of(configuration: Configuration, look: QueueLook | None = None) -> Iterator[SiteCheck]:
    """Whether the model can be used, and how long it takes for the queue of now."""
    model = configuration.values["policy"]["model"]
    try:
        loaded = load_policy(model)
    except PolicyError as error:
        yield SiteCheck(FAIL, "model", str(error))
        return
    yield SiteCheck(PASS, "model", f"{loaded.policy.name} {loaded.sha256[:12]}".strip())
    if look is None:
        return
    plan, deadline = look.considered.plan, look.cycle.settings.inference_deadline
    began = time.monotonic()
    try:
        loaded.policy.decide(plan.snapshot, plan.memory)
    except PolicyError as error:
        yield SiteCheck(FAIL, "decision time", str(error))
        return
    seconds = time.monotonic() - began
    result = PASS if seconds < deadline / 2 else WARN
    what = f"{seconds:.3f} s for {len(plan.snapshot.pending)} jobs"
    yield SiteCheck(result, "decision time", what)
