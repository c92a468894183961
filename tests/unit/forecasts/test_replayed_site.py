"""Starts in replays: of a queue whose future is known, and of one whose run times are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.forecasts.replays.queue_now import QueueNow
from slurm_rl_plugin.forecasts.replays.replayed_site import ReplayedSite
from slurm_rl_plugin.simulator.kernel.workload import Workload, nothing_past
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

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


def test_the_same_seed_draws_the_same() -> None:
    one = site(np.array([200.0, 300.0, 400.0, 500.0, 600.0]))
    drawn = [one.starts(QUEUE, BOTH, 5, np.random.default_rng(seed)) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()


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
