"""Claims: measured figures, the printed figures they are compared with, verdicts and reports.

A paper's `claims.toml` lists the figures that a paper prints and the goals of this project,
and how a measured row is judged by them (`Entry`); the paper's experiment gives the rows.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np

from slurm_rl_plugin.measure.intervals import ENDS, interval_of, of_samples
from slurm_rl_plugin.units import FloatArray

#: The algorithm that a figure is measured with: the paper's as printed, or one of this package.
Algorithm = Literal["paper", "ours"]
#: A statistic over the last axis, the seeds.
Statistic = Callable[[FloatArray], FloatArray]

#: Source of a goal of this project.
GOAL = "goal"
#: Source of a bound that puts a number on a word of a paper; the paper prints none.
READING = "our reading of the paper"
#: Standard errors by which a published figure may differ from the measured one.
TOLERANCE = 3.0
#: Fewest logs whose interval is used in a verdict.
FEW_LOGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A figure with its uncertainty."""

    value: float
    standard_error: float | None = None  #: over the seeds; None for a single log
    ci95: tuple[float, float] | None = None  #: bootstrap interval; None for a single log

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval; the figure itself twice without an interval."""
        return self.ci95 or (self.value, self.value)

    @classmethod
    def of(cls, value: float, resampled: FloatArray) -> Measurement:
        """A figure with the errors of its draws, shape [resamples]; none of fewer than 2 draws."""
        if len(resampled) < 2:
            return cls(value=value)
        error = float(resampled.std(ddof=1))
        return cls(value=value, standard_error=error, ci95=interval_of(resampled))


def mean(values: FloatArray) -> FloatArray:
    """The mean over the seeds."""
    return np.asarray(values.mean(axis=-1))


def median(values: FloatArray) -> FloatArray:
    """The median over the seeds."""
    return np.asarray(np.median(values, axis=-1))


def quantile(level: float) -> Statistic:
    """A quantile over the seeds."""
    return lambda values: np.asarray(np.quantile(values, level, axis=-1))


def ratio_of_means(pair: FloatArray) -> FloatArray:
    """Mean of the first row over the mean of the second; values of shape [2, ..., seeds]."""
    return np.asarray(pair[0].mean(axis=-1) / pair[1].mean(axis=-1))


def measure(values: FloatArray, statistic: Statistic = mean) -> Measurement:
    """A statistic over the seeds, the last axis, with a bootstrap of a fixed seed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(values))
    if values.shape[-1] < 2:
        return Measurement(value=value)
    return Measurement.of(value, of_samples(values, statistic))


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A figure as printed, with the unit of its last digit."""

    value: float
    unit: float
    text: str

    @classmethod
    def of(cls, text: str) -> Printed:
        """Read texts such as `2676`, `.215`, `7.9k` or `2.48E-04`."""
        mantissa, _, exponent = text.partition("E")
        digits = mantissa.removesuffix("k")
        scale = (1000.0 if digits != mantissa else 1.0) * 10.0 ** int(exponent or 0)
        decimals = len(digits.partition(".")[2])
        return cls(value=float(digits) * scale, unit=scale * 10.0**-decimals, text=text)

    @classmethod
    def rounded(cls, value: float, decimals: int) -> Printed:
        """A figure derived from printed ones, rounded."""
        return cls(value=value, unit=10.0**-decimals, text=f"{value:.{decimals}f}")


class Judgement(NamedTuple):
    """A verdict and its reason."""

    holds: bool
    because: str


def as_equal(measured: Measurement, printed: Printed) -> Judgement:
    """Whether a figure is within three standard errors and the rounding of the print."""
    off, error = measured.value - printed.value, measured.standard_error or 0.0
    if abs(off) <= printed.unit * (0.5 + 1e-9):  # allows for the rounding of the subtraction
        return Judgement(True, "equal as printed")
    errors = f", {abs(off) / error:.1f} standard errors" if error else ""
    holds = bool(abs(off) <= TOLERANCE * error + printed.unit / 2)
    return Judgement(holds, f"off by {off:+.3g}{errors}")


def as_one_draw(printed: Printed, draws: FloatArray) -> Judgement:
    """Whether a figure printed for one random log is a usual one among the measured draws.

    A mean wait at load 0.99 varies several-fold from log to log, so the printed figure need not be
    near the mean. With a single log the two must be equal as printed.
    """
    if len(draws) < 2:
        holds = bool(abs(draws[0] - printed.value) <= printed.unit / 2)
        return Judgement(holds, f"measured {draws[0]:.4g} on the one log")
    low, high = np.quantile(draws, ENDS)
    holds = bool(low - printed.unit / 2 <= printed.value <= high + printed.unit / 2)
    place = "within" if holds else "outside"
    return Judgement(
        holds, f"printed figure {place} {low:.4g} to {high:.4g}, the middle 95 % of single logs"
    )


def as_bound(
    measured: Measurement, bound: float, *, least: bool, logs: int = FEW_LOGS
) -> Judgement:
    """Whether a figure keeps a bound; its interval may reach it.

    Args:
        least: whether the bound is a lower one.
        logs: how many were measured; for fewer than FEW_LOGS the mean alone is judged, since the
            interval of a few logs reaches any bound.
    """
    low, high = measured.ends if logs >= FEW_LOGS else (measured.value, measured.value)
    holds = bool(high >= bound) if least else bool(low <= bound)
    side = "at least" if least else "at most"
    return Judgement(holds, f"{measured.value:.5g} against {side} {bound:.4g}")


class Cell(NamedTuple):
    """The place of a figure in a paper's tables."""

    group: str  #: the experiment
    policy: str
    column: str = ""  #: what was measured; empty where the whole group measures the same

    @property
    def in_group(self) -> str:
        """Policy and column."""
        return f"{self.policy}, {self.column}" if self.column else self.policy

    @property
    def name(self) -> str:
        """The full name."""
        return f"{self.group}: {self.in_group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is claimed about some rows: a table [[claims]] of a paper's `claims.toml`."""

    #: group, policy, column: patterns for the cells of the rows, as for file names.
    group: str | Sequence[str] = "*"
    policy: str | Sequence[str] = "*"
    column: str | Sequence[str] = "*"
    #: The figure as text; or policies (patterns) -> a line with the figures of `columns`, "-" for
    #: a missing one.
    printed: str | Mapping[str, str] = ""
    columns: Sequence[str] = ()
    #: "equal" (within three standard errors), "decimals" (equal in `decimals`), "draw" (the printed
    #: figure is that of one log), "least" or "most" (it is a bound), "between" (`bounds`), "gain"
    #: (the row is a difference and must be above 0), "row" (the row has its verdict), "none" (no
    #: claim).
    kind: str = "equal"
    bound: float | None = None  #: replaces the printed figure as the bound
    bounds: tuple[float, float] = (0.0, 0.0)  #: of the kind "between"
    source: str = "paper"  #: who published it; GOAL, or READING where the number is ours
    algorithm: Algorithm = "paper"  #: "ours" never counts for a paper
    remark: str = ""  #: why a figure may differ; may name the row's words in braces
    #: A longer reason for the verdict, which may name the words, `{because}` and `{value}`.
    because: str = ""
    holding: str = ""  #: added to the reason where the row reproduces
    alone: bool = False  #: judge a bound by the mean alone, not by its interval
    #: In which both are compared where chance plays no part; otherwise None.
    decimals: int | None = None

    def matches(self, cell: Cell) -> bool:
        """Whether the entry applies to a row."""
        wanted = (self.group, self.policy, self.column)
        return all(_is_one_of(text, each) for text, each in zip(cell, wanted, strict=True)) and (
            isinstance(self.printed, str) or self.text(cell) is not None
        )

    def line(self, policy: str) -> list[str]:
        """The printed figures of a policy in the order of `columns`; empty for other policies."""
        lines = {} if isinstance(self.printed, str) else self.printed
        return next((each.split() for name, each in lines.items() if fnmatchcase(policy, name)), [])

    def text(self, cell: Cell) -> str | None:
        """The printed figure of a cell; None where its line has none."""
        if isinstance(self.printed, str):
            return self.printed
        return dict(zip(self.columns, self.line(cell.policy), strict=False)).get(cell.column)

    def claim(self, row: Row) -> Row:
        """The row, judged."""
        text = self.text(row.cell)
        printed = row.printed or (Printed.of(text) if text and text != "-" else None)
        judged = row.judged if self.kind == "row" else self._judged(row, printed)
        if judged is not None:
            because = judged.because
            if self.because:
                because = self.because.format(
                    because=because, value=row.measured.value, **row.words
                )
            judged = judged._replace(because=because + self.holding * judged.holds)
        remark = self.remark.format(**row.words)
        return replace(row, entry=replace(self, remark=remark), printed=printed, judged=judged)

    def _judged(self, row: Row, printed: Printed | None) -> Judgement | None:
        if self.kind in ("equal", "none"):
            return None if printed is None else as_equal(row.measured, printed)
        if self.kind == "decimals" and printed is not None:
            return _to_decimals(row.measured.value, printed, self.decimals or 0)
        if self.kind == "between":
            (low, high), value = self.bounds, row.measured.value
            text = f"{value:.4g} against {low:.2f} to {high:.2f}"
            return Judgement(low <= value <= high, text)
        if self.kind == "gain":
            (low, high), value = row.measured.ends, row.measured.value
            text = f"paired difference {value:+.3g}, 95 % interval {low:+.3g} to {high:+.3g}"
            return Judgement(bool(low > 0.0), text)
        if self.kind == "draw" and printed is not None and row.draws is not None:
            return as_one_draw(printed, row.draws)
        bound = printed.value if self.bound is None and printed is not None else self.bound or 0.0
        logs = 1 if self.alone else row.logs
        return as_bound(row.measured, bound, least=self.kind == "least", logs=logs)


