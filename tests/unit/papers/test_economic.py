"""The 2002 paper: logs of weeks on which nothing was chosen, and how sure their ratio is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.papers.economic_2002.claims import claims_over_seeds
from slurm_rl_plugin.papers.economic_2002.experiment import TABULATED, Economic, LogResults
from slurm_rl_plugin.papers.economic_2002.logs import CHOICE, untouched_weeks
from slurm_rl_plugin.papers.economic_2002.markets import EASY, Market, MarketFigures
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.resampling import WEEK
from slurm_rl_plugin.units import DAY

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


def test_the_weeks_left_follow_each_other_and_keep_weekday_and_hour() -> None:
    log = daily(8)
    left = untouched_weeks(log, EXTRACT)
    assert np.diff(left.submit) == pytest.approx(DAY)
    back = log.submit[left.job_id - 1] - left.submit
    assert np.mod(back, WEEK) == pytest.approx(0.0)


def results(ratio: float) -> LogResults:
    figures = MarketFigures(
        response=1000.0 * ratio, wait=0.0, squashed_area=(1.0,), utilization=(1.0,)
    )
    markets = {Market(configuration=name): figures for name in TABULATED}
    return LogResults(conventional={EASY: 1000.0}, markets=markets)


@pytest.mark.parametrize("draws", [1, 10])
def test_more_draws_of_the_same_weeks_do_not_narrow_the_interval(draws: int) -> None:
    seeds = tuple(results(ratio) for ratio in np.linspace(0.99, 1.004, 30)) * draws
    for claim in claims_over_seeds(Economic(logs={}, seeds=seeds)):
        assert claim.measured.value == pytest.approx(0.997)
        assert claim.measured.ends == pytest.approx((0.99, 1.004), abs=1e-3)
