"""Measured rows beside printed figures: claims, their verdicts, and reports of them.

A paper's `claims.toml` says which rows of its experiment are printed in a paper or are goals
of this project, and how they are judged (`Entry`); its experiment gives the rows.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np

from slurm_rl_plugin.measure.intervals import ENDS, interval_of, of_samples
from slurm_rl_plugin.units import FloatArray

#: Whose algorithm a figure is measured with: the paper's as printed, or one of this package.
Algorithm = Literal["paper", "ours"]
#: What is taken over the last axis, the seeds.
Statistic = Callable[[FloatArray], FloatArray]

#: Source of a claim that no paper makes: what we want of our own.
GOAL = "goal"
#: Source of a bound that makes a word of a paper a number, which it does not print.
READING = "our reading of the paper"
#: How many standard errors a published figure may lie off the measured one.
TOLERANCE = 3.0
#: Logs of which an interval says something.
FEW_LOGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A figure and how well it is known."""

    value: float
    standard_error: float | None = None  #: over the seeds; None where there is but one log
    #: Bootstrap interval over the seeds; None where there is but one log.
    ci95: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval; the figure itself twice where there is none."""
        return self.ci95 or (self.value, self.value)

    @classmethod
    def of(cls, value: float, resampled: FloatArray) -> Measurement:
        """A figure with the errors that its draws tell, shape [resamples]; none of fewer than 2."""
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
    """Mean of the first row over that of the second; of values of shape [2, ..., seeds]."""
    return np.asarray(pair[0].mean(axis=-1) / pair[1].mean(axis=-1))


def measure(values: FloatArray, statistic: Statistic = mean) -> Measurement:
    """Take a statistic over the seeds, the last axis; errors by bootstrap, the same each time."""
    seeds = values.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(values))
    if seeds < 2:
        return Measurement(value=value)
    return Measurement.of(value, of_samples(values, statistic))


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A figure as it is printed, with the worth of its last digit."""

    value: float
    unit: float
    text: str

    @classmethod
    def of(cls, text: str) -> Printed:
        """Read such as "2676", ".215", "7.9k" or "2.48E-04"."""
        mantissa, _, exponent = text.partition("E")
        digits = mantissa.removesuffix("k")
        scale = (1000.0 if digits != mantissa else 1.0) * 10.0 ** int(exponent or 0)
        decimals = len(digits.partition(".")[2])
        return cls(value=float(digits) * scale, unit=scale * 10.0**-decimals, text=text)

    @classmethod
    def rounded(cls, value: float, decimals: int) -> Printed:
        """A figure that follows from printed ones, shown with so many decimals."""
        return cls(value=value, unit=10.0**-decimals, text=f"{value:.{decimals}f}")


class Judgement(NamedTuple):
    """A verdict that is no matter of three standard errors, and one sentence why."""

    holds: bool
    because: str

    def said(self, template: str) -> Judgement:
        """The same with its reason in a longer sentence, as "{because}"."""
        return self._replace(because=template.replace("{because}", self.because))


def as_one_draw(printed: Printed, draws: FloatArray, remark: str = "") -> Judgement:
    """Whether a figure printed for one random log is a usual one among ours.

    A mean wait at load .99 varies several-fold from log to log: that the printed figure is not
    our mean says nothing.

    Args:
        draws: ours, one a log; of a single log it must be equal as printed.
        remark: why it differs, where it does; a clause without a full stop.
    """
    if len(draws) < 2:
        holds = bool(abs(draws[0] - printed.value) <= printed.unit / 2)
        text = f"measured {draws[0]:.4g} on the one log"
    else:
        low, high = np.quantile(draws, ENDS)
        holds = bool(low - printed.unit / 2 <= printed.value <= high + printed.unit / 2)
        place = "within" if holds else "outside"
        text = f"printed figure {place} {low:.4g} to {high:.4g}, the middle 95 % of single logs"
    return Judgement(holds, text if holds or not remark else f"{text}: {remark}")


def as_bound(
    measured: Measurement, bound: float, *, least: bool, logs: int = FEW_LOGS, remark: str = ""
) -> Judgement:
    """Whether a figure keeps to a bound that the text of a paper states; its interval may reach it.

    Args:
        measured: with its interval over the logs, where there are several.
        least: whether the figure is to be at least the bound; otherwise at most.
        logs: how many were measured; the interval of a few reaches anything, so that the mean
            alone is judged.
        remark: why it does not, where it does not; a clause without a full stop.
    """
    low, high = measured.ends if logs >= FEW_LOGS else (measured.value, measured.value)
    holds = bool(high >= bound) if least else bool(low <= bound)
    side = "at least" if least else "at most"
    text = f"{measured.value:.5g} against {side} {bound:.4g}"
    return Judgement(holds, text if holds or not remark else f"{text}: {remark}")


