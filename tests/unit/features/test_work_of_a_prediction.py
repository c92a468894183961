"""How much is computed for a queue: by what is predicted alike, not by jobs."""

import numpy as np
import pytest

from slurm_rl_plugin.features.history.columns import history_columns, known_past
from slurm_rl_plugin.features.history.past_runs import PastRuns
from tests.unit.features.run_tables import Run, snapshot_of

DAY = 86_400.0


def predictions(waiting, past=None):
    """How many predictions a queue needs."""
    snapshot = snapshot_of(DAY, pending=waiting)
    return len(known_past(snapshot, snapshot.pending.jobs, past or PastRuns()).time_limit)


def test_jobs_of_a_user_and_class_with_the_same_limit_are_predicted_once():
    waiting = [
        Run(n, user, wide, 600.0, 0.0) for n in range(50) for user in (0, 1) for wide in (4, 7)
    ]
    assert predictions(waiting) == 2
    assert predictions([*waiting, Run(100, 0, 8, 600.0, 0.0)]) == 3  # another class
    assert predictions([*waiting, Run(100, 0, 4, 601.0, 0.0)]) == 3  # another limit of the class


def test_a_template_that_has_run_is_predicted_apart():
    ran = Run(1, 0, 5, 600.0, 0.0, 30.0)
    past = PastRuns().after(snapshot_of(DAY, ended=[ran]))
    waiting = [Run(n, 0, wide, 600.0, 0.0) for n, wide in enumerate((4, 5, 6, 7, 5))]
    assert predictions(waiting, past) == 2
    other, same = history_columns(snapshot_of(DAY, pending=waiting[:2]), past)[:, 0]
    assert same < other


def test_a_large_request_is_predicted_apart_from_small_ones_of_its_class():
    small, large = Run(1, 0, 64, 20 * 3600.0, 0.0), Run(2, 0, 100, 20 * 3600.0, 0.0)
    assert predictions([small, large, small]) == 2


@pytest.mark.parametrize("jobs", [1, 1000])
def test_a_prediction_reaches_every_job_of_its_kind(jobs):
    waiting = [Run(n, n % 3, 4 + n % 4, 600.0 + n % 2, 0.0) for n in range(jobs)]
    whole = history_columns(snapshot_of(DAY, pending=waiting), PastRuns())
    for job in (0, jobs // 2, jobs - 1):
        alone = history_columns(snapshot_of(DAY, pending=[waiting[job]]), PastRuns())
        np.testing.assert_array_equal(whole[job, :2], alone[0, :2])
