"""Rows of history in the compiled loop: who keeps one, and what single events tell it."""

import numpy as np
import pytest

from slurm_rl_plugin.features.estimates import UNKNOWN_RUN_TIME
from slurm_rl_plugin.features.history.run_history import HISTORY, SPENT, UNKNOWN
from slurm_rl_plugin.simulator.kernel.workload_history import (
    ENDED_EVENT,
    NO_PAST,
    fold_run,
    known_rows,
    nothing_past,
    past_speaks,
)

#: Four jobs of three users; the last two are of one template.
USER, TEMPLATE = np.array([2, 0, 1, 1]), np.array([3, 0, 1, 1])
NO_LIMIT = np.full(4, np.nan)


def known_past():
    """Rows whose numbers say whose they are; user 2 and his templates are not known."""
    past = nothing_past(USER, TEMPLATE, NO_LIMIT)
    past.users[:] = np.arange(3.0)[:, None]
    past.templates[:] = 10.0 + np.arange(4.0)[:, None]
    past.user_known[:2] = True
    past.template_known[:2] = True
    past.site[:] = 7.0
    return past


def test_nothing_is_known_at_first():
    past = nothing_past(USER, TEMPLATE, NO_LIMIT)
    assert past.users.shape == (3, HISTORY)
    assert past.templates.shape == (4, HISTORY)
    assert not past.user_known.any()
    assert not past.template_known.any()
    assert past.site.tolist() == list(UNKNOWN)


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
    past = known_past()
    chosen = past.of_jobs(np.array(index, dtype=np.int64))
    assert chosen.users[:, 0].tolist() == users
    assert chosen.templates[:, 0].tolist() == templates
    assert chosen.user_known.tolist() == [each < 2 for each in users]
    assert chosen.template_known.tolist() == [each < 12 for each in templates]
    assert (chosen.user.tolist(), chosen.template.tolist()) == (user, template)
    assert chosen.user.dtype == chosen.template.dtype == np.int64
    assert chosen.site.tolist() == past.site.tolist()


def test_jobs_can_be_chosen_by_a_mask_and_their_rows_are_their_own():
    past = known_past()
    chosen = past.of_jobs(np.array([False, False, True, True]))
    fold_run(chosen, 0, 0, ENDED_EVENT, 30.0, 2.0)
    copy = past.copy()
    fold_run(copy, 0, 0, ENDED_EVENT, 30.0, 2.0)
    for name, column in known_past()._asdict().items():
        assert getattr(past, name).tolist() == column.tolist(), name


def test_jobs_whose_users_are_not_told_apart_stay_so():
    assert NO_PAST.of_jobs(np.arange(5)) is NO_PAST
    assert len(NO_PAST.users) == len(NO_PAST.templates) == 0


def test_a_run_that_ended_after_five_minutes_by_hand():
    past = nothing_past(USER, TEMPLATE, NO_LIMIT)
    fold_run(past, 1, 2, ENDED_EVENT, 300.0, 4.0)
    log_run = np.log10(301.0)
    own = [0.1, 0.1]  # 300 s is no run below 60 s; who said so was the event of outliving 60 s
    own += [0.4 + 0.5 * 0.6, 0.4 + 0.1 * 0.6, 0.7 + 0.5 * 0.3, 0.7 + 0.1 * 0.3]
    own += [3 + 0.5 * (log_run - 3), 3 + 0.1 * (log_run - 3), 300.0, 3600.0]
    own += [0.01 + 0.1 * (1 / 300 - 0.01)]
    assert past.users[1].tolist() == pytest.approx([*own, 1200.0])
    assert past.templates[2].tolist() == pytest.approx([*own, 0.0])
    assert past.site[2:6].tolist() == pytest.approx(
        [0.4 + 0.02 * 0.6, 0.4 + 0.002 * 0.6, 0.7 + 0.02 * 0.3, 0.7 + 0.002 * 0.3]
    )
    assert past.site[8:].tolist() == pytest.approx([300, 3600, 0.01 + 0.002 * (1 / 300 - 0.01), 0])
    assert past.user_known.tolist() == [False, True, False]
    assert past.template_known.tolist() == [False, False, True, False]
    assert not past.users[[0, 2]].any()


@pytest.mark.parametrize("kind", range(ENDED_EVENT))
def test_a_run_that_outlives_a_bound_tells_of_this_bound_alone(kind):
    past = nothing_past(USER, TEMPLATE, NO_LIMIT)
    fold_run(past, 0, 0, kind, np.nan, 4.0)
    expected = np.array(UNKNOWN)
    expected[2 * kind : 2 * kind + 2] *= (0.5, 0.9)
    assert past.users[0].tolist() == pytest.approx(expected.tolist())
    assert past.templates[0].tolist() == pytest.approx(expected.tolist())
    site = np.array(UNKNOWN)
    site[2 * kind : 2 * kind + 2] *= (0.98, 0.998)
    assert past.site.tolist() == pytest.approx(site.tolist())


