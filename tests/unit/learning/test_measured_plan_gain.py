"""What plan estimates are worth on the training part of logs: measured, and judged."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    RunTimePrediction,
)
from slurm_rl_plugin.features.history.run_spread import BOUNDS
from slurm_rl_plugin.learning.evaluation.continuous import ContinuousRun
from slurm_rl_plugin.learning.evaluation.plan_gain import (
    FEWEST_JOBS,
    FIRST_COME,
    WITH,
    WITHOUT,
    gain_of,
    measured_gain,
)
from slurm_rl_plugin.learning.evaluation.schedule_waits import FIGURES, ScheduleWaits
from slurm_rl_plugin.learning.load_windows import TRAINING_FRACTION
from slurm_rl_plugin.machine_files.plain_cluster import plain_cluster
from slurm_rl_plugin.policies.plan_gain import PlanGain
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.functional.small_network import small_network

ENOUGH = int(FEWEST_JOBS / TRAINING_FRACTION) + 1
PREDICTION = RunTimePrediction(
    weights=np.random.default_rng(1).normal(size=(PREDICTED, KNOWN_FACTS)),
    spread=np.random.default_rng(2).normal(size=(len(BOUNDS), KNOWN_FACTS)),
)
NETWORK = replace(small_network(sees_history=True), prediction=PREDICTION)


def a_log(jobs, machine=None):
    """Jobs of one processor each: nobody is head in vain, so no plan changes anything."""
    log = mmn_log(np.random.default_rng(3), processors=20, jobs=jobs)
    log.time_limit[:] = 3600.0 * np.ceil(log.run_time / 3600.0)
    return prepare_log(log, machine=machine)


def runs_of(slowdown, longest_wait, count=4):
    """So many runs of eight stretches of 1,000 jobs."""
    waits = ScheduleWaits(
        **{**dict.fromkeys(FIGURES, 1.0), "bounded_slowdown": slowdown},
    )
    waits = replace(waits, longest_wait=longest_wait)
    sums = np.array([np.full(8, 1000.0 * slowdown), np.full(8, 1000.0)])
    return [ContinuousRun(waits=waits, slowdowns=sums)] * count


def compared(with_, without, first_come=(20.0, 100.0)):
    return {
        name: runs_of(*figures)
        for name, figures in ((WITH, with_), (WITHOUT, without), (FIRST_COME, first_come))
    }


def test_nothing_is_gained_where_no_plan_can_change_anything():
    gain = measured_gain(NETWORK, [a_log(ENOUGH), a_log(100)])  # the short one is left out
    assert (gain.verdict, gain.slowdown, gain.ci95) == ("nothing gained", 1.0, (1.0, 1.0))
    assert gain.runs == 16


def test_on_nodes_it_is_measured_as_slurm_is_told():
    gain = measured_gain(NETWORK, [a_log(ENOUGH, plain_cluster(20).machine)])
    assert (gain.verdict, gain.slowdown) == ("nothing gained", 1.0)
    assert gain.runs == 16


def test_a_short_log_tells_nothing():
    assert measured_gain(NETWORK, [a_log(ENOUGH - 10)]) == PlanGain(verdict="not measured")


@pytest.mark.parametrize("prediction", [None, replace(PREDICTION, spread=None)])
def test_who_foretells_no_run_times_is_not_measured(prediction):
    assert measured_gain(replace(NETWORK, prediction=prediction), [a_log(ENOUGH)]) is None


def test_a_gain_is_one_where_nobody_waits_much_longer():
    gain = gain_of([compared((8.0, 110.0), (10.0, 100.0))])
    assert gain.verdict == "gained"
    assert (gain.slowdown, gain.longest_wait, gain.runs) == (pytest.approx(0.8), 1.1, 4)
    assert gain_of([compared((8.0, 130.0), (10.0, 100.0))]).verdict == "nothing gained"


def test_of_several_logs_the_geometric_mean_counts_and_the_worst_wait():
    logs = [compared((8.0, 110.0), (10.0, 100.0)), compared((10.0, 90.0), (9.0, 100.0))]
    gain = gain_of(logs)
    assert gain.slowdown == pytest.approx((0.8 * 10 / 9) ** 0.5)
    assert (gain.ci95, gain.longest_wait) == (pytest.approx((gain.slowdown,) * 2), 1.1)
    assert gain.verdict == "gained"
    worse = [*logs, compared((10.0, 90.0), (7.0, 100.0))]
    assert gain_of(worse).verdict == "nothing gained"
