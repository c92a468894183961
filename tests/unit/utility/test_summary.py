"""The fields of a report by hand, and the objective with the weights that it refuses."""

import math

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.summary import ScheduledJobs, one_user_capped, summarise
from tests.case_files import rows

#: submit, start, run, processors, account, interactive
ROWS = np.array(
    [
        (0, 0, 100, 1, 0, 1),
        (0, 120, 1000, 2, 1, 0),
        (10, 131, 50, 1, 0, 1),
        (20, 320, 2, 1, 1, 1),
    ],
    dtype=float,
)
JOBS = ScheduledJobs(
    submit=ROWS[:, 0],
    start=ROWS[:, 1],
    run_time=ROWS[:, 2],
    processors=ROWS[:, 3].astype(np.int64),
    account=ROWS[:, 4].astype(np.int64),
    interactive=ROWS[:, 5] > 0,
    shares=np.array([0.5, 0.5]),
    capacity=4,
)
WAIT = [0.0, 120.0, 121.0, 300.0]
#: starts: nothing consumed; 100/0; 100/22; 150/400
FAIRNESS = [0.0, 0.0, 1 - (0.5 - 22 / 122) / 0.5, 1 - (0.5 - 150 / 550) / 0.5]
UTILITY = [1.0, (1120 / 1060) ** -0.3, math.exp(-0.5 * 61 / 60), math.exp(-0.5 * 240 / 60)]


@rows("utility", "one_user", "of_eve of_others counts")
def test_one_user_has_at_most_half_of_a_figure(of_eve: int, of_others: int, counts: float):
    user = np.array(["eve"] * of_eve + ["ann", "ben"] * of_others)[: of_eve + of_others]
    weight = one_user_capped(np.ones(len(user)), user)
    assert weight[user == "eve"].sum() == pytest.approx(counts)
    assert (weight[user != "eve"] == 1.0).all()


def test_a_report_by_hand():
    report = summarise(JOBS, accounts=("first", "second"))
    overhead, slowdown = [0, 120 / 1000, 121 / 50, 150], [1, 1120 / 1000, 171 / 50, 302 / 10]
    interactive = {
        "jobs": 3,
        "median_wait": 121,
        "max_wait": 300,
        "p95_wait": np.quantile([0, 121, 300], 0.95),
        "within_120s": 1 / 3,
    }
    batch = {"jobs": 1, "time_utility": UTILITY[1], "within_120s": 1.0}  # it waited 120 s
    first = {"jobs": 2, "work_fraction": 150 / 2152}
    expected = {
        "jobs": 4,
        "mean_wait": np.mean(WAIT),
        "std_wait": np.std(WAIT),
        "max_wait": 300,
        "time_utility": np.mean(UTILITY),
        "responsiveness": np.mean([1, 1000 / 1120, 50 / 171, 2 / 302]),
        "mean_bounded_slowdown": np.mean(slowdown),
        "relative_overhead_p90": np.quantile(overhead, 0.9),
        "fairness": np.mean(FAIRNESS),
        "fairness_final": FAIRNESS[3],
        "objective": (np.mean(UTILITY) + np.mean(FAIRNESS)) / 2,
        "utilization": (100 + 2000 + 50 + 2) / (4 * 1120),
    }
    for found, wanted in (
        (report, expected),
        (report["classes"]["interactive"], interactive),
        (report["classes"]["batch"], batch),
        (report["accounts"]["first"], first),
        (report["accounts"]["second"], {"share": 0.5, "mean_wait": 210}),
    ):
        assert {name: found[name] for name in wanted} == pytest.approx(wanted)


def test_dropped_jobs_count_in_no_mean_but_have_consumed_service():
    report = summarise(JOBS, drop=(1, 1))
    assert report["jobs"] == 2
    assert report["max_wait"] == 121
    assert report["fairness"] == pytest.approx(np.mean(FAIRNESS[1:3]))
    assert report["fairness_final"] == pytest.approx(FAIRNESS[2])


@pytest.mark.parametrize("drop", [(4, 0), (0, 4), (2, 2), (0, 5), (0, 7), (9, 9)])
def test_dropping_all_jobs_or_more_leaves_nothing_to_tell(drop):
    report = summarise(JOBS, drop=drop)
    assert report["jobs"] == 0
    assert report["mean_wait"] is None
    assert report["fairness_final"] is None
    assert report["objective"] is None
    assert report["classes"]["batch"]["within_120s"] is None


@rows("utility", "objectives", "weights figures value")
def test_the_objective(weights, figures, value):
    assert RewardWeights(**weights).objective(*figures) == pytest.approx(value)


@rows("utility", "weights_refused", "weights words")
def test_impossible_weights_are_refused(weights, words):
    with pytest.raises(ConfigurationError, match=words):
        RewardWeights(**weights)


def test_weights_may_miss_one_by_rounding():
    assert RewardWeights(time_utility=0.25 + 5e-7).time_utility > 0.25
