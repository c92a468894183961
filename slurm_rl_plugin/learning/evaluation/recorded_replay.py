"""Replay of a recorded log: the site's own order compared with others, with intervals.

Recorded waits cannot be compared with a simulation: they include outages, limits and nodes that the
simulator does not know. So the *order* in which the site started its jobs is replayed on the same
simulated machine, and a model is compared with that replay. The difference between this replay and
the record shows how far the simulated machine is from the real one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    schedule_of,
    starts_of_order,
    starts_under,
)
from slurm_rl_plugin.measure import intervals
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, INTERACTIVE_WAIT_GOAL, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs

#: The recorded starts, and their order on the simulated machine.
RECORDED, RECORDED_ORDER = "native", "native order"
#: Rules for comparison.
BASELINES = ("multifactor", "fifo")
#: Number of orders that are always simulated.
SIMULATED = 1 + len(BASELINES)
#: Names that every replay has.
ALWAYS = (RECORDED, RECORDED_ORDER, *BASELINES)
#: Fractions of the jobs at the beginning and at the end that are not counted: the first jobs find
#: a machine that is empty only in the simulation, and no job follows the last ones.
UNCOUNTED = (0.1, 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReplay:
    """The same jobs under each policy."""

    schedules: dict[str, ScheduledJobs]  #: policy -> its schedule of all jobs, in submit order
    #: first, last: the counted jobs, as a slice has them.
    first: int
    last: int

    @property
    def counted(self) -> int:
        """Number of counted jobs; earlier and later ones are only simulated."""
        return self.last - self.first

    @property
    def measured(self) -> slice:
        """Places of the counted jobs."""
        return slice(self.first, self.last)


def replay(
    known: PreparedLog,
    candidates: Mapping[str, Candidate],
    settings: SimulationSettings,
    progress: Callable[[int], None],
) -> RecordedReplay:
    """Replay a log under the site's order, the baselines and some candidates.

    Args:
        known: the log with recorded starts, and classes that are known at submission.
        candidates: name in reports -> policy; no name is one of ALWAYS.
        settings: the simulated batch system, with the hook's effect on a candidate's scores.
    """
    recorded = known.log.start
    if np.isnan(recorded).any():
        raise ConfigurationError(
            f"{int(np.isnan(recorded).sum())} jobs of this log have no recorded start, so the "
            "site's own order is unknown: give a log of sacct."
        )
    workload, alone = known.workload(RequestedLimit()), settings.without_hook
    starts: dict[str, FloatArray] = {RECORDED: np.maximum(recorded, known.log.submit)}
    starts[RECORDED_ORDER] = starts_of_order(QueueOrder(scores=-recorded), known, workload, alone)
    progress(1)
    for name in BASELINES:
        starts[name] = starts_under(Candidate(name=name), known, workload, alone)
        progress(1)
    for name, each in candidates.items():
        starts[name] = starts_under(each, known, workload, settings)
        progress(1)
    jobs = len(known.log)
    first, last = int(jobs * UNCOUNTED[0]), jobs - int(jobs * UNCOUNTED[1])
    return RecordedReplay(
        schedules={name: schedule_of(known, start, settings) for name, start in starts.items()},
        first=first,
        last=last,
    )


#: Differences below this part of the site's figure do not count.
SMALL = 0.01
#: Maximum number of jobs in all resamples together; large logs get fewer resamples.
MOST_DRAWN = 40_000_000
#: Figures of the overall verdict.
GOALS = ("mean_bounded_slowdown", "interactive_within_120s", "fairness")


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure: its class of jobs, column and statistic, and whether more is better."""

    job_class: bool | None
    column: str
    of: Callable[[FloatArray], float]
    more_is_better: bool = False


def _mean(values: FloatArray) -> float:
    return float(values.mean())


def _quantile(values: FloatArray, level: float) -> float:
    return float(np.quantile(values, level))


