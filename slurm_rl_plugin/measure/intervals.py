"""Intervals of figures by the bootstrap, and the four verdicts on them.

Independent samples, learners and logs at once, and moving blocks of windows that share jobs (Künsch
1989). `scipy.stats.bootstrap` gives no interval where one draw is no number, and knows no blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: Verdicts on a difference.
BETTER, WORSE, NO_DIFFERENCE, INCONCLUSIVE = "better", "worse", "no difference", "inconclusive"
#: An interval of a difference, or none.
Interval = tuple[float, float] | None
#: Ends of a 95 % interval, as quantiles.
ENDS = (0.025, 0.975)
#: Number of resamples.
RESAMPLES = 1000
#: Fewest blocks of a sample; draws from fewer are too similar.
FEWEST_BLOCKS = 5
#: Jobs of a block: most waits in one do not come from the block before.
BLOCK_JOBS = 500


def verdict(difference: Interval, small: float = 0.0, *, more_is_better: bool = False) -> str:
    """The verdict on a difference by its 95 % interval; for a ratio that of its logarithm.

    NO_DIFFERENCE if the whole interval is within `small` of 0; otherwise BETTER or WORSE if it is
    on one side of 0; otherwise INCONCLUSIVE, as without a finite interval.
    """
    if difference is None or not all(map(math.isfinite, difference)):
        return INCONCLUSIVE
    low, high = difference
    if -small <= low and high <= small:
        return NO_DIFFERENCE
    if low > 0.0 or high < 0.0:
        return BETTER if (low > 0.0) == more_is_better else WORSE
    return INCONCLUSIVE


def widened(drawn: FloatArray, figure: float, samples: int) -> Interval:
    """The middle 95 % of draws about a figure; None where there are none, or any is no number.

    Draws of few samples vary too little: both sides are widened by Student's t over the normal,
    and by the root of n / (n - 1), n the samples that were drawn from.
    """
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415 - not on a head node

    if len(drawn) == 0 or not np.isfinite(drawn).all():
        return None
    wider = stdtrit(samples - 1, ENDS[1]) / ndtri(ENDS[1]) * math.sqrt(samples / (samples - 1))
    low, high = interval_of(drawn)
    return float(figure + wider * (low - figure)), float(figure + wider * (high - figure))


def interval_of(resampled: FloatArray) -> tuple[float, float]:
    """The middle 95 % of a figure's draws, shape [resamples]."""
    low, high = np.quantile(resampled, ENDS)
    return float(low), float(high)


