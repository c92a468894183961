"""What protection asks for, and how much a job was overtaken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError, ModelSchemaMismatch
from slurm_rl_plugin.policies.protection import (
    HALF_LIFE,
    LATEST,
    SOONEST,
    Protection,
    borne_by,
    longest_wait,
    overtaken_by,
    protected_after,
    protection_in,
    protection_named,
)


def test_a_job_is_overtaken_by_what_later_ones_used() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        arrived = np.sort(rng.integers(0, 50, 9).astype(np.float64))
        others, used = rng.integers(0, 50, 7).astype(np.float64), rng.integers(1, 9, 7) * 8.0
        expected = [sum(u for o, u in zip(others, used, strict=True) if o > a) for a in arrived]
        assert (overtaken_by(arrived, others, used, 8) * 8).tolist() == expected


def test_nobody_waits_or_nobody_runs() -> None:
    none = np.empty(0)
    assert overtaken_by(none, np.ones(2), np.ones(2), 4).tolist() == []
    assert overtaken_by(np.ones(2), none, none, 4).tolist() == [0.0, 0.0]


def test_the_longest_wait_fades_and_grows() -> None:
    assert longest_wait(8.0, HALF_LIFE, 1.0) == 4.0
    assert longest_wait(8.0, 0.0, 9.0) == 9.0
    assert longest_wait(0.0, np.inf, 0.0) == 0.0


def test_protection_begins_between_a_minute_and_three_days() -> None:
    assert protected_after(0.0, 0.1) == SOONEST
    assert protected_after(36000.0, 0.1) == 3600.0
    assert protected_after(1e9, 0.1) == LATEST == 3 * 86400.0


def test_a_job_bears_a_quarter_of_the_time_that_it_asks_for() -> None:
    hours = np.array([0.0, 2.0, 8.0, 400.0, np.nan])
    long = 400 * 3600.0
    borne = borne_by(3600.0 * hours, 3600.0, long)
    assert borne.tolist() == [3600.0, 3600.0, 7200.0, LATEST, LATEST]
    assert borne_by(np.nan, 60.0, long) == LATEST  # who leaves the limit out gains nothing


def test_where_nobody_waits_long_no_job_bears_much() -> None:
    hours = np.array([2.0, 8.0, 400.0, np.nan])
    borne = borne_by(3600.0 * hours, 1152.0, 4 * 3600.0)
    assert borne.tolist() == [1800.0, 3600.0, 3600.0, 3600.0]


@pytest.mark.parametrize(
    ("name", "protection", "rest"),
    [
        ("sjf", None, "sjf"),
        ("protected:sjf", Protection(), "sjf"),
        ("protected:reserve:4", Protection(), "reserve:4"),
        ("protected:2,0.5:sjf", Protection(jobs=2, after=0.5), "sjf"),
        ("protected:0,0:/a/model.onnx", Protection(jobs=0, after=0.0), "/a/model.onnx"),
    ],
)
def test_what_stands_before_a_name(name: str, protection: Protection | None, rest: str) -> None:
    assert protection_named(name) == (protection, rest)
    if protection is not None:
        assert protection_named(f"protected:{protection.words}:x")[0] == protection


@pytest.mark.parametrize("name", ["protected:1,2", "protected:a,1:sjf", "protected:1.5,1:sjf"])
def test_what_is_no_protection_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="give protected:NAME"):
        protection_named(name)


@pytest.mark.parametrize("name", ["protected:-1,1:sjf", "protected:1,-1:sjf", "protected:1,inf:x"])
def test_impossible_numbers_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="neither may be negative"):
        protection_named(name)


def test_a_model_holds_its_protection() -> None:
    protection = Protection(jobs=2, after=0.25)
    assert protection_in(Path("m"), {"protection": protection.to_json()}) == protection
    assert protection_in(Path("m"), {}) is None


@pytest.mark.parametrize("text", ["", "[]", "3", '{"jobs": -1}', '{"days": 1}', '{"jobs": "x"}'])
def test_a_model_that_protects_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ModelSchemaMismatch, match="model m protects jobs"):
        protection_in(Path("m"), {"protection": text})
