"""Time utility (2008, eq. 1-3), responsiveness and slowdown against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurm_rl_plugin.domain.utility_class import UtilityClass
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.time_utility import (
    JobUtilities,
    bounded_slowdown,
    job_rows,
    paper_row,
    relative_overhead,
    responsiveness,
    time_utility,
    time_utility_loss_rate,
)

RUN = 240.0
DEADLINE = RUN + 60.0
BOTH = pytest.mark.parametrize("interactive", [True, False], ids=["interactive", "batch"])


@BOTH
@pytest.mark.parametrize("turnaround", [RUN, RUN + 30, DEADLINE])
def test_utility_is_one_up_to_a_minute_after_the_run_time(turnaround, interactive):
    assert time_utility(turnaround, RUN, paper_row(interactive)) == 1.0


@BOTH
@pytest.mark.parametrize("late", [1.0, 100.0, 3000.0])
def test_loss_rate_is_minus_the_derivative_of_the_utility(late, interactive):
    at, step = DEADLINE + late, 1e-3
    ahead = time_utility(at + step, RUN, paper_row(interactive))
    behind = time_utility(at - step, RUN, paper_row(interactive))
    rate = time_utility_loss_rate(
        at, RUN, paper_row(interactive), time_utility(at, RUN, paper_row(interactive))
    )
    # central differences of values near 1: rounding is 1e-16 / 1e-3, curvature step^2
    assert rate == pytest.approx((behind - ahead) / (2 * step), rel=1e-6, abs=1e-12)


@BOTH
def test_loss_rate_of_a_fresh_job_is_that_at_its_deadline(interactive):
    fresh = time_utility_loss_rate(RUN, RUN, paper_row(interactive), 1.0)
    assert fresh == time_utility_loss_rate(DEADLINE, RUN, paper_row(interactive), 1.0)
    assert fresh == pytest.approx(0.5 / 60 if interactive else 0.3 / DEADLINE)


def utility_after(wait, **keys):
    return time_utility(RUN + np.asarray(wait), RUN, UtilityClass(**keys).row)


def test_a_site_varies_alpha_beta_and_sigma():
    fast = {"form": "exponential", "alpha": 2.0, "sigma": 30.0}
    # 30 s are allowed; a minute past them e^-2 is left
    assert utility_after([30.0, 90.0], **fast).tolist() == pytest.approx([1.0, math.exp(-2.0)])
    # three deadlines of 240 + 60 s
    assert utility_after(660.0, form="power", beta=1.0) == pytest.approx(1 / 3)


def test_a_deadline_is_a_step():
    assert utility_after([0.0, 60.0, 60.1, 1e6], form="deadline").tolist() == [1.0, 1.0, 0.0, 0.0]
    # an hour from submission to the end; the run takes 240 s of it
    within = utility_after([3360.0, 3360.1], form="deadline", hours=1.0)
    assert within.tolist() == [1.0, 0.0]


def test_a_piecewise_utility_is_linear_between_its_points():
    points = ((1.0, 0.8), (3.0, 0.2))
    late = np.array([-0.01, 0.0, 0.5, 1.0, 2.0, 3.0, 99.0])  # hours past the 60 s
    wait = 60.0 + 3600.0 * late
    expected = [1.0, 1.0, 0.9, 0.8, 0.5, 0.2, 0.2]
    assert utility_after(wait, form="piecewise", points=points).tolist() == pytest.approx(expected)
    falls_at_once = utility_after(60.1, form="piecewise", points=((0.0, 0.4),))
    assert falls_at_once == pytest.approx(0.4)


FORMS = [
    {"form": "exponential", "alpha": 0.01},
    {"form": "power", "beta": 2.5, "sigma": 1.0},
    {"form": "deadline", "hours": 2.0},
    {"form": "deadline", "sigma": 900.0},
    {"form": "piecewise", "points": ((0.0, 0.9), (0.5, 0.9), (1.5, 0.3), (20.0, 0.0))},
]


@pytest.mark.parametrize("keys", FORMS)
def test_no_utility_rises_and_none_leaves_the_unit_interval(keys):
    row, rng = UtilityClass(**keys).row, np.random.default_rng(1)
    for run in (0.0, 1.0, 240.0, 1e5, *rng.lognormal(7.0, 3.0, 50)):
        turnaround = run + np.sort(rng.lognormal(6.0, 4.0, 200))
        utility = time_utility(turnaround, run, row)
        assert utility[0] <= 1.0
        assert utility[-1] >= 0.0
        assert (np.diff(utility) <= 1e-12).all()
        assert time_utility(run, run, row) == 1.0 or "hours" in keys


def test_jobs_of_all_classes_in_one_column_get_what_they_get_alone():
    classes = {f"c{place}": UtilityClass(**keys) for place, keys in enumerate(FORMS)}
    of_job = np.array([4, 0, 2, 1, 3, 3])
    rows = job_rows(np.zeros(6, dtype=bool), JobUtilities.of(classes, of_job))
    turnaround = np.array([3000.0, 400.0, 9000.0, 9000.0, 9000.0, 200.0])
    alone = [
        float(time_utility(turnaround[job], RUN, classes[f"c{kind}"].row))
        for job, kind in enumerate(of_job)
    ]
    assert time_utility(turnaround, RUN, rows.T).tolist() == alone


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"form": "linear"}, "form is 'linear': give one of exponential, power"),
        ({"form": "power", "alpha": 1.0}, "alpha belongs to form exponential, not to power"),
        ({"form": "power", "beta": 0.0}, "beta is 0.0: give a number above 0"),
        ({"form": "power", "sigma": float("nan")}, "sigma is nan"),
        ({"form": "deadline", "hours": "2"}, "hours is '2'"),
        ({"form": "deadline", "interactive": 1}, "interactive is 1: give true or false"),
        ({"form": "power", "users": 0}, "users is 0: give true or false"),
        ({"form": "piecewise", "points": 3}, "points is 3"),
        ({"form": "piecewise"}, "points is \\(\\): give"),
        ({"form": "piecewise", "points": [[1.0, 0.5], [1.0, 0.4]]}, "hours rising"),
        ({"form": "piecewise", "points": [[1.0, 0.5], [2.0, 0.6]]}, "utility falling"),
        ({"form": "piecewise", "points": [[1.0, "x"]]}, "points is"),
    ],
)
def test_a_class_that_makes_no_sense_is_refused_in_one_sentence(keys, words):
    with pytest.raises(ConfigurationError, match=words):
        UtilityClass(**keys)


@pytest.mark.parametrize(
    ("measure", "wait", "run", "expected"),
    [
        (responsiveness, 150, 50, 0.25),
        (responsiveness, 1, 0.01, 0.5),  # a run below 1 s counts as 1 s
        (relative_overhead, 30, 15, 2),
        (relative_overhead, 3, 0.5, 3),
        (bounded_slowdown, 300, 100, 4.0),
        (bounded_slowdown, 18, 2, 2.0),  # a run below 10 s counts as 10 s below the line only
        (bounded_slowdown, 3, 2, 1.0),  # and the slowdown is never below 1
    ],
)
def test_measures_of_one_job(measure, wait, run, expected):
    assert measure(wait, run) == pytest.approx(expected)