def as_gain(difference: Measurement, remark: str = "") -> Judgement:
    """Whether a paired difference, of which more is better, is one: all its interval above 0."""
    low, high = difference.ends
    text = f"paired difference {difference.value:+.3g}, 95 % interval {low:+.3g} to {high:+.3g}"
    holds = bool(low > 0.0)
    return Judgement(holds, text if holds or not remark else f"{text}: {remark}")


class Cell(NamedTuple):
    """Where a figure stands."""

    group: str  #: the experiment that it belongs to
    policy: str
    column: str = ""  #: what was measured; empty where it is the same in all of the group

    @property
    def in_group(self) -> str:
        """Policy and column."""
        return f"{self.policy}, {self.column}" if self.column else self.policy

    @property
    def name(self) -> str:
        """All of it."""
        return f"{self.group}: {self.in_group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure of an experiment, before anything is claimed of it."""

    cell: Cell  #: where it stands
    measured: Measurement
    draws: FloatArray | None = None  #: one figure a log, for a printed figure that is one of them
    logs: int = FEW_LOGS  #: how many were measured; see `as_bound`
    #: Policy -> the same figure under it.
    baselines: Mapping[str, float] = field(default_factory=dict)
    #: What the texts of its entry name in braces.
    words: Mapping[str, Any] = field(default_factory=dict)
    #: Where that follows from other printed figures; else the entry has it.
    printed: Printed | None = None
    judged: Judgement | None = None  #: where the verdict follows from more than this row


def row_of(group: str, policy: str, column: str, measured: float | Measurement, **more: Any) -> Row:
    """The row of a figure that is measured already; a number alone has no interval."""
    if not isinstance(measured, Measurement):
        measured = Measurement(value=float(measured))
    return Row(cell=Cell(group, policy, column), measured=measured, **more)


