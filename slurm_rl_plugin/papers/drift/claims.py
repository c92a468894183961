"""What is claimed: the warning comes before half of the gain is lost, and hardly ever else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from slurm_rl_plugin.papers.drift.losses import LOST_OVER, SHORTER, JudgedLog, WatchRecord
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Statistic, mean, measure, median
from slurm_rl_plugin.papers.study.verdicts import bounded
from slurm_rl_plugin.units import FloatArray

#: Whose figures.
_WATCH, _TRUTH = "the watch", "the truth"
ALL_LOGS = "all logs"
#: The goals: warned in time at least, false warnings a year at most.
_IN_TIME, _FALSE = "0.80", "1"
BY_CHANCE = "runs in which nothing changes, by the same week"


def drift_claims(logs: Mapping[str, JudgedLog]) -> Iterator[Claim]:
    """Every figure of the study; goals first.

    Args:
        logs: name -> what came of its runs.
    """
    groups = {name: [each] for name, each in logs.items()}
    groups[ALL_LOGS] = list(logs.values())
    for group, each in groups.items():
        yield from _goals(group, each)
    for group, each in groups.items():
        yield from _of_change(group, each)
        yield from _of_no_change(group, each)
    for name, log in logs.items():
        yield from _of_the_gain(name, log)


def _goals(group: str, logs: Sequence[JudgedLog]) -> Iterator[Claim]:
    """Judged by the means themselves; the first only where something is lost in a run."""
    losing = _losing(logs)
    if losing:
        chance = [
            log.by_chance(each.lost)
            for log in logs
            for each in log.changing
            if each.lost is not None
        ]
        yield bounded(
            Cell(group, _WATCH, "warned by the week in which half of the gain is lost"),
            measure(_part(losing, lambda each: each.in_time)),
            _IN_TIME,
            least=True,
            logs=1,
            source="goal",
            baselines={BY_CHANCE: float(np.mean(chance))},
        )
    yield bounded(
        Cell(group, _WATCH, "false warnings a year"),
        measure(np.array([each.a_year for log in logs for each in log.alike])),
        _FALSE,
        logs=1,
        source="goal",
    )


def _of_change(group: str, logs: Sequence[JudgedLog]) -> Iterator[Claim]:
    runs = [each for log in logs for each in log.changing]
    losing, keeping = _losing(logs), [each for each in runs if each.lost is None]
    yield _fact(group, _TRUTH, "half of the gain is lost", _part(runs, _is_lost))
    column = f"half of the gain is lost, pooled over {SHORTER} weeks"
    yield _fact(group, _TRUTH, column, _part(runs, _is_lost_shorter))
    ahead = np.array(
        [
            float(each.lost - each.warned)
            for each in losing
            if each.lost is not None and each.warned is not None
        ]
    )
    if len(ahead):
        yield _fact(group, _WATCH, "weeks from warning to loss: median", ahead, median)
    if losing:
        yield _fact(group, _WATCH, "never warned of a loss", _part(losing, _is_silent))
    if keeping:
        warned = _part(keeping, lambda each: not _is_silent(each))
        yield _fact(group, _WATCH, "warned where less than half is lost", warned)


def _of_no_change(group: str, logs: Sequence[JudgedLog]) -> Iterator[Claim]:
    """What two years bring in which each week is one of the reference."""
    runs = [each for log in logs for each in log.alike]
    quiet = "nothing changes, half of the gain is lost all the same"
    yield _fact(group, _TRUTH, f"{quiet}, pooled over {LOST_OVER} weeks", _part(runs, _is_lost))
    shorter = _part(runs, _is_lost_shorter)
    yield _fact(group, _TRUTH, f"{quiet}, pooled over {SHORTER} weeks", shorter)


def _of_the_gain(name: str, log: JudgedLog) -> Iterator[Claim]:
    """Ratios of costs, under the model over the site's order; their logs' mean over the runs."""
    for column, value in (("promised", log.promise), ("in the rest", log.real.gain)):
        yield _fact(name, _TRUTH, f"log of the ratio of costs, {column}", np.array([value]))
    for column, runs in (("changing runs", log.changing), ("nothing changes", log.alike)):
        gains = np.array([each.gain for each in runs])
        yield _fact(name, _TRUTH, f"log of the ratio of costs, {column}", gains)


def _fact(
    group: str, who: str, column: str, values: FloatArray, statistic: Statistic = mean
) -> Claim:
    return Claim(cell=Cell(group, who, column), measured=measure(values, statistic))


def _part(runs: Sequence[WatchRecord], is_so: Callable[[WatchRecord], bool]) -> FloatArray:
    return np.array([float(is_so(each)) for each in runs])


def _losing(logs: Sequence[JudgedLog]) -> list[WatchRecord]:
    return [each for log in logs for each in log.changing if each.lost is not None]


def _is_lost(run: WatchRecord) -> bool:
    return run.lost is not None


def _is_lost_shorter(run: WatchRecord) -> bool:
    return run.lost_shorter is not None


def _is_silent(run: WatchRecord) -> bool:
    return run.warned is None