FIGURES = {
    **{
        f"{name}_{key}": _Figure(of_class, column, of, better)
        for name, of_class in (("interactive", True), ("batch", False))
        for key, column, of, better in (
            ("mean_wait", "wait", _mean, False),
            ("median_wait", "wait", partial(_quantile, level=0.5), False),
            ("p95_wait", "wait", partial(_quantile, level=0.95), False),
            ("within_120s", "within", _mean, True),
        )
    },
    "mean_bounded_slowdown": _Figure(None, "bounded_slowdown", _mean),
    "fairness": _Figure(None, "fairness", _mean, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """A figure of a model and of the site's own order, both on the simulated machine."""

    jobs: int  #: number of jobs that it is computed from
    #: model, site: the figure of each; NaN without a job of the class.
    model: float
    site: float
    difference: float  #: model less site
    #: 95 % interval of the difference; None for too few jobs.
    ci95: tuple[float, float] | None
    verdict: str  #: see `measure.intervals`
    #: Estimated number of jobs for a verdict; None with a verdict, or if no number suffices.
    jobs_needed: int | None


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of the counted jobs, shape [n]."""

    values: dict[str, FloatArray]
    interactive: BoolArray

    @classmethod
    def of(cls, jobs: ScheduledJobs, counted: slice) -> _Columns:
        found = JobMeasures.of(jobs)
        wait = found.wait[counted]
        return cls(
            {
                "wait": wait,
                "within": (wait <= INTERACTIVE_WAIT_GOAL).astype(np.float64),
                "bounded_slowdown": found.bounded_slowdown[counted],
                "fairness": found.fairness[counted],
            },
            jobs.interactive[counted],
        )

    def figures(self, places: IntArray) -> FloatArray:
        """Every figure of the jobs at some places, in the order of FIGURES; NaN without a job."""
        quick = self.interactive[places]
        chosen = {None: places, True: places[quick], False: places[~quick]}
        return np.array(
            [
                each.of(self.values[each.column][chosen[each.job_class]])
                if len(chosen[each.job_class])
                else math.nan
                for each in FIGURES.values()
            ]
        )


def figures_of(jobs: ScheduledJobs, counted: slice) -> dict[str, float]:
    """Every figure of one policy over the counted jobs."""
    columns = _Columns.of(jobs, counted)
    found = columns.figures(np.arange(len(columns.interactive)))
    return dict(zip(FIGURES, found.tolist(), strict=True))


def compare(
    replayed: RecordedReplay,
    model: str,
    site: str,
    rng: np.random.Generator,
    progress: Callable[[int], None],
) -> dict[str, ComparedFigure]:
    """Every figure of two policies on the same jobs, with a moving-block bootstrap interval.

    `progress` is called after each resample.
    """
    counted = replayed.measured
    mine = _Columns.of(replayed.schedules[model], counted)
    theirs = _Columns.of(replayed.schedules[site], counted)
    every = np.arange(replayed.counted)
    values = np.array([mine.figures(every), theirs.figures(every)])
    # a block has the jobs of a day, at least 500, the memory of a queue
    submit = replayed.schedules[site].submit[counted]
    days = float(submit[-1] - submit[0]) / DAY if len(submit) else 0.0
    block = max(intervals.BLOCK_JOBS, int(len(submit) / days) if days >= 1 else len(submit))
    fewest = intervals.FEWEST_BLOCKS * block
    bounds = None
    if replayed.counted >= fewest:
        resamples = max(min(intervals.RESAMPLES, MOST_DRAWN // replayed.counted), 100)
        drawn = np.empty((resamples, len(FIGURES)))
        for row in range(resamples):
            places = intervals.drawn_places(replayed.counted, rng, block, 1)[0]
            drawn[row] = mine.figures(places) - theirs.figures(places)
            progress(1)
        bounds = np.quantile(drawn, intervals.ENDS, axis=0)
    jobs = {True: int(mine.interactive.sum()), None: replayed.counted}
    jobs[False] = replayed.counted - jobs[True]
    return {
        name: _compared(
            figure,
            jobs[figure.job_class],
            (float(values[0, place]), float(values[1, place])),
            None if bounds is None else (float(bounds[0, place]), float(bounds[1, place])),
            max(fewest * jobs[figure.job_class] // max(replayed.counted, 1), 1),
        )
        for place, (name, figure) in enumerate(FIGURES.items())
    }


def _compared(
    figure: _Figure,
    jobs: int,
    values: tuple[float, float],
    ci95: tuple[float, float] | None,
    fewest: int,
) -> ComparedFigure:
    difference = values[0] - values[1]
    if ci95 is not None and not all(map(math.isfinite, ci95)):
        ci95 = None
    small = SMALL * abs(values[1])
    word, needed = intervals.verdict(ci95, small, more_is_better=figure.more_is_better), None
    if ci95 is None:
        needed = max(fewest, jobs + 1) if jobs else None
    elif word == intervals.INCONCLUSIVE and difference:
        # an interval is as wide as 1 over the root of the jobs
        width = (ci95[1] - ci95[0]) / 2
        needed = max(math.ceil(jobs * (width / difference) ** 2), jobs + 1)
    return ComparedFigure(
        jobs=jobs,
        model=values[0],
        site=values[1],
        difference=difference,
        ci95=ci95,
        verdict=word,
        jobs_needed=needed,
    )


def overall(compared: dict[str, ComparedFigure]) -> str:
    """The verdict on all goals: BETTER, WORSE, "mixed", NO_DIFFERENCE or INCONCLUSIVE."""
    verdicts = {compared[name].verdict for name in GOALS}
    if {intervals.BETTER, intervals.WORSE} <= verdicts:
        return "mixed"
    for each in (intervals.BETTER, intervals.WORSE):
        if each in verdicts:
            return each
    return (
        intervals.NO_DIFFERENCE if verdicts == {intervals.NO_DIFFERENCE} else intervals.INCONCLUSIVE
    )
