"""A published figure beside one that is measured here, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
