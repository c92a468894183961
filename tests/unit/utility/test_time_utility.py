"""Time utility (2008, eq. 1-3), responsiveness and slowdown against values worked out by hand."""

from __future__ import annotations

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
from tests.case_files import rows, table

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


@rows("utility", "utilities", "keys wait utility")
def test_a_class_has_the_utility_of_its_form(keys, wait, utility):
    row = UtilityClass(**keys).row
    assert time_utility(RUN + np.array(wait), RUN, row).tolist() == pytest.approx(utility)


@rows("utility", "forms", "keys")
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
    forms = table("utility", "forms")
    classes = {f"c{place}": UtilityClass(**keys) for place, keys in enumerate(forms)}
    of_job = np.array([4, 0, 2, 1, 3, 3])
    columns = job_rows(np.zeros(6, dtype=bool), JobUtilities.of(classes, of_job)).T
    turnaround = np.array([3000.0, 400.0, 9000.0, 9000.0, 9000.0, 200.0])
    alone = [
        float(time_utility(turnaround[job], RUN, classes[f"c{kind}"].row))
        for job, kind in enumerate(of_job)
    ]
    assert time_utility(turnaround, RUN, columns).tolist() == alone


@rows("utility", "refused", "keys words")
def test_a_class_that_makes_no_sense_is_refused_in_one_sentence(keys, words):
    with pytest.raises(ConfigurationError, match=words):
        UtilityClass(**keys)


@rows("utility", "measures", "wait run response overhead slowdown")
def test_measures_of_one_job(wait, run, response, overhead, slowdown):
    assert responsiveness(wait, run) == pytest.approx(response)
    assert relative_overhead(wait, run) == overhead
    assert bounded_slowdown(wait, run) == slowdown