_NO_CLAIM = Entry(kind="none")


def _to_decimals(measured: float, printed: Printed, decimals: int) -> Judgement:
    off = round(round(measured, decimals) - printed.value, decimals)
    equal = "equal to two decimals" if decimals == 2 else "equal as printed"
    differs = f"differs by {100.0 * off / printed.value:+.2f} %"
    return Judgement(off == 0.0, differs if off else equal)


def _is_one_of(text: str, patterns: str | Sequence[str]) -> bool:
    every = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatchcase(text, pattern) for pattern in every)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure of an experiment, and what is claimed about it."""

    cell: Cell
    measured: Measurement
    draws: FloatArray | None = None  #: one figure a log, for a printed figure of a single log
    logs: int = FEW_LOGS  #: how many were measured; see `as_bound`
    #: Policy -> the same figure under it.
    baselines: Mapping[str, float] = field(default_factory=dict)
    #: Values for the names in braces in the texts of its entry.
    words: Mapping[str, Any] = field(default_factory=dict)
    #: None where there is no earlier figure; the entry's, or derived from other printed figures.
    printed: Printed | None = None
    #: The verdict of its entry; before, one that depends on more than this row.
    judged: Judgement | None = None
    entry: Entry = _NO_CLAIM  #: its texts have the row's words

    @property
    def difference(self) -> float | None:
        """Measured less published, in `decimals` where the entry has any."""
        if self.printed is None:
            return None
        decimals, value = self.entry.decimals, self.measured.value
        if decimals is None:
            return value - self.printed.value
        return round(round(value, decimals) - self.printed.value, decimals)

    @property
    def reproduces(self) -> bool | None:
        """Its verdict; None if unpublished."""
        return None if self.judged is None else self.judged.holds

    @property
    def because(self) -> str:
        """The reason for the verdict, without the remark."""
        return "no earlier figure" if self.judged is None else self.judged.because

    @property
    def why(self) -> str:
        """The reason for the verdict, with the remark where it does not reproduce."""
        remark = self.entry.remark if self.reproduces is False else ""
        return f"{self.because}: {remark}" if remark else self.because

    def as_json(self) -> dict[str, Any]:
        """Its entry of `reproduce --json`; null where a figure has no value, as 0 over 0."""
        interval, error = self.measured.ci95, self.measured.standard_error
        return {
            "name": self.cell.name,
            "source": None if self.printed is None else self.entry.source,
            "algorithm": self.entry.algorithm,
            "printed": None if self.printed is None else self.printed.value,
            "measured": _finite(self.measured.value),
            "standard_error": error,
            "ci95": None if interval is None else list(interval),
            "difference": _finite(self.difference),
            "baselines": {name: _finite(value) for name, value in self.baselines.items()},
            "verdict": _VERDICTS[self.reproduces],
            "because": self.why,
        }


def row_of(group: str, policy: str, column: str, measured: float | Measurement, **more: Any) -> Row:
    """The row of a measured figure; a plain number has no interval."""
    if not isinstance(measured, Measurement):
        measured = Measurement(value=float(measured))
    return Row(cell=Cell(group, policy, column), measured=measured, **more)


def row(group: str, policy: str, column: str, values: FloatArray, **more: Any) -> Row:
    """The row of a mean over logs, shape [logs]; each log is a draw."""
    more = {"draws": values, "logs": len(values), **more}
    return row_of(group, policy, column, measure(values), **more)


def means_of(values: Mapping[str, FloatArray]) -> dict[str, float]:
    """Policy -> mean of its figures."""
    return {name: float(each.mean()) for name, each in values.items()}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


#: None without a published figure.
_VERDICTS = {True: "reproduces", False: "does not", None: None}


class Declared:
    """A paper's `claims.toml`: its entries, and tables that its code reads itself."""

    def __init__(self, package: str) -> None:
        """Name the paper's package; the file is read on first use."""
        self._package = package

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The whole file."""
        return tomllib.loads((files(self._package) / "claims.toml").read_text("utf-8"))

    @cached_property
    def entries(self) -> list[Entry]:
        """All entries; the first that matches a row applies.

        The file's [goals] come first: group -> policy, column, "least" or "most", and the bound.
        """
        goals = [
            Entry(group=group, policy=policy, column=column, kind=kind, printed=bound, source=GOAL)
            for group, each in self.tables.get("goals", {}).items()
            for policy, column, kind, bound in each
        ]
        return goals + [Entry(**each) for each in self.tables.get("claims", [])]

    def goals(self, group: str) -> list[Entry]:
        """Goals of a group."""
        return [each for each in self.entries if each.source == GOAL and each.group == group]

    def of(self, group: str) -> Entry:
        """The first entry with columns and this pattern of groups."""
        return next(each for each in self.entries if each.group == group and each.columns)

    def claims(self, rows: Iterable[Row]) -> list[Row]:
        """A claim for each row; a row without an entry has no verdict.

        Rows whose "group: policy" matches the expression `ours` of the file are measured with an
        algorithm of this package. The file's [[remarks]] apply where the entry has none.
        """
        ours = re.compile(self.tables.get("ours", "$^"))
        remarks = [Entry(**each) for each in self.tables.get("remarks", [])]
        found = []
        for each in rows:
            entry = next((one for one in self.entries if one.matches(each.cell)), _NO_CLAIM)
            if not entry.remark:
                known = next((one.remark for one in remarks if one.matches(each.cell)), "")
                entry = replace(entry, remark=known)
            if ours.search(f"{each.cell.group}: {each.cell.policy}"):
                entry = replace(entry, algorithm="ours")
            found.append(entry.claim(each))
        return found


class TextTable(NamedTuple):
    """A table of a report: its header in capitals, and the rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


