"""The 2008 paper: what Table II implies, what conservation allows, and claims on small loads."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.evaluation.paired import medians_of
from slurm_rl_plugin.papers.reactive_grids_2008.load import (
    DECLARED,
    FEASIBLE,
    RL,
    contenders,
    generated,
)
from slurm_rl_plugin.papers.reactive_grids_2008.on_line import overtakes_after
from slurm_rl_plugin.papers.reactive_grids_2008.rows import (
    fairness_over_time,
    implied_ratio,
    preference_for_long_jobs,
    rows_of_table_1,
    rows_of_waits,
    smallest_ratio,
)
from slurm_rl_plugin.papers.study.study import QUICK
from slurm_rl_plugin.papers.study.trials import FIFO, LONGEST_FIRST, SJF, PairedTrial, run_trial
from slurm_rl_plugin.utility.fairness import fairness_at_starts
from tests.functional.small_site import by_run_time


@pytest.fixture(scope="module")
def trial() -> PairedTrial:
    logs = generated(0.2, range(3), QUICK, FEASIBLE)
    policies = contenders(by_run_time(REACTIVE_GRID), medians_of(logs[0]))
    return run_trial(logs, policies, QUICK.drop_of((0, 500)), lambda _: None)


def test_table_1_follows_from_p_the_load_and_the_processors() -> None:
    claims = DECLARED.claims(rows_of_table_1())
    assert len(claims) == 12
    assert all(claim.reproduces and claim.because == "equal as printed" for claim in claims)


@pytest.mark.parametrize(("p", "product", "most"), [(0.2, 0.125, 0.235), (0.4, 0.64, 0.69)])
def test_what_table_2_implies_of_the_work_weighted_wait(
    p: float, product: float, most: float
) -> None:
    assert implied_ratio(p, most=False) == pytest.approx(product, abs=0.005)
    assert implied_ratio(p, most=True) == pytest.approx(most, abs=0.005)


def test_no_order_escapes_the_conservation_of_work(trial: PairedTrial) -> None:
    name, ratio = smallest_ratio(trial)
    assert name == LONGEST_FIRST
    assert ratio.value > implied_ratio(0.2, most=True)
    claim = next(
        c for c in DECLARED.claims(rows_of_waits(0.2, trial)) if "smallest" in c.cell.column
    )
    assert claim.reproduces is False
    assert "conservation of work" in claim.because


def test_a_network_that_likes_short_jobs_is_sjf(trial: PairedTrial) -> None:
    np.testing.assert_array_equal(trial.figure(RL, "mean wait"), trial.figure(SJF, "mean wait"))
    assert preference_for_long_jobs(by_run_time(REACTIVE_GRID)) == pytest.approx(-1.0)
    assert preference_for_long_jobs(by_run_time(REACTIVE_GRID, 1.0)) == pytest.approx(1.0)


def test_fairness_over_time_is_that_at_the_starts(trial: PairedTrial) -> None:
    jobs = trial.schedules[FIFO][0]
    at_starts = fairness_at_starts(
        jobs.start, jobs.run_time, jobs.processors, jobs.account, jobs.shares
    )
    np.testing.assert_allclose(fairness_over_time(jobs, jobs.start), at_starts, atol=1e-9)


def test_a_policy_overtakes_where_it_is_never_worse_again() -> None:
    native = np.full((4, 4), 0.8)
    windows = np.array(
        [[0.9, 0.9, 0.9, 0.9], [0.1, 0.9, 0.7, 0.8], [0.9, 0.9, 0.9, 0.1], [0.1, 0.799, 0.8, 0.9]]
    )
    np.testing.assert_array_equal(overtakes_after(windows, native), [0.0, 0.75, 1.0, 0.25])
