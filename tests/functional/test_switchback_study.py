"""`reproduce switchback`, made small: its document, its report and its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.papers.switchback.clusters import alike, with_gain
from slurm_rl_plugin.papers.switchback.study import (
    ALIKE,
    GAIN,
    HARM,
    KINDS,
    SOON,
    TrialLength,
    held_trial,
)
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS
from tests.functional.typed import Typed

pytestmark = pytest.mark.study


def test_the_study_tells_what_it_claims(typed: Typed, tmp_path: Path) -> None:
    words = ["reproduce", "switchback", "--quick"]
    document = typed.json(*words, "--seeds", "3", "--json", "--plot", tmp_path)
    assert document["seeds"] == [0, 1, 2]
    goals = [claim for claim in document["claims"] if claim["verdict"]]
    assert [claim["printed"] for claim in goals] == [0.05, 0.80, 0.95]
    assert {claim["source"] for claim in goals} == {"goal"}
    assert all(claim["ci95"] for claim in document["claims"])
    assert set(document["by_goal"]) == set(KINDS)
    assert all(set(each) == set(GOALS) for each in document["by_goal"].values())
    assert {Path(each).name for each in document["figures"]} == {
        "switchback-sequences.png",
        "switchback-times.png",
        "switchback-harm.png",
    }
    assert all(Path(each).stat().st_size > 10_000 for each in document["figures"])
    assert "off within 48 hours" in typed.out(*words)


def test_a_gain_is_what_it_is_said_to_be() -> None:
    for seed in (40_001, 40_002):
        ratio = with_gain(seed, 28, 0.15).slowdown("ours") / alike(seed, 28).slowdown("site")
        assert ratio == pytest.approx(0.85, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_is_the_same_each_time(kind: str) -> None:
    one, same = (held_trial(kind, 40_003, TrialLength(days=4)) for _ in range(2))
    assert (one.costs.measured == same.costs.measured).all()
    assert (one.off, one.ratio, one.really) == (same.off, same.ratio, same.really)
    assert one.hours(None) == float("inf")
    assert one.hours(len(one.declared.blocks)) == pytest.approx(96.0)
    assert one.hours(one.blocks_within(SOON)) <= SOON
    assert one.damage(0) == (0.0, 0.0)
    if kind == ALIKE:
        assert one.ratio == 1.0
    if kind == GAIN:
        assert one.ratio == pytest.approx(0.85, abs=0.02)
    if kind == HARM:
        assert one.ratio > 1.5
        assert one.really
