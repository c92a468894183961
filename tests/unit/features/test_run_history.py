"""What one run adds to a row of history, and the class of a request; by hand."""

import math

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
    asked_time,
    fold_ended,
    fold_last,
    fold_outlived,
    place_of,
    request_class,
    weight_among_limits,
    weight_at_site,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
MANY = len(BOUNDS)
TEN_MINUTES = BOUNDS.index(600.0)
#: A run whose limit ended it where it has told all before.
NOTHING_NEW = 2 * MANY


def counts(row, place):
    """Runs that ended before a bound, of how many that came so far."""
    return row[ENDED_BEFORE + place], row[AT_RISK + place]


@pytest.mark.parametrize(
    ("run_time", "bound"),
    [(0.0, 10.0), (9.9, 10.0), (10.0, 30.0), (29.0, 30.0), (2 * HOUR, 4 * HOUR), (DAY, 2 * DAY)],
)
def test_a_run_ends_before_the_first_bound_above_its_length(run_time, bound):
    assert BOUNDS[place_of(run_time, 30 * DAY)] == bound


def test_a_run_that_has_outlived_every_bound_tells_nothing_at_its_end():
    assert place_of(2 * DAY, 30 * DAY) == NOTHING_NEW
    row = [0.0] * HISTORY
    fold_ended(row, NOTHING_NEW, 0.5, 1.0)
    assert row == [0.0] * HISTORY


def test_the_last_hundredth_of_a_limit_counts_as_ended_by_it():
    assert place_of(989.0, 1000.0) == BOUNDS.index(1800.0)
    assert place_of(990.0, 1000.0) == BOUNDS.index(1800.0) + MANY
    assert place_of(4.9, 5.0) == 0
    assert place_of(5.0, 5.0) == 0 + MANY


def test_a_limit_that_is_a_bound_ends_runs_that_have_told_all():
    assert place_of(593.0, 600.0) == TEN_MINUTES
    # 594 to 599 s: outlives 5 minutes and would have outlived 10 but for the limit
    assert place_of(594.0, 600.0) == TEN_MINUTES + MANY
    assert place_of(600.0, 600.0) == NOTHING_NEW
    # the bound of 600 s lies in the last hundredth of this limit: nothing is asked beyond it
    assert place_of(604.0, 604.0) == NOTHING_NEW


def test_an_end_and_a_survival_count_at_their_bound_and_older_runs_less():
    row = [0.0] * HISTORY
    fold_ended(row, 3, 0.5, 1.0)
    assert counts(row, 3) == (1.0, 1.0)
    fold_outlived(row, 3, 0.5, 1.0)
    assert counts(row, 3) == (0.5, 1.5)
    fold_ended(row, 3, 0.5, 1.0)
    assert counts(row, 3) == (1.25, 1.75)
    others = [value for place, value in enumerate(row) if place not in (3, AT_RISK + 3)]
    assert not any(others)


def test_a_run_that_counts_a_quarter_adds_a_quarter_and_takes_a_quarter_from_older_ones():
    row = [0.0] * HISTORY
    row[ENDED_BEFORE + 3], row[AT_RISK + 3] = 4.0, 8.0
    fold_ended(row, 3, 0.6, 0.25)  # older runs lose 0.25 * 0.4 of their weight
    assert counts(row, 3) == pytest.approx((0.9 * 4 + 0.25, 0.9 * 8 + 0.25))
    fold_outlived(row, 3, 0.6, 0.25)
    assert counts(row, 3) == pytest.approx((0.9 * 3.85, 0.9 * 7.45 + 0.25))


def test_a_run_counts_the_less_at_the_site_the_more_its_user_has_told_of_the_bound():
    assert weight_at_site(np.array([0.0, 4.0])).tolist() == [1.0, 1 / 5**2]


def test_a_run_counts_the_less_among_limits_alike_the_more_its_template_has_told_of_the_bound():
    assert weight_among_limits(np.array([0.0, 4.0])).tolist() == [1.0, 1 / 5]


def test_places_of_many_ends_are_those_of_each():
    run_time = np.array([5.0, 989.0, 990.0, 600.0, 2 * DAY])
    limit = np.array([5.0, 1000.0, 1000.0, 600.0, 30 * DAY])
    each = [place_of(*end) for end in zip(run_time.tolist(), limit.tolist(), strict=True)]
    assert place_of(run_time, limit).tolist() == each


def test_a_request_without_a_time_limit_asks_for_two_days():
    assert asked_time(np.array([60.0, 30 * DAY, math.nan, math.inf, 0.0])).tolist() == [
        60.0, 30 * DAY, 2 * DAY, 2 * DAY, 2 * DAY,
    ]  # fmt: skip
    assert asked_time(math.nan) == NO_LIMIT == 2 * DAY


def test_a_run_that_its_limit_ended_has_come_so_far_and_did_not_end():
    row = [0.0] * HISTORY
    fold_ended(row, place_of(1000.0, 1000.0), 0.5, 1.0)
    place = BOUNDS.index(1800.0)
    assert counts(row, place) == (0.0, 1.0)
    assert sum(row) == 1.0


def test_the_last_two_runs_and_the_slow_mean_of_inverses():
    row = [0.0] * HISTORY
    fold_last(row, 40.0)
    assert (row[LAST], row[PREVIOUS], row[INVERSE]) == (40.0, 40.0, 1 / 40)
    fold_last(row, 5.0)  # counts as 10 s
    assert (row[LAST], row[PREVIOUS]) == (5.0, 40.0)
    assert row[INVERSE] == pytest.approx(0.9 / 40 + 0.1 / 10)
    fold_last(row, 100.0)
    assert (row[LAST], row[PREVIOUS]) == (100.0, 5.0)


@pytest.mark.parametrize(
    ("time_limit", "processors", "expected"),
    [
        (1.0, 1, 0),
        (119.0, 1, 0),
        (120.0, 1, 14),
        (239.0, 1, 14),
        (240.0, 1, 2 * 14),
        (60.0, 2, 1),
        (60.0, 3, 1),
        (60.0, 4, 2),
        (DAY, 64, 10 * 14 + 6),  # 1440 minutes: 2^10 to 2^11
        (60.0 * 2**15 - 1, 2**13 - 1, 14 * 14 + 12),
        (60.0 * 2**15, 2**13, 15 * 14 + 13),
        (1e9, 10**6, 15 * 14 + 13),
        (0.0, 0, 0),
    ],
)
def test_classes_are_powers_of_two_of_minutes_and_processors(time_limit, processors, expected):
    assert request_class(time_limit, processors) == expected


def test_every_class_has_a_number_of_its_own_below_the_bound():
    long, wide = np.meshgrid(MINUTE * 2.0 ** np.arange(20), 2.0 ** np.arange(20))
    classes = request_class(long.ravel(), wide.ravel())
    assert np.unique(classes).tolist() == list(range(REQUEST_CLASSES))
    alone = [request_class(*each) for each in zip(long.flat, wide.flat, strict=True)]
    assert classes.tolist() == alone
    assert not any(math.isnan(each) for each in alone)
