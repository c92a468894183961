"""Rows of history in the compiled loop: who keeps one, and what single events tell it."""

import numpy as np
import pytest

from slurm_rl_plugin.features.history.run_history import (
    AT_RISK,
    BOUNDS,
    ENDED_BEFORE,
    HISTORY,
    INVERSE,
    LAST,
    NO_LIMIT,
    PREVIOUS,
    REQUEST_CLASSES,
    SPENT,
    request_class,
)
from slurm_rl_plugin.simulator.kernel.workload import (
    ENDED_EVENT,
    NO_PAST,
    fill_known_hazards,
    fold_run,
    nothing_past,
    past_speaks,
)

#: Four jobs of three users; the last two are of one template.
USER, TEMPLATE = np.array([2, 0, 1, 1]), np.array([3, 0, 1, 1])
LIMIT, PROCESSORS = np.array([600.0, 600.0, 7000.0, 7000.0]), np.array([4, 4, 1, 1])
TWO_HOURS = BOUNDS.index(7200.0)


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


def counts(row):
    """Bound -> (runs that ended before it, runs that came so far), where there are any."""
    pairs = zip(BOUNDS, row[ENDED_BEFORE:], row[AT_RISK:], strict=False)
    return {bound: (float(ended), float(came)) for bound, ended, came in pairs if ended or came}


def rows_of(past, user, template):
    """The rows that a run of a user's template tells: of site, user, limits alike, template."""
    limits = past.limits[past.within[template]]
    own = past.templates[past.own[template]]
    return past.site[past.alike[template]], past.users[user], limits, own


def test_nothing_is_known_at_first():
    past = nothing()
    assert past.site.shape == (REQUEST_CLASSES, HISTORY)
    assert past.users.shape == (3, HISTORY)
    assert past.limits.shape == (4, HISTORY)  # the third template has no jobs
    assert past.templates.shape == (4, HISTORY)
    assert not past.site.any()
    assert not past.users.any()
    assert not past.limits.any()
    assert not past.templates.any()


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


def test_jobs_whose_users_are_not_told_apart_stay_so():
    assert NO_PAST.of_jobs(np.arange(5)) is NO_PAST
    assert len(NO_PAST.site) == len(NO_PAST.users) == len(NO_PAST.templates) == 0


def test_a_run_that_ended_after_five_minutes_by_hand():
    past = nothing()
    fold_run(past, 2, 3, ENDED_EVENT, 300.0)  # no shorter than 300 s, shorter than 600 s
    for row in rows_of(past, 2, 3):
        assert counts(row) == {600.0: (1.0, 1.0)}
    user = past.users[2]
    assert user[[SPENT, LAST, PREVIOUS, INVERSE]].tolist() == [4 * 300.0, 300.0, 300.0, 1 / 300]
    assert not past.templates[past.own[3], SPENT:].any()
    assert not past.site[:, SPENT:].any()
    assert np.count_nonzero(past.site.any(axis=1)) == 1
    assert not past.users[:2].any()
    assert not past.templates[past.own[:3]].any()


def test_newer_runs_weigh_more():
    past = nothing()
    for run_time in (300.0, 300.0, 400.0):
        fold_run(past, 2, 3, ENDED_EVENT, run_time)
    fold_run(past, 2, 3, BOUNDS.index(600.0), np.nan)
    for row, keeps in ((past.users[2], 0.9), (past.templates[past.own[3]], 0.6)):
        ended = keeps**3 + keeps**2 + keeps
        assert counts(row)[600.0] == pytest.approx((ended, ended + 1.0))


def test_among_limits_alike_a_run_counts_the_less_the_more_its_template_has_told():
    """One run before halves the weight of the next, which takes half as much from it."""
    past = nothing()
    fold_run(past, 2, 3, ENDED_EVENT, 300.0)
    fold_run(past, 2, 3, BOUNDS.index(600.0), np.nan)
    kept = 1.0 - 0.5 * 0.07
    limits = past.limits[past.within[3]]
    assert counts(limits) == {600.0: pytest.approx((kept, kept + 0.5))}


def test_templates_of_a_user_share_a_row_where_their_limits_are_alike():
    user, template = np.array([0, 0, 0, 1]), np.arange(4)
    limit, wide = np.array([480.0, 959.0, 960.0, 480.0]), np.array([1, 2, 4, 8])
    within = nothing_past(user, template, limit, wide).within
    assert within[0] == within[1]
    assert len({*within.tolist()}) == 3


def test_at_the_site_a_run_counts_the_less_the_more_its_user_has_told():
    past = nothing()
    fold_run(past, 2, 3, ENDED_EVENT, 300.0)
    fold_run(past, 2, 3, BOUNDS.index(600.0), np.nan)  # one run of the user came so far before
    fold_run(past, 0, 0, ENDED_EVENT, 400.0)  # of another user, who asks for the same
    site = rows_of(past, 2, 3)[0]
    ended, came = 1.0, 1.0
    for weight, ends in ((0.25, 0.0), (1.0, 1.0)):
        kept = 1.0 - 0.001 * weight
        ended, came = kept * ended + weight * ends, kept * came + weight
    assert counts(site) == {600.0: pytest.approx((ended, came))}
    assert came == pytest.approx(2.25, abs=0.003)
    fold_run(past, 2, 1, ENDED_EVENT, 500.0)  # what the user asks for else is heard there
    assert counts(past.site[past.alike[1]])[600.0][1] == pytest.approx(1 / 2.9**2)


