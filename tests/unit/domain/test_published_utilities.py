"""The document of a site's utilities: whole there and back, and refused where it is damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain.published_utilities import (
    JOB_CLASSES,
    LONGEST,
    PublishedUtilities,
)
from slurm_rl_plugin.errors import ConfigurationError

NAMES = st.text(min_size=1, max_size=20)
UTILITIES = st.dictionaries(
    st.sampled_from(JOB_CLASSES), st.dictionaries(NAMES, st.floats(0.0, 1.0), max_size=4)
)


@given(
    site=NAMES,
    time=st.floats(0, 4e9),
    valid_for=st.floats(0.1, 1e6),
    model=NAMES,
    utilities=UTILITIES,
)
def test_a_document_comes_back_as_it_was(**values: Any) -> None:
    published = PublishedUtilities(**values)
    assert PublishedUtilities.from_json(json.dumps(published.document())) == published


@given(st.text(max_size=200) | st.recursive(st.none() | st.floats() | NAMES, st.lists).map(str))
def test_any_other_text_is_refused_with_one_sentence(text: str) -> None:
    with pytest.raises(ConfigurationError, match="publish"):
        PublishedUtilities.from_json(text)


DOCUMENT = {
    "version": 1,
    "site": "north",
    "time": 100.0,
    "valid_for": 60.0,
    "model": "abc",
    "utilities": {"interactive": {"physics": 0.5}},
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("version", True),
        ("version", None),
        ("site", ""),
        ("site", 3),
        ("time", "now"),
        ("time", float("nan")),
        ("time", True),
        ("time", 10**400),
        ("valid_for", 0),
        ("valid_for", float("inf")),
        ("model", None),
        ("utilities", []),
        ("utilities", {"urgent": {}}),
        ("utilities", {"batch": [0.5]}),
        ("utilities", {"batch": {"physics": 1.5}}),
        ("utilities", {"batch": {"physics": -0.1}}),
        ("utilities", {"batch": {"physics": float("nan")}}),
        ("utilities", {"batch": {"physics": "0.5"}}),
    ],
)
def test_a_damaged_field_is_named(field: str, value: object) -> None:
    assert PublishedUtilities.from_json(json.dumps(DOCUMENT)).of("interactive", "physics") == 0.5
    named = "utilit" if field == "utilities" else field
    with pytest.raises(ConfigurationError, match=named):
        PublishedUtilities.from_json(json.dumps({**DOCUMENT, field: value}))


def test_hostile_texts_are_refused() -> None:
    for text in ("[" * 100_000, " " * (LONGEST + 1), "{" * 10):
        with pytest.raises(ConfigurationError):
            PublishedUtilities.from_json(text)


@pytest.mark.parametrize(
    ("now", "fresh"), [(100.0, True), (160.0, True), (160.1, False), (40.0, True), (39.9, False)]
)
def test_it_is_fresh_for_as_long_as_it_says(now: float, fresh: bool) -> None:
    assert PublishedUtilities.from_json(json.dumps(DOCUMENT)).fresh_at(now) == fresh
