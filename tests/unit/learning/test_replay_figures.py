"""The replay on a log whose site order is known, and the verdicts that its figures allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.evaluation.recorded_replay import (
    GOALS,
    RECORDED,
    RECORDED_ORDER,
    ComparedFigure,
    RecordedReplay,
    block_jobs,
    compare,
    overall,
    replay,
)
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, NO_DIFFERENCE
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY


def recorded_by(rule: str, jobs: int) -> tuple[PreparedLog, SimulationSettings]:
    """A log whose jobs were started in the order of a rule."""
    prepared = prepare_log(generated_log(f"mmn:jobs={jobs},processors=8"))
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
    start = starts_under(Candidate(name=rule), prepared, prepared.workload(None), settings)
    return replace(prepared, log=replace(prepared.log, start=start)), settings


def silent(done: int) -> None:
    del done


def replayed(rule: str, candidate: str, jobs: int) -> RecordedReplay:
    prepared, settings = recorded_by(rule, jobs)
    candidates = {candidate: Candidate(name=candidate)}
    return replay(prepared, candidates, settings, silent)


def compared(one: RecordedReplay, name: str) -> dict[str, ComparedFigure]:
    rng = np.random.default_rng(1)
    return compare(one, name, RECORDED_ORDER, rng, silent)


def test_the_order_of_a_simulated_record_gives_that_record_again() -> None:
    one = replayed("fifo", "sjf", 3000)
    recorded, order = one.schedules[RECORDED].wait, one.schedules[RECORDED_ORDER].wait
    assert order.mean() == pytest.approx(recorded.mean(), rel=0.05)
    assert {"multifactor", "fifo", "sjf"} < one.schedules.keys()
    assert (one.first, one.last) == (300, 2850)


def test_few_jobs_give_no_verdict_and_say_how_many_would() -> None:
    found = compared(replayed("fifo", "sjf", 400), "sjf")
    assert {each.verdict for each in found.values()} == {INCONCLUSIVE}
    assert {each.ci95 for each in found.values()} == {None}
    assert found["fairness"].jobs == 340
    assert found["fairness"].jobs_needed == 2500
    assert overall(found) == INCONCLUSIVE


def test_many_jobs_tell_which_order_is_better() -> None:
    one = replayed("fifo", "sjf", 20_000)
    # days of traffic pass quickly here: what counts is how many blocks there are
    schedules = {
        name: replace(jobs, submit=jobs.submit * 40, start=jobs.submit * 40 + jobs.wait)
        for name, jobs in one.schedules.items()
    }
    one = replace(one, schedules=schedules)
    found = compared(one, "sjf")
    slowdown = found["mean_bounded_slowdown"]
    assert slowdown.verdict == BETTER
    assert slowdown.ci95 is not None
    assert slowdown.ci95[0] < slowdown.difference < slowdown.ci95[1] < 0
    assert found["interactive_within_120s"].verdict == BETTER
    assert overall(found) == BETTER
    same = compared(one, RECORDED_ORDER)
    assert {same[name].verdict for name in GOALS} == {NO_DIFFERENCE}


def test_a_block_is_a_day_of_jobs_and_500_at_least() -> None:
    one = replayed("fifo", "sjf", 3000)
    jobs = one.schedules[RECORDED]
    whole = slice(0, 3000)
    slow = replace(jobs, submit=np.linspace(0, 30 * DAY, 3000))
    dense = replace(jobs, submit=np.linspace(0, 2 * DAY, 3000))
    assert block_jobs(slow, whole) == 500
    assert block_jobs(dense, whole) == 1500
