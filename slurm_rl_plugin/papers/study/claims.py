"""Published figures beside measured ones: claims, their verdicts, and reports of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.intervals import interval_of, of_samples

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A figure and how well it is known.

    Attributes:
        value: over the seeds.
        standard_error: over the seeds; None where there is but one log.
        ci95: bootstrap interval over the seeds; None where there is but one log.
    """

    value: float
    standard_error: float | None = None
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
    """Take a statistic over the seeds, its errors by bootstrap; the same each time.

    Args:
        values: a figure of each seed on the last axis.
        statistic: over that axis.
    """
    seeds = values.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(values))
    if seeds < 2:
        return Measurement(value=value)
    return Measurement.of(value, of_samples(values, statistic))


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A figure as somebody printed it.

    Attributes:
        value: what it says.
        unit: worth of its last digit.
        text: as printed.
    """

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


class Judgement(NamedTuple):
    """A verdict that is no matter of three standard errors.

    Attributes:
        holds: whether the published figure or sentence reproduces.
        because: one sentence.
    """

    holds: bool
    because: str


class Cell(NamedTuple):
    """Where a figure stands.

    Attributes:
        group: the experiment that it belongs to.
        policy: whose schedule.
        column: what was measured; empty where it is the same in all of the group.
    """

    group: str
    policy: str
    column: str = ""

    @property
    def in_group(self) -> str:
        """Policy and column."""
        return f"{self.policy}, {self.column}" if self.column else self.policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One figure of an experiment.

    Attributes:
        cell: where it stands.
        measured: by this package.
        printed: by the source; None where there is no earlier figure.
        source: who published it; GOAL where nobody did, READING where the number is ours.
        algorithm: whose algorithm was measured; "ours" never counts for a paper.
        remark: why it may differ; for those that do not reproduce.
        baselines: policy -> the same figure under it.
        judged: the verdict where the printed figure is not the expected value but one draw, a
            bound or a sentence; None compares within three standard errors.
        decimals: in which the two are compared, where the input is no matter of chance; else None.
    """

    cell: Cell
    measured: Measurement
    printed: Printed | None = None
    source: str = "paper"
    algorithm: Algorithm = "paper"
    remark: str = ""
    baselines: Mapping[str, float] = field(default_factory=dict)
    judged: Judgement | None = None
    decimals: int | None = None

    @property
    def name(self) -> str:
        """Group, policy and column."""
        return f"{self.cell.group}: {self.cell.in_group}"

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
        return self.printed is not None and self._off() <= self.printed.unit * (0.5 + 1e-9)

    @property
    def reproduces(self) -> bool | None:
        """Within three standard errors and the rounding of the print; None if unpublished."""
        if self.judged is not None:
            return self.judged.holds
        if self.printed is None:
            return None
        allowed = TOLERANCE * (self.measured.standard_error or 0.0)
        return self.equal_as_printed or self._off() <= allowed + self.printed.unit / 2

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
        return f"{off}, {self._off() / error:.1f} standard errors" if error else off

    def _off(self) -> float:
        return abs(self.difference or 0.0)

    @property
    def _finite_difference(self) -> float | None:
        found = self.difference
        return found if found is None or math.isfinite(found) else None

    def as_json(self) -> dict[str, Any]:
        """Its entry of `reproduce --json`; null where a figure has no value, as 0 over 0."""
        verdicts = {True: "reproduces", False: "does not", None: None}
        differs = self.reproduces is False and self.remark
        return {
            "name": self.name,
            "source": None if self.printed is None else self.source,
            "algorithm": self.algorithm,
            "printed": None if self.printed is None else self.printed.value,
            "measured": self.measured.value if math.isfinite(self.measured.value) else None,
            "standard_error": self.measured.standard_error,
            "ci95": None if self.measured.ci95 is None else list(self.measured.ci95),
            "difference": self._finite_difference,
            "baselines": {
                name: value if math.isfinite(value) else None
                for name, value in self.baselines.items()
            },
            "verdict": verdicts[self.reproduces],
            "because": f"{self.because}: {self.remark}" if differs else self.because,
        }


#: Logs of which an interval says something.
FEW_LOGS = 10
#: Part of the draws that counts as usual.
_USUAL = (0.025, 0.975)


class Goal(NamedTuple):
    """A bound on a figure; met where its 95 % interval reaches it (definitions).

    Attributes:
        policy: whose figure.
        column: what is measured.
        bound: as text, with its decimals.
        least: whether the figure is to be at least the bound; otherwise at most.
    """

    policy: str
    column: str
    bound: str
    least: bool = True


