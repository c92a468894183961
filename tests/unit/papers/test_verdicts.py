"""Verdicts on printed figures: one draw among many, bounds, paired gains."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.papers.study.claims import (
    GOAL,
    Cell,
    Claim,
    Judgement,
    Measurement,
    Printed,
    as_bound,
    as_gain,
    as_one_draw,
    bounded,
    counts,
    judged_claims,
    measure,
)

HUNDRED = np.arange(100, dtype=np.float64)


@pytest.mark.parametrize(
    ("text", "holds"), [("50", True), ("3", True), ("99", False), ("0", False)]
)
def test_one_draw_reproduces_within_the_middle_95_percent(text: str, holds: bool) -> None:
    verdict = as_one_draw(Printed.of(text), HUNDRED, "the reason")
    assert verdict.holds is holds
    assert verdict.because.endswith("the reason") is not holds


def test_on_one_log_a_figure_must_be_equal_as_printed() -> None:
    assert as_one_draw(Printed.of(".93"), np.array([0.934])).holds
    assert not as_one_draw(Printed.of(".93"), np.array([0.936])).holds


@pytest.mark.parametrize(
    ("interval", "least", "holds"),
    [
        ((0.85, 0.91), True, True),
        ((0.85, 0.89), True, False),
        ((0.89, 0.95), False, True),
        ((0.91, 0.95), False, False),
    ],
)
def test_a_bound_is_kept_when_the_interval_reaches_it(
    interval: tuple[float, float], least: bool, holds: bool
) -> None:
    measured = Measurement(value=0.9, ci95=interval)
    assert as_bound(measured, 0.9, least=least).holds is holds


def test_the_interval_of_three_logs_reaches_nothing() -> None:
    measured = Measurement(value=-0.08, ci95=(-0.29, 0.07))
    assert as_bound(measured, -0.01, least=True).holds
    assert not as_bound(measured, -0.01, least=True, logs=3).holds


def test_a_gain_needs_its_whole_interval_above_zero() -> None:
    assert as_gain(Measurement(value=0.1, ci95=(0.01, 0.2))).holds
    assert not as_gain(Measurement(value=0.1, ci95=(-0.01, 0.2)), "noise").holds


def test_printed_exponents_are_read_to_their_last_digit() -> None:
    printed = Printed.of("2.48E-04")
    assert (printed.value, printed.unit) == pytest.approx((2.48e-4, 1e-6))


def test_a_judged_claim_has_every_key_of_the_contract() -> None:
    claim = Claim(
        cell=Cell("a", "RL", "wait"),
        measured=measure(HUNDRED),
        printed=Printed.of("8"),
        baselines={"FIFO": 3.0},
        judged=Judgement(False, "impossible"),
    )
    entry = claim.as_json()
    assert entry["verdict"] == "does not"
    assert entry["because"] == "impossible"
    assert entry["baselines"] == {"FIFO": 3.0}
    assert {"name", "algorithm", "printed", "measured", "ci95"} <= set(entry)


def judged(source: str, *, holds: bool) -> Claim:
    return Claim(
        cell=Cell("a", "RL", "wait"),
        measured=measure(HUNDRED),
        printed=Printed.of("8"),
        source=source,
        judged=Judgement(holds, "because"),
    )


def test_goals_of_ours_are_not_counted_among_what_reproduces() -> None:
    claims = [judged("paper", holds=False), judged(GOAL, holds=True), judged(GOAL, holds=False)]
    assert "0 of 1 reproduce. 1 of 2 goals of this project are met. What does not" in str(
        judged_claims(claims)[1]
    )
    assert "reproduce" not in str(judged_claims(claims[1:])[1])
    assert "0 of 1 reproduce. What" in str(judged_claims(claims[:1])[1])


def test_what_our_algorithm_reaches_is_counted_apart_from_the_papers() -> None:
    cell, figure = Cell("Table II", "RL", "wait"), Measurement(value=1.0)
    claims = [
        bounded(cell, figure, "2", logs=1),
        bounded(cell, figure, "2", logs=1, algorithm="ours"),
        bounded(cell, figure, "2", logs=1, algorithm="ours", least=True),
    ]
    assert counts(claims) == {
        "paper": {"reproduce": 1, "judged": 1},
        "ours": {"reproduce": 1, "judged": 2},
    }
    assert "1 of 1 reproduce. With our algorithm" in str(judged_claims(claims)[1])