#: Lines and tables, one below the other.
Report = Sequence[str | TextTable]


def tables_of(facts: Mapping[str, Any], path: str = "") -> Iterator[str | TextTable]:
    """Each table among the entries of a JSON document, below the names that lead to it."""
    for name, each in facts.items():
        title, rows = f"{path}{name}", list[Mapping[str, Any]]()
        if isinstance(each, Mapping):
            rows = [{"": key, **row} for key, row in each.items() if isinstance(row, Mapping)]
        elif isinstance(each, list):
            rows = [row for row in each if isinstance(row, Mapping)]
        cells = [[_cell(cell) for cell in row.values()] for row in rows]
        if rows and not any(isinstance(cell, Mapping | list) for row in cells for cell in row):
            yield f"\n{title}:"
            yield TextTable([key.upper() for key in rows[0]], cells)
        elif isinstance(each, Mapping):
            yield from tables_of(each, f"{title}, ")


def _cell(value: Any) -> Any:
    """A number or an interval with four digits; anything else as it is."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple) and [type(each) for each in value] == [float, float]:
        return f"{value[0]:.4g} .. {value[1]:.4g}"
    return value


def judged_claims(claims: Sequence[Row]) -> Report:
    """A table of claims with printed and measured figures, then why some do not reproduce."""
    rows = []
    for claim in claims:
        decimals = claim.entry.decimals
        rows.append(
            [
                claim.cell.name,
                _bound(claim),
                format(claim.measured.value, ".4g" if decimals is None else f".{decimals}f"),
                _cell(claim.measured.ci95),
                claim.entry.algorithm,
                _VERDICTS[claim.reproduces],
            ]
        )
    return [
        TextTable(["CLAIM", "PRINTED", "MEASURED", "95 % INTERVAL", "ALGORITHM", "VERDICT"], rows),
        f"\n{_counted(claims)} What does not:",
        *(f"* {each.cell.name}: {each.why}." for each in claims if each.reproduces is False),
    ]


def _bound(claim: Row) -> str | None:
    """The printed figure, with its source where that is not a paper."""
    if claim.printed is None:
        return None
    source = {GOAL: " (goal)", READING: " (ours)"}.get(claim.entry.source, "")
    return f"{claim.printed.text}{source}"


#: Counted apart from the claims of the same algorithm.
_APART = {(GOAL, "ours"): "goals", (GOAL, "paper"): "goals", (READING, "paper"): "readings"}


def counts(claims: Sequence[Row]) -> dict[str, dict[str, int]]:
    """How many claims reproduce, by the algorithm measured; goals and readings apart.

    Returns:
        "paper", "readings", "ours" or "goals" -> "reproduce" and "judged", for those with a claim.
    """
    found = dict[str, dict[str, int]]()
    for claim in claims:
        if claim.reproduces is not None:
            algorithm = claim.entry.algorithm
            kind = _APART.get((claim.entry.source, algorithm), algorithm)
            count = found.setdefault(kind, {"reproduce": 0, "judged": 0})
            count["judged"] += 1
            count["reproduce"] += claim.reproduces
    return found


def _counted(claims: Sequence[Row]) -> str:
    sentences = {
        "paper": "{reproduce} of {judged} reproduce.",
        "readings": "By our reading of words that have no number, {reproduce} of {judged} do.",
        "ours": "With our algorithm in place of the paper's, {reproduce} of {judged} do.",
        "goals": "{reproduce} of {judged} goals of this project are met.",
    }
    found = counts(claims)
    return " ".join(text.format(**found[kind]) for kind, text in sentences.items() if kind in found)
