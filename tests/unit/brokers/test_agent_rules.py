"""The rules of one agent, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurm_rl_plugin.brokers.agents.rules import (
    best_score,
    drawn_places,
    expected_wait,
    experience,
    learned_wait,
    reward,
    waited_so_far,
)


def test_the_run_time_alone_is_weighted_by_the_size() -> None:
    # Tw + (Texc / J) = 7 + 50 / 200; (Tw + Texc) / J would be 0.285
    assert experience(7.0, 50.0, 200.0) == 7.25


@pytest.mark.parametrize(
    ("met", "total", "jobs", "expected"),
    [
        (3.0, 0.0, 0, 0),  # the first job has nothing to compare with
        (3.0, 10.0, 2, 1),  # better than 5
        (9.0, 10.0, 2, -1),
        (5.9, 10.2, 2, 0),  # integer parts are compared: 5 and 5
        (4.9, 10.2, 2, 1),
    ],
)
def test_reward_is_the_sign_of_integer_parts(
    met: float, total: float, jobs: int, expected: int
) -> None:
    assert reward(met, total, jobs) == expected


def test_the_highest_score_wins_and_chance_breaks_ties_evenly() -> None:
    scores = np.array([2, 5, -1, 5, 5])
    chosen = [best_score(scores, chance) for chance in (0.0, 0.3, 0.34, 0.6, 0.67, 0.999)]
    assert chosen == [1, 1, 3, 3, 4, 4]
    assert best_score(np.array([0, 1, 0]), 0.9) == 1


def test_places_are_drawn_in_proportion() -> None:
    rng = np.random.default_rng(1)
    first = [drawn_places(np.array([1.0, 3.0, 6.0]), 2, rng)[0] for _ in range(4000)]
    found = np.bincount(first, minlength=3) / 4000
    # four standard errors
    assert found == pytest.approx([0.1, 0.3, 0.6], abs=4 * 0.5 / math.sqrt(4000))


def test_the_mean_is_plain_first_then_weighted() -> None:
    mean = 0.0
    for count, wait in enumerate([4.0, 8.0, 0.0]):
        mean = learned_wait(mean, count, wait, 0.25)
    assert mean == pytest.approx(4.0)
    assert learned_wait(4.0, 99, 12.0, 0.25) == pytest.approx(6.0)


def test_the_last_wait_falls_back_to_the_mean_which_fades() -> None:
    def expected(silence: float, known: float = 0.0) -> float:
        return expected_wait(10.0, 40.0, silence, 5.0, 100.0, known)

    assert expected(0.0) == 40.0
    assert expected(5.0) == pytest.approx(10.0 * math.exp(-0.05) + 30.0 / math.e)
    assert expected(100.0) == pytest.approx(10.0 / math.e)
    assert expected(1e6) == pytest.approx(0.0)
    assert expected(100.0, known=20.0) == 20.0  # what is certain comes first
    assert expected(0.0, known=20.0) == 40.0


def test_a_job_that_has_not_completed_has_waited_what_it_could_not_have_run() -> None:
    assert waited_so_far(30.0, 100.0, 10.0) == 20.0
    assert waited_so_far(5.0, 100.0, 10.0) == 0.0
