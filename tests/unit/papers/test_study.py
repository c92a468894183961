"""Printed figures, their verdicts, entries of claims.toml, and the store of results."""

from __future__ import annotations

import tomllib
from dataclasses import replace
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
    counts,
    judged_claims,
    measure,
    ratio_of_means,
    row,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore, digest_of, stem_of

HUNDRED = np.arange(100, dtype=np.float64)
CELL = Cell("a", "RL", "wait")
DECLARED = sorted(Path(papers.__path__[0]).glob("*/claims.toml"))


def measured(value: float, error: float | None = None, *ends: float, **more: Any) -> Row:
    """A row with its error, or the ends of its interval."""
    figure = Measurement(value=value, standard_error=error, ci95=ends or None)  # type: ignore[arg-type]
    return Row(cell=CELL, measured=figure, **more)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("2676", 2676, 1), (".215", 0.215, 0.001), ("7.9k", 7900, 100), ("2.48E-04", 2.48e-4, 1e-6)],
)
def test_a_printed_figure_is_known_to_its_last_digit(text: str, value: float, unit: float) -> None:
    printed = Printed.of(text)
    assert (printed.value, printed.unit) == pytest.approx((value, unit))


EQUAL = {"printed": "100", "remark": "the reason"}
DRAW = {"kind": "draw", "remark": "the reason"}
TWO = {"kind": "decimals", "decimals": 2}
LEAST, MOST = {"kind": "least", "printed": "0.9"}, {"kind": "most", "printed": "0.9"}
REACHED = measured(-0.08, None, -0.29, 0.07)
#: Entry, row, verdict and the begin of its reason.
VERDICTS: list[tuple[dict[str, Any], Row, bool | None, str]] = [
    # within three standard errors and the rounding of the print
    (EQUAL, measured(106.4, 2.0), True, "off by +6.4, 3.2 standard errors"),
    (EQUAL, measured(106.6, 2.0), False, "off by +6.6, 3.3 standard errors: the reason"),
    ({"printed": ".83"}, measured(0.825), True, "equal as printed"),
    ({"printed": ".83"}, measured(0.8249), False, "off by -0.0051"),
    ({"printed": "-"}, measured(0.9), None, "no earlier figure"),
    # without chance all decimals are compared
    ({**TWO, "printed": "258.37"}, measured(258.3741), True, "equal to two decimals"),
    ({**TWO, "printed": "258.37"}, measured(258.3751), False, "differs by +0.00 %"),
    ({**TWO, "printed": "337", "decimals": 0}, measured(337.34), True, "equal as printed"),
    ({**TWO, "printed": "100.00"}, measured(101.5), False, "differs by +1.50 %"),
    # one draw lies within the middle 95 %; on one log it must be equal as printed
    ({**DRAW, "printed": "3"}, row(*CELL, HUNDRED), True, "printed figure within 2.475 to"),
    ({**DRAW, "printed": "99"}, row(*CELL, HUNDRED), False, "printed figure outside 2.475"),
    ({**DRAW, "printed": "0"}, row(*CELL, HUNDRED), False, "printed figure outside 2.475"),
    ({**DRAW, "printed": ".93"}, row(*CELL, np.array([0.934])), True, "measured 0.934 on the one"),
    ({**DRAW, "printed": ".93"}, row(*CELL, np.array([0.936])), False, "measured 0.936 on the one"),
    # a bound is kept when the interval reaches it; that of three logs reaches nothing
    (LEAST, measured(0.89, None, 0.85, 0.91), True, "0.89 against at least 0.9"),
    (LEAST, measured(0.88, None, 0.85, 0.89), False, "0.88 against at least 0.9"),
    (MOST, measured(0.91, None, 0.89, 0.95), True, "0.91 against at most 0.9"),
    (MOST, measured(0.92, None, 0.91, 0.95), False, "0.92 against at most 0.9"),
    ({"kind": "least", "bound": -0.01}, REACHED, True, "-0.08 against at least -0.01"),
    ({"kind": "least", "bound": -0.01}, replace(REACHED, logs=3), False, "-0.08 against"),
    ({"kind": "least", "bound": -0.01, "alone": True}, REACHED, False, "-0.08 against"),
    ({**LEAST, "holding": "; misprinted"}, measured(0.95), True, "0.95 against at least 0.9; misp"),
    ({"kind": "between", "bounds": (0.8, 0.9)}, measured(0.9), True, "0.9 against 0.80 to 0.90"),
    ({"kind": "between", "bounds": (0.8, 0.9)}, measured(0.91), False, "0.91 against 0.80 to"),
    # a gain has its whole interval above 0
    ({"kind": "gain"}, measured(0.1, None, 0.01, 0.2), True, "paired difference +0.1, 95 % int"),
    ({"kind": "gain"}, measured(0.1, None, -0.01, 0.2), False, "paired difference +0.1"),
]


@pytest.mark.parametrize(("entry", "found", "holds", "because"), VERDICTS)
def test_a_figure_reproduces_or_says_why_not(
    entry: dict[str, Any], found: Row, holds: bool | None, because: str
) -> None:
    document = Entry(**entry).claim(found).as_json()
    assert document["verdict"] == {True: "reproduces", False: "does not", None: None}[holds]
    assert document["because"].startswith(because)
    assert document["because"].endswith("the reason") is (holds is False and "remark" in entry)
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
        stem_of("a", {"seed": seed}, digest_of(np.arange(size)), module="slurm_rl_plugin.units")
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
