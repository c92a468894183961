"""What one run adds to a row of history, and the class of a request; by hand."""

import math

import numpy as np
import pytest

from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    HISTORY,
    NO_LIMIT,
    REQUEST_CLASSES,
    asked_time,
    fold_ended,
    place_of,
    request_class,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
MANY = len(BOUNDS)
TEN_MINUTES = BOUNDS.index(600.0)
#: A run whose limit ended it where it has told all before.
NOTHING_NEW = 2 * MANY


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


def test_a_request_without_a_time_limit_asks_for_two_days():
    assert asked_time(np.array([60.0, 30 * DAY, math.nan, math.inf, 0.0])).tolist() == [
        60.0, 30 * DAY, 2 * DAY, 2 * DAY, 2 * DAY,
    ]  # fmt: skip
    assert asked_time(math.nan) == NO_LIMIT == 2 * DAY


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
