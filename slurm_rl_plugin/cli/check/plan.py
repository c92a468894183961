"""Checks of `slurm-rl check` on plan estimates: whether they are foretold, and sound here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.plan_port import ChecksEstimates, PlansByEstimates
from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.cli.assembly.hook import plan_doubt
from slurm_rl_plugin.cli.look.queue_look import QueueLook
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.plan.estimates import plan_path
from slurm_rl_plugin.whole_file import may_exist


def estimates_of(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    """Every check; one where the scheduler is to be told nothing."""
    state = Path(configuration.sections.hook.state_file)
    runs = daemon_runs(state)
    if not configuration.sections.plan.estimates:
        if may_exist(plan_path(state)) and runs is False:
            what = "are off, and some of ours may stand: run `slurm-rl release`"
            yield Check(FAIL, "plan estimates", what)
        else:
            yield Check(PASS, "plan estimates", "off: the scheduler plans with time limits")
        return
    yield _foretold(look)
    yield _gained(configuration, look)
    system = look.cycle.batch_system
    if not isinstance(system, PlansByEstimates):
        what = f"{system.name} cannot plan by estimates: set [plan] estimates = false"
        yield Check(FAIL, "plan estimates", what)
    elif isinstance(system, ChecksEstimates):
        try:
            writes = runs is False and not look.cycle.stands_by()
            yield from system.estimate_checks(writes=writes)
        except BatchSystemError as error:
            yield Check(FAIL, "plan estimates", str(error))


def _gained(configuration: Configuration, look: QueueLook) -> Check:
    """Whether they were worth anything where the model was trained."""
    gain, doubt = look.loaded.plan_gain, plan_doubt(configuration, look.loaded)
    if doubt:
        return Check(WARN, "plan gain", f"none are given: {doubt}")
    if gain is None:
        what = "the model does not say whether anything is gained by them: train it again"
        return Check(WARN, "plan gain", what)
    insists = "" if gain.gained else ", and [plan] insist gives them all the same"
    return Check(
        PASS, "plan gain", f"{gain.verdict} in the model's training: {gain.words}{insists}"
    )


def _foretold(look: QueueLook) -> Check:
    plan = look.considered.plan
    if plan.decision.run_times is None:
        what = "the policy foretells no run times: set [policy] model to default, or a model that "
        return Check(FAIL, "plan run times", f"{what}`slurm-rl train` made with past runs")
    return Check(PASS, "plan run times", f"{look.cycle.policy.name} foretells run times")