@pytest.mark.parametrize("bound", [60.0, 900.0, 7200.0])
def test_a_run_of_just_a_bound_is_no_shorter_one(bound):
    past, below = nothing_past(USER, TEMPLATE, NO_LIMIT), nothing_past(USER, TEMPLATE, NO_LIMIT)
    fold_run(past, 0, 0, ENDED_EVENT, bound, 1.0)
    fold_run(below, 0, 0, ENDED_EVENT, bound - 0.5, 1.0)
    places = 2 * [60.0, 900.0, 7200.0].index(bound) + np.arange(2)
    assert past.users[0][places].tolist() == np.array(UNKNOWN)[places].tolist()
    assert (below.users[0][places] > past.users[0][places]).all()


def test_the_two_last_run_times_are_kept_in_order():
    past = nothing_past(USER, TEMPLATE, NO_LIMIT)
    for run_time in (5.0, 8000.0, 70.0):
        fold_run(past, 0, 0, ENDED_EVENT, run_time, 1.0)
    assert past.users[0][8:10].tolist() == [70.0, 8000.0]
    fold_run(past, 0, 0, 1, 99999.0, 1.0)  # outliving is no end
    assert past.users[0][8:10].tolist() == [70.0, 8000.0]


def test_a_run_shorter_than_ten_seconds_counts_as_ten():
    first, second = nothing_past(USER, TEMPLATE, NO_LIMIT), nothing_past(USER, TEMPLATE, NO_LIMIT)
    fold_run(first, 0, 0, ENDED_EVENT, 0.5, 1.0)
    fold_run(second, 0, 0, ENDED_EVENT, 10.0, 1.0)
    assert first.users[0][10] == second.users[0][10] == pytest.approx(0.01 + 0.1 * 0.09)


def test_who_is_new_begins_with_the_level_above_as_it_was_before_the_event():
    past = nothing_past(USER, TEMPLATE, NO_LIMIT)
    fold_run(past, 0, 0, ENDED_EVENT, 20.0, 1.0)
    site, user = past.site.copy(), past.users[0].copy()
    fold_run(past, 1, 1, 0, 0.0, 1.0)  # a new user begins as the site
    assert past.users[1][0] == pytest.approx(0.5 * site[0])
    assert past.users[1][2:].tolist() == site[2:].tolist()
    fold_run(past, 0, 2, 0, 0.0, 1.0)  # a known user's new template begins as its user
    assert past.templates[2][0] == pytest.approx(0.5 * user[0])
    assert past.templates[2][2:].tolist() == user[2:].tolist()
    assert past.templates[2].tolist() != past.templates[0].tolist()


def test_the_level_above_speaks_for_who_is_not_known():
    past = known_past()
    assert [row[0] for row in known_rows(past, 0, 0)] == [0.0, 10.0]
    assert [row[0] for row in known_rows(past, 1, 2)] == [1.0, 1.0]
    assert [row[0] for row in known_rows(past, 2, 3)] == [7.0, 7.0]


def test_a_template_asks_for_its_limit_or_for_what_stands_for_none():
    past = nothing_past(USER, TEMPLATE, np.array([60.0, np.nan, 900.0, 900.0]))
    np.testing.assert_array_equal(past.asked[[3, 0, 1]], [60.0, UNKNOWN_RUN_TIME, 900.0])
    np.testing.assert_array_equal(past.of_jobs(np.array([2, 3])).asked, [900.0])


def test_what_a_user_has_spent_speaks_for_a_large_request_until_a_long_run():
    past = nothing_past(USER, TEMPLATE, np.array([86_400.0, 86_399.0, 60.0, 60.0]))
    assert not past_speaks(past, 2, 3, 64.0)  # 1536 core-hours of a user who never ran
    assert past_speaks(past, 0, 0, 64.0)  # a second less
    fold_run(past, 2, 3, ENDED_EVENT, 6911.0, 800.0)
    assert not past_speaks(past, 2, 3, 64.0)
    fold_run(past, 2, 3, ENDED_EVENT, 100.0, 8.0)
    assert past_speaks(past, 2, 3, 64.0)
    assert not past_speaks(past, 0, 0, 65.0)  # another user's
    fold_run(past, 2, 3, 0, 0.0, 8.0)
    fold_run(past, 2, 3, 1, 0.0, 8.0)
    assert past_speaks(past, 2, 3, 64.0)
    fold_run(past, 2, 3, 2, 0.0, 8.0)  # it has outlived two hours
    assert past.users[2, SPENT] == 0.0
    assert not past_speaks(past, 2, 3, 64.0)
    fold_run(past, 2, 3, ENDED_EVENT, 7200.0, 8.0)
    assert past.users[2, SPENT] == past.site[SPENT] == 0.0
