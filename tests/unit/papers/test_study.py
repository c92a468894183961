"""Printed figures, their verdicts, entries of claims.toml, and the store of results."""

from __future__ import annotations

import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from slurm_rl_plugin import papers
from slurm_rl_plugin.measure.intervals import of_samples
from slurm_rl_plugin.papers.study.claims import (
    GOAL,
    Cell,
    Declared,
    Entry,
    Judgement,
    Measurement,
    Printed,
    Row,
    as_bound,
    as_gain,
    as_one_draw,
    counts,
    judged_claims,
    measure,
    median,
    ratio_of_means,
    row,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore, digest_of, stem_of
from slurm_rl_plugin.papers.study.study import Asked

HUNDRED = np.arange(100, dtype=np.float64)
CELL = Cell("a", "RL", "wait")
DECLARED = sorted(Path(papers.__path__[0]).glob("*/claims.toml"))


def claim(value: float, error: float | None = None, **entry: Any) -> Row:
    measured = Measurement(value=value, standard_error=error)
    return Entry(**entry).claim(Row(cell=CELL, measured=measured, baselines={"FIFO": 3.0}))


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("2676", 2676, 1),
        (".215", 0.215, 0.001),
        ("7.9k", 7900, 100),
        ("120k", 120_000, 1000),
        ("2.48E-04", 2.48e-4, 1e-6),
    ],
)
def test_a_printed_figure_is_known_to_its_last_digit(text: str, value: float, unit: float) -> None:
    printed = Printed.of(text)
    assert (printed.value, printed.unit) == pytest.approx((value, unit))


@pytest.mark.parametrize(
    ("printed", "value", "error", "holds"),
    [
        ("100", 106.4, 2.0, True),
        ("100", 106.6, 2.0, False),
        (".83", 0.825, None, True),
        (".83", 0.8249, None, False),
    ],
)
def test_three_standard_errors_and_the_rounding_are_allowed(
    printed: str, value: float, error: float | None, holds: bool
) -> None:
    assert claim(value, error, printed=printed).reproduces is holds


def test_a_figure_that_does_not_reproduce_says_why() -> None:
    entry = claim(110.0, 2.0, printed="100", remark="the reason").as_json()
    assert entry["verdict"] == "does not"
    assert entry["because"] == "off by +10, 5.0 standard errors: the reason"
    close = claim(104.0, 2.0, printed="100", remark="the reason").as_json()
    assert "reason" not in close["because"]
    assert claim(0.825, printed=".83").because == "equal as printed"


def test_a_figure_without_an_earlier_one_has_no_verdict() -> None:
    for entry in (claim(0.9).as_json(), claim(0.9, printed="-").as_json()):
        assert entry["printed"] is None
        assert entry["verdict"] is None


@pytest.mark.parametrize(
    ("text", "measured", "decimals", "because"),
    [
        ("258.37", 258.3741, 2, "equal to two decimals"),
        ("258.37", 258.3751, 2, "differs by +0.00 %"),
        ("337", 337.34, 0, "equal as printed"),
        ("100.00", 101.5, 2, "differs by +1.50 %"),
    ],
)
def test_without_chance_all_decimals_are_compared(
    text: str, measured: float, decimals: int, because: str
) -> None:
    found = claim(measured, printed=text, kind="decimals", decimals=decimals)
    assert found.because == because
    assert found.reproduces is because.startswith("equal")
    assert found.difference == round(round(measured, decimals) - float(text), decimals)


@pytest.mark.parametrize(
    ("text", "holds"), [("50", True), ("3", True), ("99", False), ("0", False)]
)
def test_one_draw_reproduces_within_the_middle_95_percent(text: str, holds: bool) -> None:
    found = Entry(kind="draw", printed=text, remark="the reason").claim(row(*CELL, HUNDRED))
    assert found.reproduces is holds
    assert found.why.endswith("the reason") is not holds


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
    entry = Entry(kind="least", bound=-0.01)
    assert entry.claim(Row(cell=CELL, measured=measured)).reproduces
    assert (
        not Entry(kind="least", bound=-0.01, alone=True)
        .claim(Row(cell=CELL, measured=measured))
        .reproduces
    )


def test_a_gain_needs_its_whole_interval_above_zero() -> None:
    assert as_gain(Measurement(value=0.1, ci95=(0.01, 0.2))).holds
    assert not as_gain(Measurement(value=0.1, ci95=(-0.01, 0.2))).holds


def judged(*, holds: bool, **entry: Any) -> Row:
    found = Row(cell=CELL, measured=measure(HUNDRED), judged=Judgement(holds, "because"))
    return Entry(kind="row", printed="8", **entry).claim(found)


