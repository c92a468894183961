"""Sources joined by what each has been worth here, and bands set by what came of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.forecasts.calibration import Outcomes, Tails, calibrated, places_of
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts, pooled, weights_by_worth
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows
from slurm_rl_plugin.forecasts.live.sources import OWN, SOURCES
from slurm_rl_plugin.forecasts.scores import HORIZONS, horizon_of, log_waits, scores_by, scores_of
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Forecasts that must have come true before any is shown.
FEWEST_SCORED = 30
#: Age at which what came true counts half, seconds.
_HALF_LIFE = 7.0 * DAY
#: Least weight of a source in the spread: who was right lately may be wrong next.
_LEAST = 0.1
#: Rounds in which rows that are far off come to count less, and how near is near enough, log10.
_ROUNDS, _NEAR = 8, 0.1
#: Weights of SOURCES before anything speaks for others. The batch system itself tells a plan.
_PRIOR = np.array([0.6, 0.3, 0.1])
#: Forecasts of so many seconds are scored together.
LATELY = 28.0 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedForecasts:
    """Forecasts of some jobs at a moment."""

    #: Log10 of the wait by each of SOURCES, nan where it said nothing, [n, sources].
    sources: FloatArray
    weights: FloatArray  #: of SOURCES, where all speak
    kind: IntArray  #: class and horizon as one number, shape [n]
    plain: Forecasts  #: before the bands were set
    forecasts: Forecasts  #: as they are given
    scored: int  #: forecasts that have come true and that the bands are made of
    tails: Tails  #: shares that the bands leave out below and above

    def of(self, rows: IntArray) -> JoinedForecasts:
        """The same of some of the jobs."""
        return replace(
            self,
            sources=self.sources[rows],
            kind=self.kind[rows],
            plain=self.plain.select(rows),
            forecasts=self.forecasts.select(rows),
        )


def join(
    replays: Forecasts,
    past: Forecasts | None,
    own: FloatArray,
    interactive: BoolArray,
    earlier: GivenRows,
    now: float,
) -> JoinedForecasts:
    """What is to be told of some jobs.

    Args:
        past: what past waits say; None for nothing.
        own: seconds that the batch system expects, nan where it says nothing, shape [n].
    """
    sources = _sources(replays, past, own)
    weights = worth(earlier, now)
    middle = _filled(sources) @ weights
    spreads = [replays] if past is None else [replays, past]
    plain = _about(middle, pooled(spreads, np.maximum(weights[: len(spreads)], _LEAST)))
    kind = 2 * horizon_of(plain) + interactive
    outcomes, tails = _outcomes(earlier, now), _tails(earlier, now)
    scored = int(outcomes.known.sum())
    told = plain if scored < FEWEST_SCORED else calibrated(plain, kind, outcomes, tails)
    return JoinedForecasts(
        sources=sources,
        weights=weights,
        kind=kind,
        plain=plain,
        forecasts=told,
        scored=scored,
        tails=tails,
    )


def worth(earlier: GivenRows, now: float) -> FloatArray:
    """Weights of SOURCES with which they were closest, none negative, 1 in all."""
    over = earlier.known & np.isfinite(earlier.sources[:, 0])
    if not over.any():
        return _PRIOR
    said, wait = _filled(earlier.sources[over]), earlier.wait_by(now)[over]
    decayed = 0.5 ** ((now - earlier.moment[over]) / _HALF_LIFE)
    counts = one_user_capped(decayed, earlier.user[over])
    truth, found = log_waits(wait), _PRIOR
    for _ in range(_ROUNDS):
        # weights of the least absolute error by reweighted squares: a few forecasts that are off by
        # factors of a thousand must not choose for all others
        off = np.abs(said @ found - truth)
        found = weights_by_worth(said.T, truth, counts / np.maximum(off, _NEAR), _PRIOR)
    return found


def _about(middle: FloatArray, spread: Forecasts) -> Forecasts:
    """The spread with another median, on whose sides its other quantiles stay."""
    logs, half = spread.logs, len(LEVELS) // 2
    logs[:, :half] = np.minimum(logs[:, :half], middle[:, None])
    logs[:, half] = middle
    logs[:, half + 1 :] = np.maximum(logs[:, half + 1 :], middle[:, None])
    return Forecasts.of_logs(logs)


def _sources(replays: Forecasts, past: Forecasts | None, own: FloatArray) -> FloatArray:
    nothing = np.full(len(replays), np.nan)
    of_past = nothing if past is None else log_waits(past.median)
    told = np.isfinite(own)
    of_own = np.where(told, log_waits(np.where(told, own, 1.0)), np.nan)
    columns = (log_waits(replays.median), of_past, of_own)
    assert len(columns) == len(SOURCES)
    return np.column_stack(columns)


def _filled(sources: FloatArray) -> FloatArray:
    """Who says nothing is taken to say what replays do, so that he counts for and against none."""
    return np.where(np.isnan(sources), sources[:, :1], sources)


def _outcomes(earlier: GivenRows, now: float) -> Outcomes:
    counted = ~earlier.gone | earlier.known
    wait = np.maximum(earlier.wait_by(now), 0.0)
    return Outcomes(
        place=places_of(earlier.plain, log_waits(wait))[counted],
        known=earlier.known[counted],
        weight=(earlier.counts * 0.5 ** ((now - earlier.moment) / _HALF_LIFE))[counted],
        kind=earlier.kind[counted],
        user=earlier.user[counted],
    )


def _tails(earlier: GivenRows, now: float) -> Tails:
    """Shares moved by what the bands of each earlier day have missed so far."""
    tails = Tails()
    counted = earlier.shown & (~earlier.gone | earlier.known)
    day = np.floor((earlier.moment - now) / DAY)
    wait = earlier.wait_by(now)
    low, high = earlier.forecasts.band(0.9)
    missed_below, missed_above = (wait < low) & earlier.known, wait > high
    for each in np.unique(day[counted]):
        here = counted & (day == each)
        counts = one_user_capped(earlier.counts[here], earlier.user[here])
        sides = (missed_below[here], missed_above[here])
        tails = tails.after(*(float(np.average(side, weights=counts)) for side in sides))
    return tails


def scores_document(rows: GivenRows, now: float) -> dict[str, Any]:
    """Scores of the last weeks' forecasts whose jobs have started."""
    lately = rows.moment >= now - LATELY
    over = lately & rows.known
    found: dict[str, Any] = {
        "given": _number(rows, lately),
        "started": _number(rows, over),
        "gone": _number(rows, lately & rows.gone),
        "enough": int(over.sum()) >= FEWEST_SCORED,
    }
    if not over.any():
        return found
    told, wait = rows.forecasts.select(over), rows.wait_by(now)[over]
    names = list(HORIZONS)
    labels = {
        "class": np.where(rows.interactive[over], "interactive", "batch"),
        "partition": rows.partition[over],
        "horizon": np.array([names[each] for each in horizon_of(told)]),
    }
    found["all"] = scores_of(told, wait).as_json()
    for what, each in labels.items():
        found[what] = {name: one.as_json() for name, one in scores_by(each, told, wait).items()}
    found["sources"] = _of_sources(rows, over, now)
    return found


def _number(rows: GivenRows, which: BoolArray) -> int:
    """How many forecasts some rows stand for."""
    return round(float(rows.stands_for[which].sum()))


def _of_sources(rows: GivenRows, over: BoolArray, now: float) -> dict[str, Any]:
    """Median error of each source, and of what was told of the same jobs."""
    found = {}
    for place, name in enumerate(SOURCES):
        spoke = over & np.isfinite(rows.sources[:, place])
        if not spoke.any():
            continue
        truth = log_waits(rows.wait_by(now)[spoke])
        found[name] = {
            "jobs": int(spoke.sum()),
            "median_error": float(np.median(np.abs(rows.sources[spoke, place] - truth))),
            "told_median_error": _median_error(rows.forecasts.select(spoke), truth),
        }
    started = int(over.sum())
    if OWN in found:
        found[OWN]["part_of_jobs"] = found[OWN]["jobs"] / started
    return found


def _median_error(told: Forecasts, truth: Any) -> float:
    return float(np.median(np.abs(log_waits(told.median) - truth)))