def row(group: str, policy: str, column: str, values: FloatArray, **more: Any) -> Row:
    """The row of a mean over logs, shape [logs]; each log is a draw."""
    more = {"draws": values, "logs": len(values), **more}
    return row_of(group, policy, column, measure(values), **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row beside what was printed."""

    row: Row
    printed: Printed | None = None  #: by the source; None where there is no earlier figure
    #: Who published it; GOAL where nobody did, READING where the number is ours.
    source: str = "paper"
    algorithm: Algorithm = "paper"  #: whose algorithm was measured; "ours" never counts for a paper
    remark: str = ""  #: why it may differ; for those that do not reproduce
    #: The verdict where the printed figure is not the expected value but one draw, a bound or a
    #: sentence; None compares within three standard errors.
    judged: Judgement | None = None
    #: In which the two are compared, where the input is no matter of chance; else None.
    decimals: int | None = None

    @property
    def cell(self) -> Cell:
        """Where its figure stands."""
        return self.row.cell

    @property
    def measured(self) -> Measurement:
        """Its figure."""
        return self.row.measured

    @property
    def difference(self) -> float | None:
        """Measured less published, in `decimals` where there are any."""
        if self.printed is None:
            return None
        if self.decimals is None:
            return self.measured.value - self.printed.value
        return round(round(self.measured.value, self.decimals) - self.printed.value, self.decimals)

    @property
    def equal_as_printed(self) -> bool:
        """Whether the measured figure rounds to the published one."""
        # the last term forgives the rounding of the subtraction itself
        return self.printed is not None and self._off <= self.printed.unit * (0.5 + 1e-9)

    @property
    def reproduces(self) -> bool | None:
        """Within three standard errors and the rounding of the print; None if unpublished."""
        if self.judged is not None:
            return self.judged.holds
        if self.printed is None:
            return None
        allowed = TOLERANCE * (self.measured.standard_error or 0.0)
        return self.equal_as_printed or self._off <= allowed + self.printed.unit / 2

    @property
    def because(self) -> str:
        """The reason of the verdict, without the remark."""
        if self.judged is not None:
            return self.judged.because
        if self.printed is None:
            return "no earlier figure"
        if self.equal_as_printed:
            return "equal as printed"
        error = self.measured.standard_error
        off = f"off by {self.measured.value - self.printed.value:+.3g}"
        return f"{off}, {self._off / error:.1f} standard errors" if error else off

    @property
    def why(self) -> str:
        """The reason of the verdict, with the remark where it does not reproduce."""
        differs = self.reproduces is False and self.remark
        return f"{self.because}: {self.remark}" if differs else self.because

    @property
    def _off(self) -> float:
        return abs(self.difference or 0.0)

    def as_json(self) -> dict[str, Any]:
        """Its entry of `reproduce --json`; null where a figure has no value, as 0 over 0."""
        interval, error = self.measured.ci95, self.measured.standard_error
        return {
            "name": self.cell.name,
            "source": None if self.printed is None else self.source,
            "algorithm": self.algorithm,
            "printed": None if self.printed is None else self.printed.value,
            "measured": _finite(self.measured.value),
            "standard_error": error,
            "ci95": None if interval is None else list(interval),
            "difference": _finite(self.difference),
            "baselines": {name: _finite(value) for name, value in self.row.baselines.items()},
            "verdict": _VERDICTS[self.reproduces],
            "because": self.why,
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


#: None where nobody published the figure.
_VERDICTS = {True: "reproduces", False: "does not", None: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is claimed of some rows: a table [[claims]] of a paper's `claims.toml`."""

    #: group, policy, column: of the rows, each a pattern as of file names, or several.
    group: str | Sequence[str] = "*"
    policy: str | Sequence[str] = "*"
    column: str | Sequence[str] = "*"
    #: The figure as text; or policies (patterns) -> figures of `columns`, in a line, "-" where
    #: there is none.
    printed: str | Mapping[str, str] = ""
    columns: Sequence[str] = ()  #: of such a line
    #: "equal" (within three standard errors), "decimals" (in so many of them), "draw" (the printed
    #: figure is one log's), "least" or "most" (it is a bound), "gain" (it is a difference above 0),
    #: "row" (the row is judged already), "told" (nothing is claimed).
    kind: str = "equal"
    bound: float | None = None  #: in place of the printed figure
    #: source, algorithm, remark: of the claims; the remark may name the row's words in braces.
    source: str = "paper"
    algorithm: Algorithm = "paper"
    remark: str = ""
    #: The reason of the verdict in a longer sentence, which may name the words too.
    because: str = ""
    holding: str = ""  #: what is added to that reason where the row reproduces
    alone: bool = False  #: judge a bound by the mean itself, not by what its interval reaches
    decimals: int | None = None  #: see `Claim`

    def matches(self, cell: Cell) -> bool:
        """Whether it is about a row."""
        wanted = (self.group, self.policy, self.column)
        return all(_is_one_of(text, each) for text, each in zip(cell, wanted, strict=True)) and (
            isinstance(self.printed, str) or self.text(cell) is not None
        )

    def line(self, policy: str) -> list[str]:
        """What is printed of a policy, in the order of `columns`; nothing for other policies."""
        lines = {} if isinstance(self.printed, str) else self.printed
        return next((each.split() for name, each in lines.items() if fnmatchcase(policy, name)), [])

    def text(self, cell: Cell) -> str | None:
        """The printed figure of a cell; None where its line has none."""
        if isinstance(self.printed, str):
            return self.printed
        return dict(zip(self.columns, self.line(cell.policy), strict=False)).get(cell.column)

    def claim(self, row: Row) -> Claim:
        """A row as it says."""
        text = self.text(row.cell)
        printed = row.printed or (Printed.of(text) if text and text != "-" else None)
        remark = self.remark.format(**row.words)
        judged = self._judged(row, printed, remark)
        if judged is not None and self.because:
            judged = judged.said(self.because.format(because="{because}", **row.words))
        if judged is not None and judged.holds:
            judged = judged.said("{because}" + self.holding)
        return Claim(
            row=row,
            printed=printed,
            source=self.source,
            algorithm=self.algorithm,
            remark=remark if judged is None else "",
            judged=judged,
            decimals=self.decimals,
        )

    def _judged(self, row: Row, printed: Printed | None, remark: str) -> Judgement | None:
        if self.kind in ("equal", "told"):
            return None
        if self.kind == "row":
            return row.judged
        if self.kind == "decimals" and printed is not None:
            return _to_decimals(row.measured.value, printed, self.decimals or 0)
        if self.kind == "gain":
            return as_gain(row.measured, remark)
        if self.kind == "draw" and printed is not None and row.draws is not None:
            return as_one_draw(printed, row.draws, remark)
        bound = printed.value if self.bound is None and printed is not None else self.bound or 0.0
        logs = 1 if self.alone else row.logs
        return as_bound(row.measured, bound, least=self.kind == "least", logs=logs, remark=remark)


def _to_decimals(measured: float, printed: Printed, decimals: int) -> Judgement:
    off = round(round(measured, decimals) - printed.value, decimals)
    equal = "equal to two decimals" if decimals == 2 else "equal as printed"
    differs = f"differs by {100.0 * off / printed.value:+.2f} %"
    return Judgement(off == 0.0, differs if off else equal)


def _is_one_of(text: str, patterns: str | Sequence[str]) -> bool:
    every = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatchcase(text, pattern) for pattern in every)


