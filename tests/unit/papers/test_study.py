"""Printed figures, their verdicts, entries of claims.toml, and the store of results."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from slurm_rl_plugin import papers
from slurm_rl_plugin.measure.intervals import of_samples
from slurm_rl_plugin.papers.study.claims import (
    FEW_LOGS,
    GOAL,
    Cell,
    Declared,
    Entry,
    Judgement,
    Measurement,
    Printed,
    Row,
    counts,
    judged_claims,
    measure,
    ratio_of_means,
    row,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from tests.case_files import rows

HUNDRED = np.arange(100, dtype=np.float64)
CELL = Cell("a", "RL", "wait")
DECLARED = sorted(Path(papers.__path__[0]).glob("*/claims.toml"))


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("2676", 2676, 1), (".215", 0.215, 0.001), ("7.9k", 7900, 100), ("2.48E-04", 2.48e-4, 1e-6)],
)
def test_a_printed_figure_is_known_to_its_last_digit(text: str, value: float, unit: float) -> None:
    printed = Printed.of(text)
    assert (printed.value, printed.unit) == pytest.approx((value, unit))


def row_with(
    value: float = 0.0,
    error: float | None = None,
    ends: tuple[float, float] | None = None,
    logs: int = FEW_LOGS,
    draws: Any = None,
) -> Row:
    """A row of draws, or of a figure with its error or the ends of its interval."""
    if draws is not None:
        return row(*CELL, HUNDRED if draws == "hundred" else np.array(draws))
    return Row(
        cell=CELL, measured=Measurement(value=value, standard_error=error, ci95=ends), logs=logs
    )


@rows("verdicts", "verdicts", "entry figure verdict because")
def test_a_figure_reproduces_or_says_why_not(
    entry: dict[str, Any], figure: dict[str, Any], verdict: str, because: str
) -> None:
    found = row_with(**figure)
    document = Entry(**entry).claim(found).as_json()
    assert document["verdict"] == (verdict or None)
    assert document["because"].startswith(because)
    assert document["because"].endswith("the reason") is (
        verdict == "does not" and "remark" in entry
    )
    if entry.get("kind") == "decimals":
        off = round(found.measured.value, entry["decimals"]) - float(entry["printed"])
        assert document["difference"] == round(off, entry["decimals"])


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


def test_draws_without_any_wait_are_left_out_of_the_interval() -> None:
    waits = np.array([[4.0, 0.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0, 0.0]])
    found = measure(waits, ratio_of_means)  # no median of ratios
    assert (found.value, found.ci95) == (2.0, (2.0, 2.0))
    nothing = measure(np.zeros((2, 5)), ratio_of_means)
    assert np.isnan(nothing.value)
    assert nothing.ci95 is None
    assert Row(cell=CELL, measured=nothing).as_json()["measured"] is None


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
    return {part.partition("}")[0].partition(":")[0] for part in parts} - {"because", "value"}


def test_the_first_entry_that_is_about_a_row_counts() -> None:
    entries = [
        Entry(group="a", policy=["R*", "S"], printed="1"),
        Entry(printed={"RL": "2 3"}, columns=["x", "y"]),
    ]
    assert [each.matches(CELL) for each in entries] == [True, False]
    assert [each.matches(Cell("b", "RL", "y")) for each in entries] == [False, True]
    assert entries[1].text(Cell("b", "RL", "y")) == "3"


def test_a_figure_is_measured_once_and_another_key_has_another_file(tmp_path: Path) -> None:
    store, measured = ResultStore(tmp_path), []

    def measure() -> dict[str, float]:
        measured.append(1)
        return {"J": 0.1 + 0.2}

    stems = [
        stem_of("a", {"seed": seed}, np.arange(size), module="slurm_rl_plugin.units")
        for seed, size in ((1, 3), (1, 3), (2, 3), (1, 4))
    ]
    assert [store.figures(stem, measure) for stem in stems] == [{"J": 0.1 + 0.2}] * 4
    assert len(measured) == len({*stems}) == len([*tmp_path.iterdir()]) == 3


def test_independent_samples_are_drawn_as_scipy_draws_them() -> None:
    values = np.random.default_rng(1).normal(size=20)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=1000, method="percentile", rng=np.random.default_rng(0)
    )
    ours = of_samples(values, lambda drawn: drawn.mean(axis=-1))
    np.testing.assert_allclose(ours, theirs.bootstrap_distribution, rtol=1e-12)