@pytest.mark.parametrize("kind", range(ENDED_EVENT))
def test_a_run_that_outlives_a_bound_tells_of_this_bound_alone(kind):
    past = nothing()
    past.users[0, SPENT] = 100.0
    fold_run(past, 0, 0, kind, np.nan)
    for row in rows_of(past, 0, 0):
        assert counts(row) == {BOUNDS[kind]: (0.0, 1.0)}
    spent = 0.0 if kind == TWO_HOURS else 100.0  # by a long one a user begins at nothing
    assert past.users[0, SPENT:].tolist() == [spent, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("bound", "above"), [(10.0, 30.0), (60.0, 120.0), (7200.0, 14_400.0)])
def test_a_run_of_just_a_bound_is_no_shorter_one(bound, above):
    past, below = nothing(limit=1e6), nothing(limit=1e6)
    fold_run(past, 0, 0, ENDED_EVENT, bound)
    fold_run(below, 0, 0, ENDED_EVENT, bound - 0.5)
    assert counts(past.templates[past.own[0]]) == {above: (1.0, 1.0)}
    assert counts(below.templates[below.own[0]]) == {bound: (1.0, 1.0)}


def test_a_run_beyond_all_bounds_has_told_everything_before_its_end():
    past = nothing(limit=1e6)
    fold_run(past, 0, 0, ENDED_EVENT, 2 * 86_400.0)
    assert counts(past.users[0]) == {}
    assert past.users[0, LAST] == 2 * 86_400.0


@pytest.mark.parametrize(
    ("limit", "run_time", "told"),
    [
        (700.0, 692.0, {900.0: (1.0, 1.0)}),
        (700.0, 693.0, {900.0: (0.0, 1.0)}),  # 0.99 of what was asked for: it would have gone on
        (606.0, 600.0, {}),  # there it came to 600 s and no further, which it has told before
        (np.nan, 171_071.0, {172_800.0: (1.0, 1.0)}),
        (np.nan, 171_072.0, {172_800.0: (0.0, 1.0)}),  # who asks for no time asks for two days
    ],
)
def test_a_run_that_its_own_limit_ended_only_came_so_far(limit, run_time, told):
    past = nothing(limit=limit)
    fold_run(past, 0, 0, ENDED_EVENT, run_time)
    for row in rows_of(past, 0, 0):
        assert counts(row) == told


def test_the_two_last_run_times_are_kept_in_order():
    past = nothing()
    for run_time in (5.0, 8000.0, 70.0):
        fold_run(past, 0, 0, ENDED_EVENT, run_time)
    assert past.users[0, [LAST, PREVIOUS]].tolist() == [70.0, 8000.0]
    fold_run(past, 0, 0, 1, 99999.0)  # outliving is no end
    assert past.users[0, [LAST, PREVIOUS]].tolist() == [70.0, 8000.0]


def test_a_run_shorter_than_ten_seconds_counts_as_ten():
    past = nothing()
    fold_run(past, 0, 0, ENDED_EVENT, 0.5)
    assert past.users[0, INVERSE] == 0.1
    fold_run(past, 0, 0, ENDED_EVENT, 20.0)
    assert past.users[0, INVERSE] == pytest.approx(0.1 + 0.1 * (1 / 20 - 0.1))


def hazard(past, user, template, bound):
    hazards = np.full(len(BOUNDS), np.nan)
    fill_known_hazards(hazards, past, user, template)
    return pytest.approx(hazards[BOUNDS.index(bound)])


def test_each_level_is_drawn_towards_the_one_above():
    """By 5 runs of which 0.12 end, then by 10, 6 and 3 runs like those of the level above."""
    past = nothing()
    fold_run(past, 2, 3, ENDED_EVENT, 300.0)
    of_site = (1 + 5 * 0.12) / 6
    of_user = (1 + 10 * of_site) / 11
    of_limits = (1 + 6 * of_user) / 7
    assert hazard(past, 2, 3, 600.0) == (1 + 3 * of_limits) / 4
    assert hazard(past, 2, 1, 600.0) == (1 + 10 * 0.12) / 11  # the user's request of another class
    assert hazard(past, 0, 0, 600.0) == of_site  # another user asks for the same
    assert hazard(past, 1, 1, 600.0) == 0.12  # another user's of another class
    assert hazard(past, 2, 3, 900.0) == 0.12  # no run has come to 600 s


def test_a_large_request_that_was_not_paid_for_is_judged_by_requests_alike():
    past = nothing(limit=86_400.0, processors=np.array([64, 64, 64, 64]))
    fold_run(past, 2, 3, ENDED_EVENT, 300.0)
    of_site = (1 + 5 * 0.12) / 6
    assert hazard(past, 2, 3, 600.0) == of_site
    past.users[2, SPENT] = 86_400.0 * 64
    of_limits = (1 + 6 * (1 + 10 * of_site) / 11) / 7
    assert hazard(past, 2, 3, 600.0) == (1 + 3 * of_limits) / 4


def test_a_template_has_the_limit_and_the_width_of_its_jobs_and_the_class_of_these():
    limit, wide = np.array([60.0, np.nan, 900.0, 900.0]), np.array([1, 2, 16, 16])
    past = nothing_past(USER, TEMPLATE, limit, wide)
    assert past.asked[[3, 0, 1]].tolist() == [60.0, NO_LIMIT, 900.0]
    assert past.processors[[3, 0, 1]].tolist() == [1.0, 2.0, 16.0]
    # of a minute; of 2880 minutes, which are 2048 and more; of 15, which are 8 and more
    assert past.alike[[3, 0, 1]].tolist() == [0, 14 * 11 + 1, 14 * 3 + 4]
    assert past.alike[1] == request_class(900.0, 16)


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
