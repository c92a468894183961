"""A job whose components stand apart is written where another one is between them, only there."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.hook.order.queue_plan import planned_order
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from tests.unit.hook.queues import pending_jobs, snapshot_of


def written(
    native: list[int], spread: list[int], scores: list[float], **columns: list[object]
) -> list[tuple[int, int]]:
    """Job and factor of each write."""
    snapshot = snapshot_of(pending_jobs(native, spread=spread, **columns))
    _, changes = planned_order(snapshot, np.array(scores), UntouchedJobs())
    return [(change.job_id, change.new) for change in changes]


def test_nobody_between_is_no_write() -> None:
    assert written([5000, 3000, 1000], [0, 900, 0], [3, 2, 1]) == []


def test_one_between_is_one_write_of_the_job_alone() -> None:
    assert written([5000, 3500, 3000], [0, 0, 900], [3, 2, 1]) == [(3, 1)]


def test_a_factor_that_the_job_has_is_written_again() -> None:
    columns = {"factor": [0, 0, 70]}
    assert written([5000, 3500, 2930], [0, 0, 900], [3, 2, 1], **columns) == [(3, 70)]


def test_a_job_that_is_placed_anyway_is_written_once() -> None:
    jobs = [job for job, _ in written([5000, 3500, 3000], [0, 0, 900], [1, 2, 3])]
    assert len(jobs) == len(set(jobs))
    assert 3 in jobs


@pytest.mark.parametrize("reason", ["held", "admin_set"])
def test_a_job_that_we_do_not_order_stays_as_it_is(reason: str) -> None:
    columns = {reason: [False, False, True]}
    assert written([5000, 3500, 3000], [0, 0, 900], [3, 2, 1], **columns) == []


def test_a_job_that_was_moved_between_is_seen() -> None:
    # the second one comes down behind the first, whose components reach 2000 points below it
    changes = written([8000, 9000, 1000], [3000, 0, 0], [3, 2, 1])
    assert changes[0][0] in (1, 2)