def of_samples(values: FloatArray, statistic: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """A statistic over the last axis of samples, drawn the same each time; finite draws only."""
    samples = values.shape[-1]
    places = np.random.default_rng(0).integers(samples, size=(RESAMPLES, samples))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = statistic(values[..., places])
    return resampled[np.isfinite(resampled)]


def of_learners_and_logs(values: FloatArray) -> FloatArray:
    """Means where learners and logs are both drawn afresh, the same each time, shape [RESAMPLES].

    `values` has shape [learners, logs].
    """
    learners, logs = values.shape
    rng = np.random.default_rng(0)
    chosen_learners = rng.integers(learners, size=(RESAMPLES, learners, 1))
    chosen_logs = rng.integers(logs, size=(RESAMPLES, 1, logs))
    return np.asarray(values[chosen_learners, chosen_logs].mean(axis=(1, 2)))


def mean_over_windows(
    values: FloatArray,
    rng: np.random.Generator,
    *,
    block: int = 1,
) -> tuple[float, Interval]:
    """Mean of a figure over windows, and its interval; None where the windows are too few.

    `values` has shape [windows], in time order; `block` consecutive windows depend on each other.
    """
    mean = float(values.mean())
    if len(values) < FEWEST_BLOCKS * block:
        return mean, None
    return mean, interval_of(block_means(values, rng, block))


def block_means(values: FloatArray, rng: np.random.Generator, block: int) -> FloatArray:
    """Mean of each draw, shape [RESAMPLES]; the last block is cut to the number of windows.

    `values` has shape [windows], in time order; `block` is at most as many as there are.
    """
    places = drawn_places(len(values), rng, block)
    return np.asarray(values[places].mean(axis=1), dtype=np.float64)


def of_blocks(block: IntArray, statistic: Callable[[IntArray], float]) -> FloatArray:
    """A statistic of samples whose blocks are drawn whole, the same each time, shape [RESAMPLES].

    `block` numbers each sample's block, in any order and with gaps, shape [n] > 0; the statistic is
    of the samples at some places. Empty where the blocks are fewer than FEWEST_BLOCKS.
    """
    parts = [np.flatnonzero(block == each) for each in np.unique(block)]
    if len(parts) < FEWEST_BLOCKS:
        return np.empty(0)
    drawn = drawn_places(len(parts), np.random.default_rng(0))
    return np.array([statistic(np.concatenate([parts[each] for each in some])) for some in drawn])


def drawn_counts(count: int, rng: np.random.Generator) -> FloatArray:
    """How often each of `count` independent blocks is in each draw, shape [RESAMPLES, count].

    Of fewer blocks than FEWEST_BLOCKS there is no draw: shape [0, count].
    """
    draws = RESAMPLES if count >= FEWEST_BLOCKS else 0
    return rng.multinomial(count, np.full(count, 1.0 / count), size=draws).astype(np.float64)


def drawn_places(
    count: int, rng: np.random.Generator, block: int = 1, resamples: int = RESAMPLES
) -> IntArray:
    """Places of each draw: concatenated moving blocks, shape [resamples, count].

    A block has `block` consecutive values in time order. Callers take fewer resamples only if all
    of them do not fit into memory.
    """
    begins = rng.integers(count - block + 1, size=(resamples, -(-count // block)))
    return (begins[:, :, None] + np.arange(block)).reshape(resamples, -1)[:, :count]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRatio:
    """A figure of one policy over that of another, below 1 where the first has less."""

    mean: float  #: ratio of the arithmetic means over windows
    geometric_mean: float  #: of the ratios in the single windows
    #: 95 % confidence interval of `geometric_mean`; None where the windows are too few.
    ci95: tuple[float, float] | None


def ratio_over_windows(
    numerators: FloatArray,
    denominators: FloatArray,
    rng: np.random.Generator,
    *,
    block: int = 1,
) -> WindowRatio:
    """Ratio of a figure over paired windows, with a moving-block bootstrap interval.

    Both figures have shape [windows], in time order. Equally seeded generators draw the same
    windows for every policy. `block` consecutive windows depend on each other
    (`overlapping_windows`).

    Raises:
        ConfigurationError: a figure is not finite and above 0.
    """
    figures = np.concatenate([numerators, denominators])
    if not (np.isfinite(figures).all() and (figures > 0).all()):
        raise ConfigurationError("a figure of a window is not finite and above 0: no ratio of it.")
    logs = np.log(numerators / denominators)
    mean, ci95 = mean_over_windows(logs, rng, block=block)
    return WindowRatio(
        mean=float(numerators.mean() / denominators.mean()),
        geometric_mean=math.exp(mean),
        ci95=None if ci95 is None else (math.exp(ci95[0]), math.exp(ci95[1])),
    )


def overlapping_windows(firsts: Sequence[int], jobs: int) -> int:
    """The largest number of consecutive windows of `jobs` jobs that share a job; at least 1.

    `firsts` are the first jobs of the windows, ascending.
    """
    places = np.asarray(firsts)
    ends = np.searchsorted(places, places + jobs, side="left")
    return max(int((ends - np.arange(len(places))).max(initial=1)), 1)


#: Lengths of stretches, seconds, and their units; the first with enough stretches is used.
_UNITS = ((7 * DAY, "weeks"), (DAY, "days"))
#: Logarithmic bins of waits from one second: bins for a factor of ten, and factors of ten.
_BINS, _DECADES = 500, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Stretches of time, and their counts in each draw."""

    of: IntArray  #: stretch of each counted job, shape [n]
    drawn: FloatArray  #: shape [resamples, stretches]; no rows for too few stretches
    unit: str  #: "weeks" or "days" of a log

    @classmethod
    def over(cls, submit: FloatArray, rng: np.random.Generator) -> Blocks:
        """Weeks if there are enough, otherwise days; `submit` in seconds, shape [n] > 0."""
        since = submit - submit.min()
        enough = (each for each in _UNITS if since.max() >= FEWEST_BLOCKS * each[0])
        length, unit = next(enough, _UNITS[-1])
        return cls.of_stretches((since // length).astype(np.int64), unit, rng)

    @classmethod
    def of_stretches(cls, stretch: IntArray, unit: str, rng: np.random.Generator) -> Blocks:
        """Stretches by the number of each counted job's stretch, in any order and with gaps."""
        of = np.unique(stretch, return_inverse=True)[1].reshape(-1)
        count = int(of.max()) + 1
        return cls(of=of, drawn=drawn_counts(count, rng), unit=unit)

    @property
    def count(self) -> int:
        """Number of stretches."""
        return int(self.drawn.shape[1])

    def means(self, values: FloatArray, jobs: IntArray) -> FloatArray:
        """Mean over some jobs in each draw, NaN for a draw without them; shape [resamples].

        `values` are those of the counted jobs at the places `jobs`, shape [m] each.
        """
        of, stretches = self.of[jobs], self.count
        sums = np.bincount(of, weights=values, minlength=stretches)
        counts = np.bincount(of, minlength=stretches)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: FloatArray = (self.drawn @ sums) / (self.drawn @ counts)
        return found

    def quantiles(self, waits: FloatArray, jobs: IntArray, levels: FloatArray) -> FloatArray:
        """Quantiles of waits over some jobs in each draw, shape [resamples, levels].

        `waits`, in seconds, are those of the counted jobs at the places `jobs`, shape [m] each.
        """
        logs = np.log10(np.maximum(waits, 1.0)) * _BINS
        bins = np.minimum(np.ceil(logs).astype(np.int64), _DECADES * _BINS)
        found_bins, of = np.unique(bins, return_inverse=True)
        counts = np.zeros((self.count, len(found_bins)))
        np.add.at(counts, (self.of[jobs], of.reshape(-1)), 1.0)
        reached = np.cumsum(self.drawn @ counts, axis=1)
        seconds = np.where(found_bins > 0, 10.0 ** (found_bins / _BINS), 0.0)
        whole, exact = np.cumsum(counts.sum(axis=0)), np.quantile(waits, levels)
        found = np.full((len(self.drawn), len(levels)), np.nan)
        for place, level in enumerate(levels):
            at = np.argmax((reached >= level * reached[:, -1:]) & (reached > 0), axis=1)
            # bins are half a per cent wide, so draws are scaled by the exact figure
            own = seconds[np.argmax(whole >= level * whole[-1])]
            found[:, place] = seconds[at] * (exact[place] / own if own > 0 else 1.0)
        found[reached[:, -1] == 0] = np.nan
        return found
