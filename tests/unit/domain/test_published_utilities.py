"""What a site publishes of itself: how long it is fresh, and the document that says it."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.domain.site import PublishedUtilities

PUBLISHED = PublishedUtilities(
    site="north",
    time=100.0,
    valid_for=60.0,
    model="abc",
    utilities={"interactive": {"physics": 0.5}},
)


def test_the_document_says_all_of_it() -> None:
    assert PUBLISHED.document() == {
        "version": 1,
        "site": "north",
        "time": 100.0,
        "valid_for": 60.0,
        "model": "abc",
        "utilities": {"interactive": {"physics": 0.5}},
    }


def test_nothing_is_said_of_an_account_that_is_not_published() -> None:
    assert PUBLISHED.of("interactive", "physics") == 0.5
    assert PUBLISHED.of("interactive", "biology") is None
    assert PUBLISHED.of("batch", "physics") is None


@pytest.mark.parametrize(
    ("now", "fresh"), [(100.0, True), (160.0, True), (160.1, False), (40.0, True), (39.9, False)]
)
def test_it_is_fresh_for_as_long_as_it_says(now: float, fresh: bool) -> None:
    assert PUBLISHED.fresh_at(now) == fresh