def as_one_draw(printed: Printed, draws: FloatArray, remark: str = "") -> Judgement:
    """Whether a figure printed for one random log is a usual one among ours.

    A mean wait at load .99 varies several-fold from log to log: that the printed figure is not
    our mean says nothing.

    Args:
        printed: of one log.
        draws: ours, one a log; of a single log it must be equal as printed.
        remark: why it differs, where it does; a clause without a full stop.
    """
    if len(draws) < 2:
        holds = bool(abs(draws[0] - printed.value) <= printed.unit / 2)
        text = f"measured {draws[0]:.4g} on the one log"
    else:
        low, high = np.quantile(draws, _USUAL)
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
        bound: as stated.
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


def bounded(
    cell: Cell,
    measured: Measurement,
    bound: str,
    *,
    least: bool = False,
    logs: int = FEW_LOGS,
    source: str = "paper",
    algorithm: Algorithm = "paper",
    baselines: Mapping[str, float] | None = None,
    remark: str = "",
) -> Claim:
    """The claim that a figure keeps to a bound, judged by `as_bound`, which see.

    Args:
        cell: whose figure.
        measured: by this package.
        bound: as stated, with its decimals.
        least: whether it is a lower bound.
        logs: how many were measured.
        source: who states it.
        algorithm: whose algorithm was measured.
        baselines: policy -> the same figure under it.
        remark: why it does not hold, where it does not.
    """
    printed = Printed.of(bound)
    return Claim(
        cell=cell,
        measured=measured,
        printed=printed,
        source=source,
        algorithm=algorithm,
        baselines=baselines or {},
        judged=as_bound(measured, printed.value, least=least, logs=logs, remark=remark),
    )


def as_gain(difference: Measurement, remark: str = "") -> Judgement:
    """Whether a paired difference is an improvement: its whole interval lies above 0.

    Args:
        difference: new less old, of a figure of which more is better.
        remark: why not, where it is none; a clause without a full stop.
    """
    low, high = difference.ends
    text = f"paired difference {difference.value:+.3g}, 95 % interval {low:+.3g} to {high:+.3g}"
    holds = bool(low > 0.0)
    return Judgement(holds, text if holds or not remark else f"{text}: {remark}")


class TextTable(NamedTuple):
    """A table of a report: its header in capitals, and rows of as many cells."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


#: Lines or tables one below the other.
Report = Sequence[str | TextTable]


def sampled_claims(claims: Sequence[Claim]) -> Report:
    """Figures of random input with their errors, and what is known of those that differ."""
    rows = []
    for claim in claims:
        printed, measured = claim.printed, claim.measured
        error = None if measured.standard_error is None else f"{measured.standard_error:.2g}"
        text = None if printed is None else printed.text
        rows.append([claim.name, text, measured.value, error, claim.because])
    differing = [claim.remark for claim in claims if claim.reproduces is False and claim.remark]
    known = {remark: differing.count(remark) for remark in differing}
    return [
        TextTable(["CELL", "EARLIER", "MEASURED", "ERROR", "BECAUSE"], rows),
        f"\n{_counted(claims)} What is known of the others:",
        *(
            f"* {cells} {'cell' if cells == 1 else 'cells'}: {remark}."
            for remark, cells in known.items()
        ),
    ]


def judged_claims(claims: Sequence[Claim]) -> Report:
    """Claims of a paper: its figure, ours with its interval and the verdict; then why not."""
    rows = []
    for claim in claims:
        interval = claim.measured.ci95
        rows.append(
            [
                claim.name,
                _bound(claim),
                f"{claim.measured.value:.4g}",
                None if interval is None else f"{interval[0]:.4g} .. {interval[1]:.4g}",
                claim.algorithm,
                _VERDICTS[claim.reproduces],
            ]
        )
    return [
        TextTable(["CLAIM", "PRINTED", "MEASURED", "95 % INTERVAL", "ALGORITHM", "VERDICT"], rows),
        f"\n{_counted(claims)} What does not:",
        *(f"* {claim.name}: {claim.because}." for claim in claims if claim.reproduces is False),
    ]


def _bound(claim: Claim) -> str | None:
    """What a figure is held against, with its source where that is not a paper."""
    if claim.printed is None:
        return None
    whose = {GOAL: " (goal)", READING: " (ours)"}.get(claim.source, "")
    return f"{claim.printed.text}{whose}"


#: None where nobody published the figure.
_VERDICTS = {True: "reproduces", False: "does not", None: None}


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
