"""What is claimed: nothing is said where nothing is, a gain is found, and harm ends soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Statistic, mean, measure, median
from slurm_rl_plugin.papers.study.verdicts import bounded
from slurm_rl_plugin.papers.switchback.experiment import (
    ALIKE,
    GAIN,
    GAINED,
    HARM,
    SOON,
    Damage,
    HeldTrial,
    stopped_after,
)
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.utility.intervals import INCONCLUSIVE, WORSE

#: Who speaks.
_EVIDENCE, _GUARDS, _EITHER = "evidence", "guards", "evidence or guards"
#: The goals: falsely said at most, found at least, off at least.
_FALSE, _FOUND, _OFF = "0.05", "0.80", "0.95"
GUARD_TRIPPED = "a guard tripped"
#: What many would do: a t test of raw costs, looked at as often. Its bound, and first look.
_NAIVE, _NAIVE_BOUND, _NAIVE_FIRST = "t test of raw costs, looked at after each block", 1.96, 8


def switchback_claims(found: Mapping[str, Sequence[HeldTrial]]) -> Iterator[Claim]:
    """Every figure of the study; goals first.

    Args:
        found: trials by kind.
    """
    null, gain, harm = (found[kind] for kind in (ALIKE, GAIN, HARM))
    yield _goal(
        Cell(ALIKE, _EVIDENCE, "ever said better or worse, of any goal"),
        _part(null, lambda each: each.is_said),
        _FALSE,
        least=False,
        baselines={GUARD_TRIPPED: _mean(null, _is_guarded), _NAIVE: _mean(null, _naive_says)},
    )
    yield _goal(
        Cell(GAIN, _EVIDENCE, "found better by the end"),
        _part(gain, lambda each: each.is_better),
        _FOUND,
        baselines={GUARD_TRIPPED: _mean(gain, _is_guarded)},
    )
    yield _goal(
        Cell(HARM, _EITHER, f"off within {SOON:.0f} hours"),
        _part(harm, lambda each: each.hours(each.off) <= SOON),
        _OFF,
        baselines={"evidence alone": _mean(harm, _is_sure_soon)},
    )
    yield from _of_no_effect(null)
    yield from _of_a_gain(gain)
    yield from _of_harm(harm)


def _goal(
    cell: Cell,
    values: FloatArray,
    bound: str,
    *,
    baselines: Mapping[str, float],
    least: bool = True,
) -> Claim:
    """Judged by the mean itself, not by what its interval reaches."""
    return bounded(
        cell, measure(values), bound, least=least, logs=1, source="goal", baselines=baselines
    )


def _of_no_effect(null: Sequence[HeldTrial]) -> Iterator[Claim]:
    yield _fact(ALIKE, _EVIDENCE, "said of the declared goal", _part(null, _is_said_of_declared))
    yield _fact(ALIKE, _GUARDS, "tripped", _part(null, _is_guarded))
    yield _fact(ALIKE, _EVIDENCE, "sequence holds the true ratio", _part(null, _covers))


def _of_a_gain(gain: Sequence[HeldTrial]) -> Iterator[Claim]:
    days = [
        min(each.hours(each.decides.blocks if each.is_better else None), _length(each)) * HOUR / DAY
        for each in gain
    ]
    column = "days until found better, whole length where never"
    yield _fact(GAIN, _EVIDENCE, f"{column}: median", np.array(days), median)
    yield _fact(GAIN, _EVIDENCE, f"{column}: mean", np.array(days))
    estimates = np.array([each.decides.effect.estimate for each in gain])
    yield _fact(GAIN, _EVIDENCE, "estimate, log of the ratio", estimates)
    true = np.log([each.ratio for each in gain])
    yield _fact(GAIN, "the truth", "log of the ratio", true)
    off = np.abs(np.exp(true) - (1.0 - GAINED))
    yield _fact(GAIN, "the truth", "furthest from a gain of 15 %", off, _most)
    yield _fact(GAIN, _EVIDENCE, "sequence holds the true ratio", _part(gain, _covers))
    yield _fact(GAIN, _GUARDS, "tripped", _part(gain, _is_guarded))
    worse = _part(gain, lambda each: any(one.word == WORSE for one in each.found))
    yield _fact(GAIN, _EVIDENCE, "ever said worse, of any goal", worse)


def _of_harm(harm: Sequence[HeldTrial]) -> Iterator[Claim]:
    hours = np.array([min(each.hours(each.off), _length(each)) for each in harm])
    column = "hours until off, whole length where never"
    yield _fact(HARM, _EITHER, f"{column}: median", hours, median)
    yield _fact(HARM, _EITHER, f"{column}: 95 % quantile", hours, _late)
    yield _fact(HARM, _EITHER, "never off", _part(harm, lambda each: each.off is None))
    yield _fact(HARM, "the truth", "ratio of slowdowns", _ratios(harm), median)
    for name, stop in STOPS.items():
        for place, unit in enumerate(Damage._fields):
            replayed = np.array([each.damage(stop(each))[place] for each in harm])
            yield _fact(HARM, name, f"{_UNITS[unit]}, by replays of its blocks", replayed)
            really = np.array([each.really[stop(each)][place] for each in harm])
            yield _fact(HARM, name, f"{_UNITS[unit]}, to all jobs", really)


_UNITS = {"waited": "extra job-hours waited", "slowdown": "extra slowdown"}
#: When ours is taken back: as the experiment says, or whatever it says.
STOPS: Mapping[str, Callable[[HeldTrial], int]] = {
    "as it was stopped": stopped_after,
    f"left on for {SOON:.0f} hours": lambda each: each.blocks_within(SOON),
    "left on to the end": lambda each: len(each.declared.blocks),
}


def never_off(harm: Sequence[HeldTrial]) -> list[dict[str, float]]:
    """The clusters whose harm nobody noticed, and what it did to all jobs.

    Args:
        harm: trials with harm.
    """
    rows = []
    for seed, each in enumerate(harm):
        if each.off is None:
            damage = each.really[len(each.declared.blocks)]
            rows.append({"seed": seed, "ratio": each.ratio, **damage._asdict()})
    return rows


def _fact(
    group: str, who: str, column: str, values: FloatArray, statistic: Statistic = mean
) -> Claim:
    return Claim(cell=Cell(group, who, column), measured=measure(values, statistic))


def _late(values: FloatArray) -> FloatArray:
    return np.asarray(np.quantile(values, 0.95, axis=-1))


def _most(values: FloatArray) -> FloatArray:
    return np.asarray(values.max(axis=-1))


def _part(trials: Sequence[HeldTrial], is_so: Callable[[HeldTrial], bool]) -> FloatArray:
    return np.array([float(is_so(each)) for each in trials])


def _mean(trials: Sequence[HeldTrial], is_so: Callable[[HeldTrial], bool]) -> float:
    return float(_part(trials, is_so).mean())


def _ratios(trials: Sequence[HeldTrial]) -> FloatArray:
    return np.array([each.ratio for each in trials])


def _length(held: HeldTrial) -> float:
    return (held.declared.end - held.declared.begin) / HOUR


def _covers(held: HeldTrial) -> bool:
    return held.covers


def _is_guarded(held: HeldTrial) -> bool:
    return held.guard is not None


def _is_said_of_declared(held: HeldTrial) -> bool:
    return held.decides.word != INCONCLUSIVE


def _is_sure_soon(held: HeldTrial) -> bool:
    return any(each.word == WORSE and held.hours(each.blocks) <= SOON for each in held.found)


def _naive_says(held: HeldTrial) -> bool:
    """Whether a t test of the logs of raw costs, ours against the site's blocks, ever is sure."""
    logs = np.log(held.costs.measured[:, 0] + held.floors[0])
    ours = np.array([each.arm == OURS for each in held.declared.blocks], dtype=np.bool_)
    for blocks in range(_NAIVE_FIRST, len(logs) + 1):
        mine, others = logs[:blocks][ours[:blocks]], logs[:blocks][~ours[:blocks]]
        if min(len(mine), len(others)) < _NAIVE_FIRST // 2:
            continue
        error = np.sqrt(mine.var(ddof=1) / len(mine) + others.var(ddof=1) / len(others))
        if abs(mine.mean() - others.mean()) > _NAIVE_BOUND * error:
            return True
    return False
