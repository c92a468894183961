"""The 2011 paper: what Table 1 cannot be, learners averaged, and claims on small loads."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID_2011
from slurm_rl_plugin.learning.evaluation.paired import medians_of
from slurm_rl_plugin.papers.non_markovian_2011.experiment import (
    DECLARED,
    FORGETFUL,
    LEARNED,
    contenders,
    generated,
    largest_deviation,
    memory_row,
)
from slurm_rl_plugin.papers.study.study import QUICK
from slurm_rl_plugin.papers.study.trials import (
    SJF,
    PairedTrial,
    figures_by_learner,
    measure_over_learners,
    run_trial,
    with_averages,
)
from tests.functional.small_site import by_run_time


@pytest.fixture(scope="module")
def trial() -> PairedTrial:
    logs = generated(0.7, range(3), QUICK)
    networks = {name: [by_run_time(REACTIVE_GRID_2011)] * 2 for name in (*LEARNED, *FORGETFUL)}
    policies = contenders(networks, medians_of(*logs), native=False)
    return with_averages(run_trial(logs, policies, (60, 60), lambda _: None), networks)


def test_the_largest_deviation_is_reached_and_not_passed() -> None:
    assert largest_deviation(108.0, 160.0, 900.0) == pytest.approx(175.54, abs=0.01)
    assert largest_deviation(160.0, 108.0, 900.0) > 190.0
    rng = np.random.default_rng(1)
    for _ in range(200):
        times = rng.choice([0.0, rng.uniform(0, 900), 900.0], size=rng.integers(50, 400))
        mean, median = times.mean(), np.median(times)
        if 0.0 < median < 900.0:
            assert times.std() <= largest_deviation(mean, median, 900.0) + 1e-6
    extreme = np.repeat([0.0, 160.0, 900.0], [5000, 4622, 378])  # half at 0
    bound = largest_deviation(extreme.mean(), 160.0, 900.0)
    assert extreme.std() == pytest.approx(bound, rel=0.001)


def test_learners_are_averaged_log_by_log(trial: PairedTrial) -> None:
    both = figures_by_learner(trial, "NN-ORA", "R")
    assert both.shape == (2, 3)
    np.testing.assert_array_equal(trial.figure("NN-ORA", "R"), both.mean(axis=0))
    np.testing.assert_array_equal(trial.figure("NN-ORA", "R"), trial.figure(SJF, "R"))


def test_one_lucky_learner_is_no_improvement_of_its_kind() -> None:
    differences = np.array([[0.3] * 20, [0.0] * 20, [-0.1] * 20])
    found = measure_over_learners(differences)
    assert found.value == pytest.approx(0.2 / 3)
    assert found.ci95 is not None
    assert found.ci95[0] < 0.0 < found.ci95[1]
    assert measure_over_learners(differences) == found


def test_equal_networks_show_no_worth_of_memory(trial: PairedTrial) -> None:
    [claim] = DECLARED.claims([memory_row("a load", trial, "ORA", "NN")])
    assert claim.measured.value == 0.0
    assert claim.reproduces is False
    assert "95 % interval" in claim.because
