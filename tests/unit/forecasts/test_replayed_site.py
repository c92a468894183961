"""Starts in replays, and what is drawn for them: run times, and who may come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.forecasts.replays import (
    WEEK,
    QueueNow,
    ReplayedSite,
    RunSpreads,
    past_arrivals,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload, nothing_past
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray

#: One processor: job 0 runs since 100 s, 1 and 2 wait for it.
QUEUE = QueueNow(
    now=1000.0,
    running=np.array([0]),
    start=np.array([900.0]),
    pending=np.array([1, 2]),
    usage=np.zeros(1),
)
BOTH = np.array([1, 2])
PROCESSORS = np.ones(3, dtype=np.int64)
#: A job each hour for ten weeks, and one more at every noon.
SUBMIT = np.sort(
    np.concatenate([np.arange(0.0, 10 * WEEK, HOUR), np.arange(12.5 * HOUR, 10 * WEEK, DAY)])
)
QUANTILES = np.array([[60.0, 300.0, 1800.0, 3000.0, 3600.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
LIMIT = np.array([7200.0, 60.0])
MANY = 20_000


def jobs() -> Workload:
    nobody = np.zeros(3, dtype=np.int64)
    limit = np.full(3, 3600.0)
    return Workload.of(
        submit=np.array([800.0, 950.0, 1000.0]),
        run_time=np.full(3, np.nan),  # not looked at
        estimate=limit,
        time_limit=limit,
        processors=PROCESSORS,
        account=nobody,
        interactive=np.zeros(3, dtype=np.bool_),
        shares=np.ones(1),
        past=nothing_past(nobody, np.array([0, 1, 1]), limit, PROCESSORS),
    )


def first_come(workload: Workload, _: IntArray) -> QueueOrder:
    return QueueOrder(scores=-workload.submit)


def site(quantiles: FloatArray, together: float = 0.5) -> ReplayedSite:
    return ReplayedSite(
        jobs=jobs(),
        quantiles=lambda jobs: np.tile(quantiles, (len(jobs), 1)),
        order=first_come,
        settings=SimulationSettings(capacity=1, backfilling="easy"),
        together=together,
    )


def test_the_plan_takes_limits_for_run_times() -> None:
    planned = site(np.full(len(PARTS), 50.0)).planned(QUEUE, BOTH)
    assert planned.tolist() == [900.0 + 3600.0, 900.0 + 2 * 3600.0]


def test_drawn_run_times_bring_starts_forward() -> None:
    starts = site(np.array([200.0, 300.0, 400.0, 500.0, 600.0])).starts(
        QUEUE, BOTH, 400, np.random.default_rng(1)
    )
    assert starts.shape == (2, 400)
    assert (starts > 1000.0).all()
    # the running one is among those that ran longer than 100 s; behind it one run of 400 s
    first, second = np.median(starts, axis=1)
    assert 1200.0 < first < 1400.0
    assert 1550.0 < second < 1900.0
    assert (starts[1] > starts[0]).all()


def test_jobs_of_a_template_drawn_together_spread_more() -> None:
    """Who waits for two jobs of one template waits for two long runs or for two short ones."""
    just_started = replace(QUEUE, start=np.array([1000.0 - 1e-3]))
    nobody, limit = np.zeros(3, dtype=np.int64), np.full(3, 3600.0)
    alike = jobs()._replace(past=nothing_past(nobody, np.array([0, 0, 1]), limit, PROCESSORS))
    spread = []
    for together in (0.0, 1.0):
        one = site(np.array([30.0, 100.0, 400.0, 1000.0, 2000.0]), together)
        starts = replace(one, jobs=alike).starts(
            just_started, np.array([2]), 400, np.random.default_rng(2)
        )
        spread.append(float(np.std(starts - 1000.0)))
    assert spread[1] > 1.2 * spread[0]


def test_what_never_starts_is_said_to_start_after_ninety_days() -> None:
    years = np.full(3, 1e8)
    endless = replace(
        site(np.full(len(PARTS), 1e8)), jobs=jobs().having(estimate=years, time_limit=years)
    )
    starts = endless.starts(QUEUE, BOTH[:1], 2, np.random.default_rng(1))
    assert starts.tolist() == [[1000.0 + 90 * DAY] * 2]


@pytest.mark.parametrize("span", [DAY, WEEK, 2 * WEEK])
def test_jobs_of_the_past_come_at_their_hour(span: float) -> None:
    now = 8 * WEEK + 1000.0
    jobs, submit = past_arrivals(SUBMIT, now, span, np.random.default_rng(1))
    assert len(jobs) == np.searchsorted(SUBMIT, now) - np.searchsorted(SUBMIT, now - span)
    assert (np.diff(submit) >= 0.0).all()
    assert submit[0] > now
    assert submit[-1] <= now + span
    assert (SUBMIT[jobs] <= now).all(), "nobody knows who comes later"
    np.testing.assert_allclose((submit - SUBMIT[jobs]) % WEEK, 0.0)


def test_in_the_first_week_days_are_drawn_at_their_hour() -> None:
    now, back = 4.5 * DAY, set()
    for seed in range(40):
        jobs, submit = past_arrivals(SUBMIT, now, 1.5 * DAY, np.random.default_rng(seed))
        assert (SUBMIT[jobs] <= now).all()
        assert (np.diff(submit) >= 0.0).all()
        np.testing.assert_allclose((submit - SUBMIT[jobs]) % DAY, 0.0)
        back.add(round((submit[0] - SUBMIT[jobs[0]]) / DAY))
    assert back == {1, 2, 3, 4}


def test_on_the_first_day_nobody_is_known_to_come() -> None:
    jobs, submit = past_arrivals(SUBMIT, 0.9 * DAY, DAY, np.random.default_rng(1))
    assert len(jobs) == len(submit) == 0


def drawn(job: int, ran: float) -> np.ndarray:
    jobs = np.full(MANY, job)
    spreads = RunSpreads.of_quantiles(QUANTILES[jobs], LIMIT[jobs])
    return spreads.drawn(np.full(MANY, ran), (np.arange(MANY) + 0.5) / MANY)


def test_the_foretold_parts_of_the_runs_are_shorter() -> None:
    seconds = drawn(0, 0.0)
    for part, quantile in zip(PARTS, QUANTILES[0], strict=True):
        assert (seconds <= quantile).mean() == pytest.approx(part, abs=1e-3)
    assert seconds.min() >= 1.0
    assert seconds.max() <= LIMIT[0] * 1.001


@pytest.mark.parametrize("ran", [100.0, 1800.0, 3500.0])
def test_a_running_job_is_drawn_among_the_runs_that_got_so_far(ran: float) -> None:
    seconds, all_runs = drawn(0, ran), drawn(0, 0.0)
    assert seconds.min() > ran
    longer = all_runs[all_runs > ran]
    for part in PARTS:
        assert np.quantile(seconds, part) == pytest.approx(np.quantile(longer, part), rel=0.02)


def test_who_has_outlived_all_that_was_foretold_ends_next() -> None:
    assert drawn(0, 9000.0).tolist() == [9001.0] * MANY
