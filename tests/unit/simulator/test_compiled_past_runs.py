"""Rows of history in the compiled loop: who keeps one, and what single events tell it."""

import numpy as np
import pytest

from slurm_rl_plugin.features.history.run_history import BOUNDS, REQUEST_CLASSES, SPENT
from slurm_rl_plugin.simulator.kernel.workload import (
    ENDED_EVENT,
    fold_run,
    nothing_past,
    past_speaks,
)

TWO_HOURS = BOUNDS.index(7200.0)
#: Four jobs of three users; the last two are of one template.
USER, TEMPLATE = np.array([2, 0, 1, 1]), np.array([3, 0, 1, 1])
LIMIT, PROCESSORS = np.array([600.0, 600.0, 7000.0, 7000.0]), np.array([4, 4, 1, 1])


def nothing(limit=LIMIT, processors=PROCESSORS):
    return nothing_past(USER, TEMPLATE, np.broadcast_to(limit, 4), processors)


def numbered_past():
    """Rows whose numbers say whose they are."""
    past = nothing()
    past.users[:] = np.arange(3.0)[:, None]
    past.limits[:] = 20.0 + np.arange(len(past.limits))[:, None]
    past.templates[past.own] = 10.0 + np.arange(4.0)[:, None]
    past.site[:] = np.arange(REQUEST_CLASSES)[:, None]
    return past


@pytest.mark.parametrize(
    ("index", "users", "templates", "user", "template"),
    [
        ([2, 3], [1], [11], [0, 0], [0, 0]),
        ([3, 0, 1], [0, 1, 2], [10, 11, 13], [1, 2, 0], [1, 2, 0]),
        ([0, 0], [2], [13], [0, 0], [0, 0]),
        ([], [], [], [], []),
    ],
)
def test_chosen_jobs_keep_the_rows_that_are_theirs(index, users, templates, user, template):
    past, index = numbered_past(), np.array(index, dtype=np.int64)
    chosen = past.of_jobs(index)
    assert chosen.users[:, 0].tolist() == users
    assert chosen.templates[chosen.own, 0].tolist() == templates
    assert (chosen.user.tolist(), chosen.template.tolist()) == (user, template)
    assert chosen.user.dtype == chosen.template.dtype == np.int64
    assert chosen.site.tolist() == past.site.tolist()
    expected = past.limits[past.within[TEMPLATE[index]]]
    assert chosen.limits[chosen.within[chosen.template]].tolist() == expected.tolist()
    assert len(chosen.limits) == len(users)  # each user has one kind of limits
    for name in ("asked", "processors", "alike"):
        of_jobs = getattr(past, name)[TEMPLATE[index]]
        assert getattr(chosen, name)[chosen.template].tolist() == of_jobs.tolist()


def test_jobs_can_be_chosen_by_a_mask_and_their_rows_are_their_own():
    past = numbered_past()
    chosen = past.of_jobs(np.array([False, False, True, True]))
    fold_run(chosen, 0, 0, ENDED_EVENT, 30.0)
    copy = past.copy()
    fold_run(copy, 0, 0, ENDED_EVENT, 30.0)
    for name, column in numbered_past()._asdict().items():
        assert getattr(past, name).tolist() == column.tolist(), name


def test_what_a_user_has_spent_speaks_for_a_large_request_until_a_long_run():
    limit = np.array([86_400.0, 86_399.0, 60.0, 60.0])
    past = nothing_past(USER, TEMPLATE, limit, np.array([64, 64, 8, 8]))
    assert not past_speaks(past, 2, 3)  # 1536 core-hours of a user who never ran
    assert past_speaks(past, 0, 0)  # a second less
    fold_run(past, 2, 3, ENDED_EVENT, 7199.0)
    past.users[2, SPENT] *= 12.0  # twelve such runs: 12 * 7199 * 64 is less than 86400 * 64
    assert not past_speaks(past, 2, 3)
    fold_run(past, 2, 1, ENDED_EVENT, 96.0)  # 12 s on 64 processors, as 96 s on 8
    assert past_speaks(past, 2, 3)
    assert not past_speaks(past, 1, 3)  # another user's
    fold_run(past, 2, 3, TWO_HOURS - 1, np.nan)
    assert past_speaks(past, 2, 3)
    fold_run(past, 2, 3, TWO_HOURS, np.nan)
    assert past.users[2, SPENT] == 0.0
    assert not past_speaks(past, 2, 3)
    fold_run(past, 2, 3, ENDED_EVENT, 7200.0)
    assert past.users[2, SPENT] == 0.0
