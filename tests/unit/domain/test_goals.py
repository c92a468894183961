"""What a site wants of its shares: where nobody said, what its shares tell decides."""

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals


@pytest.mark.parametrize(
    ("shares", "points"),
    [
        ([0.5, 0.3, 0.2], 16.0),
        ([0.5, 0.5], 0.0),  # what every account has where nobody gave any
        ([1 / 3, 1 / 3, 1 - 2 / 3], 0.0),  # alike but for a rounding
        ([1.0], 0.0),
        ([], 0.0),
    ],
)
def test_shares_that_differ_count_where_nobody_said(shares: list[float], points: float) -> None:
    found = Goals(interactive=2.0).resolved(np.array(shares))
    assert found == Goals(shares=points, interactive=2.0)


@pytest.mark.parametrize("points", [0.0, 3.0])
@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.8, 0.2]], ids=str)
def test_what_is_said_of_shares_counts_whatever_they_are(
    shares: list[float], points: float
) -> None:
    assert Goals(shares=points).resolved(np.array(shares)).points_a_doubling == points


def test_before_it_is_known_what_the_shares_are_they_count_nothing() -> None:
    assert AS_TRAINED.points_a_doubling == 0.0
