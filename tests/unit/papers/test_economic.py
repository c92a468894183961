"""The 2002 paper: logs of weeks on which nothing was chosen, and how sure their ratio is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.papers.economic_2002.markets import (
    CHOICE,
    EASY,
    TABULATED,
    LogResults,
    Market,
    MarketFigures,
    starts_on_machines,
    untouched_weeks,
)
from slurm_rl_plugin.papers.economic_2002.study import rows_over_seeds
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.units import DAY
from tests.reference.loads import workload_of

EXTRACT = 21  # jobs, three weeks at one job a day


def daily(extracts: int) -> JobLog:
    """A log with a job each noon."""
    jobs = EXTRACT * extracts
    submit = (np.arange(jobs) + 0.5) * DAY
    log = mmn_log(np.random.default_rng(0), jobs=jobs)
    return replace(log, submit=submit, eligible=submit)


def test_drawn_logs_hold_no_week_on_which_the_rule_was_chosen() -> None:
    log = daily(8)
    left = untouched_weeks(log, EXTRACT)
    extracts = {(number - 1) // EXTRACT for number in left.job_id}
    assert extracts == set(range(8)) - set(CHOICE)
    assert len(left) == len(log) - len(CHOICE) * EXTRACT
    assert np.array_equal(left.submit, left.eligible)


def results(ratio: float) -> LogResults:
    figures = MarketFigures(
        response=1000.0 * ratio, wait=0.0, squashed_area=(1.0,), utilization=(1.0,)
    )
    markets = {Market(name): figures for name in TABULATED}
    return LogResults(conventional={EASY: 1000.0}, markets=markets)


def test_more_draws_of_the_same_weeks_do_not_narrow_the_interval() -> None:
    seeds = tuple(results(ratio) for ratio in np.linspace(0.99, 1.004, 30))
    for row in (*rows_over_seeds(seeds), *rows_over_seeds(seeds * 10)):
        assert row.measured.value == pytest.approx(0.997)
        assert row.measured.ends == pytest.approx((0.99, 1.004), abs=1e-3)


def busy(jobs: int, widest: int) -> Workload:
    """Jobs in bursts, so that they wait for each other; estimates above run times."""
    rng = np.random.default_rng(5)
    run = rng.integers(1, 50, jobs).astype(float)
    return workload_of(
        np.sort(rng.integers(0, 8 * jobs, jobs)).astype(float),
        run,
        estimate=run * rng.integers(1, 4, jobs),
        processors=rng.integers(1, widest + 1, jobs),
    )


def starts(jobs: Workload, machines: tuple[int, ...], **chosen: bool) -> np.ndarray:
    chosen = {"least_loaded": False, "conservative": False} | chosen
    return starts_on_machines(jobs, machines, **chosen)


def test_on_one_machine_the_control_is_the_kernels_easy() -> None:
    jobs = busy(300, 8)
    found = starts(jobs, (8,))
    settings = SimulationSettings(capacity=8, backfilling="easy")
    order = -np.arange(300, dtype=np.float64)
    assert np.array_equal(found, simulate_scores(jobs, order, settings).start)
    assert not np.array_equal(found, starts(jobs, (8,), conservative=True))


@pytest.mark.parametrize("least_loaded", [False, True])
@pytest.mark.parametrize("conservative", [False, True])
def test_the_control_gives_no_machine_more_than_it_has(
    least_loaded: bool, conservative: bool
) -> None:
    jobs, machines = busy(300, 8), (4, 4, 2)  # jobs of 5 and more need several machines
    found = starts(jobs, machines, least_loaded=least_loaded, conservative=conservative)
    assert (found >= jobs.submit).all()
    for instant in found:
        running = (found <= instant) & (found + jobs.run_time > instant)
        assert jobs.processors[running].sum() <= sum(machines)


def test_homes_are_given_in_turn_or_to_the_least_loaded() -> None:
    jobs = busy(4, 1).having(submit=np.zeros(4), processors=np.array([4, 1, 4, 1]))
    jobs = jobs.having(run_time=np.array([9.0, 1.0, 9.0, 1.0]))
    jobs = jobs.having(estimate=jobs.run_time)
    # in turn the two wide ones share a machine; by load the second takes the other one
    assert starts(jobs, (4, 4)).tolist() == [0.0, 0.0, 9.0, 0.0]
    assert starts(jobs, (4, 4), least_loaded=True).tolist() == [0.0, 0.0, 1.0, 9.0]