def test_goals_and_what_our_algorithm_reaches_are_counted_apart() -> None:
    paper = [judged(holds=False), judged(holds=True)]
    ours = [judged(holds=True, algorithm="ours")]
    goals = [judged(holds=True, source=GOAL), judged(holds=False, source=GOAL)]
    assert counts([*paper, *ours, *goals]) == {
        "paper": {"reproduce": 1, "judged": 2},
        "ours": {"reproduce": 1, "judged": 1},
        "goals": {"reproduce": 1, "judged": 2},
    }
    said = str(judged_claims([*paper, *ours, *goals])[1])
    assert "1 of 2 reproduce. With our algorithm in place of the paper's, 1 of 1 do." in said
    assert "1 of 2 goals of this project are met. What does not" in said
    assert "reproduce" not in str(judged_claims(goals)[1])


def test_a_ratio_of_means_is_no_median_of_ratios() -> None:
    pair = np.array([[1.0, 2.0, 9.0], [1.0, 1.0, 2.0]])
    assert measure(pair, ratio_of_means).value == 3.0
    assert measure(pair[0] / pair[1], median).value == 2.0


def test_a_ratio_of_no_waits_has_no_value_and_no_interval() -> None:
    nothing = measure(np.zeros((2, 5)), ratio_of_means)
    assert np.isnan(nothing.value)
    assert nothing.ci95 is None
    assert Row(cell=CELL, measured=nothing).as_json()["measured"] is None


def test_draws_without_any_wait_are_left_out_of_the_interval() -> None:
    waits = np.array([[4.0, 0.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0, 0.0]])
    found = measure(waits, ratio_of_means)
    assert (found.value, found.ci95) == (2.0, (2.0, 2.0))


@pytest.mark.parametrize("path", DECLARED, ids=lambda path: path.parent.name)
def test_what_a_paper_declares_can_be_judged(path: Path) -> None:
    tables = tomllib.loads(path.read_text())
    declared = Declared(f"{papers.__name__}.{path.parent.name}")
    assert len(declared.entries) == len(tables.get("claims", [])) + sum(
        map(len, tables.get("goals", {}).values())
    )
    for entry in declared.entries:
        texts = [entry.printed] if isinstance(entry.printed, str) else []
        if not texts:
            for policy in entry.printed:
                assert len(entry.line(policy)) == len(entry.columns), (entry.group, policy)
                texts += entry.line(policy)
        assert all(Printed.of(text).text for text in texts if text not in ("", "-"))
        words = dict.fromkeys(_named(entry), 0.0)
        entry.claim(row("group", "policy", "column", HUNDRED, words=words, printed=Printed.of("1")))


def _named(entry: Entry) -> set[str]:
    """What the texts of an entry name in braces."""
    parts = f"{entry.remark} {entry.because}".split("{")[1:]
    return {part.partition("}")[0].partition(":")[0] for part in parts} - {"because"}


def test_the_first_entry_that_is_about_a_row_counts() -> None:
    entries = [
        Entry(group="a", policy=["R*", "S"], printed="1"),
        Entry(printed={"RL": "2 3"}, columns=["x", "y"]),
    ]
    assert [each.matches(CELL) for each in entries] == [True, False]
    assert [each.matches(Cell("b", "RL", "y")) for each in entries] == [False, True]
    assert entries[1].text(Cell("b", "RL", "y")) == "3"
    holding = Entry(kind="least", printed="1", holding="; misprinted")
    assert holding.claim(row("a", "b", "c", HUNDRED)).because.endswith("; misprinted")


#: A module whose code shapes a figure.
MODULE = "slurm_rl_plugin.units"


def asked(**more: Any) -> Asked:
    words: dict[str, Any] = {
        "paper": "some-paper",
        "usual_seeds": 30,
        "seeds": None,
        "traces": None,
        "traces_given": False,
        "models": Path("models"),
        "policy": None,
        "quick": False,
        "search": False,
        "shipped": Path,
        "bar": lambda title, parts: nullcontext(lambda more: None),
        "say": lambda sentence: None,
    }
    return Asked(**{**words, **more})


def test_a_figure_is_measured_once_and_another_key_has_another_file(tmp_path: Path) -> None:
    store, measured = ResultStore(tmp_path), []

    def measure() -> dict[str, float]:
        measured.append(1)
        return {"J": 0.1 + 0.2}

    stems = [
        stem_of("a", {"seed": seed}, digest_of(np.arange(3)), module=MODULE) for seed in (1, 1, 2)
    ]
    assert [store.figures(stem, measure) for stem in stems] == [{"J": 0.1 + 0.2}] * 3
    assert len(measured) == len({*stems}) == len([*tmp_path.iterdir()]) == 2
    assert stem_of("a", digest_of(np.arange(3)), module=MODULE) != stem_of(
        "a", digest_of(np.arange(3) + 1), module=MODULE
    )


def test_independent_samples_are_drawn_as_scipy_draws_them() -> None:
    values = np.random.default_rng(1).normal(size=20)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=1000, method="percentile", rng=np.random.default_rng(0)
    )
    ours = of_samples(values, lambda drawn: drawn.mean(axis=-1))
    np.testing.assert_allclose(ours, theirs.bootstrap_distribution, rtol=1e-12)