class Declared:
    """A paper's `claims.toml`: its entries, and tables that its code reads itself."""

    def __init__(self, package: str) -> None:
        """Name the paper's package; the file is read when it is asked for."""
        self._package = package

    @cached_property
    def tables(self) -> dict[str, Any]:
        """All of the file."""
        return tomllib.loads((files(self._package) / "claims.toml").read_text("utf-8"))

    @cached_property
    def entries(self) -> list[Entry]:
        """What is claimed; of several entries that match a row the first one counts.

        First the file's [goals]: group -> policy, column, "least" or "most", and the bound.
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
        """The first entry with columns whose pattern of groups this is."""
        return next(each for each in self.entries if each.group == group and each.columns)

    def claims(self, rows: Iterable[Row]) -> list[Claim]:
        """A claim for each row; nothing is claimed of one that no entry is about.

        What the expression `ours` of the file finds in "group: policy" is measured with an
        algorithm of ours. Its [[remarks]] are for rows whose entry has none.
        """
        ours = re.compile(self.tables.get("ours", "$^"))
        remarks = [Entry(**each) for each in self.tables.get("remarks", [])]
        found = []
        for each in rows:
            entry = next((one for one in self.entries if one.matches(each.cell)), _TOLD)
            known = next((one.remark for one in remarks if one.matches(each.cell)), "")
            claim = replace(entry, remark=entry.remark or known).claim(each)
            if ours.search(f"{each.cell.group}: {each.cell.policy}"):
                claim = replace(claim, algorithm="ours")
            found.append(claim)
        return found


_TOLD = Entry(kind="told")


class TextTable(NamedTuple):
    """A table of a report: its header in capitals, and rows of as many cells."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, header: Sequence[str], rows: Iterable[Iterable[Any]], digits: str) -> TextTable:
        """With fractions written as a format such as ".3f" says."""
        shown = [
            [format(cell, digits) if isinstance(cell, float) else cell for cell in each]
            for each in rows
        ]
        return cls(header, shown)


#: Lines or tables one below the other.
Report = Sequence[str | TextTable]


def judged_claims(claims: Sequence[Claim]) -> Report:
    """Claims of a paper: its figure, ours with its interval and the verdict; then why not."""
    rows = []
    for claim in claims:
        interval = claim.measured.ci95
        rows.append(
            [
                claim.cell.name,
                _bound(claim),
                format(claim.measured.value, _digits(claim)),
                None if interval is None else f"{interval[0]:.4g} .. {interval[1]:.4g}",
                claim.algorithm,
                _VERDICTS[claim.reproduces],
            ]
        )
    return [
        TextTable(["CLAIM", "PRINTED", "MEASURED", "95 % INTERVAL", "ALGORITHM", "VERDICT"], rows),
        f"\n{_counted(claims)} What does not:",
        *(f"* {each.cell.name}: {each.why}." for each in claims if each.reproduces is False),
    ]


def _digits(claim: Claim) -> str:
    return ".4g" if claim.decimals is None else f".{claim.decimals}f"


def _bound(claim: Claim) -> str | None:
    """What a figure is held against, with its source where that is not a paper."""
    if claim.printed is None:
        return None
    whose = {GOAL: " (goal)", READING: " (ours)"}.get(claim.source, "")
    return f"{claim.printed.text}{whose}"


def counts(claims: Sequence[Claim]) -> dict[str, dict[str, int]]:
    """How many claims reproduce, by whose algorithm was measured.

    Goals, and bounds that are our reading of a paper's word, count apart.

    Returns:
        "paper", "readings", "ours" or "goals" -> "reproduce" and "judged", for those that have any
        claim.
    """
    found = dict[str, dict[str, int]]()
    for claim in claims:
        if claim.reproduces is not None:
            apart = {(GOAL, claim.algorithm): "goals", (READING, "paper"): "readings"}
            kind = apart.get((claim.source, claim.algorithm), claim.algorithm)
            count = found.setdefault(kind, {"reproduce": 0, "judged": 0})
            count["judged"] += 1
            count["reproduce"] += claim.reproduces
    return found


def _counted(claims: Sequence[Claim]) -> str:
    """One sentence for each count."""
    sentences = {
        "paper": "{reproduce} of {judged} reproduce.",
        "readings": "By our reading of words that have no number, {reproduce} of {judged} do.",
        "ours": "With our algorithm in place of the paper's, {reproduce} of {judged} do.",
        "goals": "{reproduce} of {judged} goals of this project are met.",
    }
    found = counts(claims)
    return " ".join(text.format(**found[kind]) for kind, text in sentences.items() if kind in found)
