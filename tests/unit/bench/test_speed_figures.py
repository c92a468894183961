"""The table of `make bench` tells goals, floors and what went backwards."""

import pytest

from tests.bench.speed.figures.figure import Figure, against_kept, compared

RATE = Figure(name="r", unit="jobs/s", goal=100.0, rate=True)
TIME = Figure(name="t", unit="ms", goal=3.0, floor="sorting")


@pytest.mark.parametrize(
    ("figure", "value", "met"),
    [
        (RATE, 100.0, True),
        (RATE, 99.0, False),
        (TIME, 3.0, True),
        (TIME, 3.1, False),
        (Figure(name="x", unit="s"), 1.0, None),
    ],
)
def test_a_goal_is_a_bound_from_the_better_side(figure, value, met):
    assert figure.met(value) is met


@pytest.mark.parametrize(
    ("figure", "now", "before", "worse"),
    [
        (TIME, [2.0, 2.1, 2.2, 2.0, 2.1], [1.0, 1.05, 1.1, 1.0, 1.0], True),
        (TIME, [1.0, 1.1, 1.0, 1.0, 1.1], [1.0, 1.0, 1.1, 1.1, 1.0], False),
        (TIME, [0.5, 3.0, 1.0, 0.6, 2.0], [1.0] * 5, False),  # noise
        (RATE, [50.0, 52.0, 51.0, 50.0, 51.0], [100.0] * 5, True),
        (RATE, [200.0] * 5, [100.0] * 5, False),
    ],
)
def test_what_went_backwards_beyond_the_noise_is_worse(figure, now, before, worse):
    assert compared(figure, now, before)["worse"] is worse


def test_an_earlier_run_is_compared_by_its_range():
    assert against_kept(TIME, [2.0, 2.2], [1.0, 1.1])["worse"]
    assert not against_kept(TIME, [2.0, 2.2], [1.0, 1.9])["worse"]
    assert against_kept(RATE, [50.0], [100.0])["worse"]
    assert not against_kept(RATE, [100.0], [50.0])["worse"]
