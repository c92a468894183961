"""What a variant does to figures of groups of jobs, and whether the simulator knows the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.learning.evaluation.group_waits import groupings_of
from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS, Blocks, drawn_places, verdict, widened
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, MINUTE, FloatArray, IntArray
from slurm_rl_plugin.utility.fairness import WINDOWS_TOGETHER, Service
from slurm_rl_plugin.utility.summary import service_of
from slurm_rl_plugin.what_if.replay import ReplayedPair, ReplayedVariant

#: A difference below this part of a figure, this number of seconds or of units, counts as none.
SMALL, FEW_SECONDS, LITTLE = 0.01, 1.0, 0.001
#: The part of a fortnight's service that does not matter.
MISDELIVERED_LITTLE = 0.01
_LEVELS = {"median_wait": 0.5, "p90_wait": 0.9, "p99_wait": 0.99}
#: The figures. The longest wait has no interval: no draw of past waits exceeds it.
FIGURES = (
    *("mean_wait", *_LEVELS, "longest_wait", "within_120s", "bounded_slowdown"),
    "misdelivered",
)
#: All jobs, the only group with a figure of misdelivery: that is of the whole cluster.
ALL = "all jobs"
#: Accounts that are reported, those with most jobs.
MOST_ACCOUNTS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One figure before and after."""

    before: float
    after: float
    difference: float  #: after less before
    ci95: tuple[float, float] | None  #: its 95 % interval; None for none
    ratio: float | None  #: after over before; None where that was 0
    ratio_ci95: tuple[float, float] | None
    #: one of `measure.intervals`; INCONCLUSIVE without an interval, but where nothing differs
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEffects:
    """Every figure of FIGURES of the counted `jobs` of one group."""

    jobs: int
    figures: dict[str, Effect]


def effects_of(
    pair: ReplayedPair, blocks: Blocks, served: tuple[Service, Service]
) -> dict[str, dict[str, GroupEffects]]:
    """What jobs are grouped by -> group -> its effects; ALL -> ALL for all of them.

    `blocks` are over the counted jobs, in the order of their places in the log; `served` is
    `services` of the pair.
    """
    before = _columns(pair.base, pair.places_before)
    after = _columns(pair.variant, pair.places_after)
    everybody = _group(before, after, blocks, np.arange(len(pair.counted)))
    everybody.figures["misdelivered"] = _misdelivered(served, blocks)
    places: dict[str, dict[str, IntArray]] = {}
    for by, name, jobs in members(pair.base.prepared, pair.places_before):
        places.setdefault(by, {})[name] = jobs
    accounts = sorted(places["account"].items(), key=lambda each: -len(each[1]))
    places["account"] = dict(accounts[:MOST_ACCOUNTS])
    return {
        ALL: {ALL: everybody},
        **{
            by: {name: _group(before, after, blocks, jobs) for name, jobs in groups.items()}
            for by, groups in places.items()
        },
    }


def members(prepared: PreparedLog, places: IntArray) -> Iterator[tuple[str, str, IntArray]]:
    """Kind and name of each group, and which of the jobs at some places are in it; none empty."""
    for by, grouping in groupings_of(prepared).items():
        of = grouping.place[places]
        for number, name in enumerate(grouping.names):
            jobs = np.flatnonzero(of == number)
            if len(jobs):
                yield by, name, jobs


_Columns = Mapping[str, FloatArray]


def _columns(replayed: ReplayedVariant, place: IntArray) -> _Columns:
    """By the name of a figure, what it is the mean of over the counted jobs, shape [n] each."""
    wait = replayed.measures.wait[place]
    return {
        "mean_wait": wait,
        "within_120s": (wait <= INTERACTIVE_WAIT_GOAL).astype(np.float64),
        "bounded_slowdown": replayed.measures.bounded_slowdown[place],
    }


def _group(before: _Columns, after: _Columns, blocks: Blocks, jobs: IntArray) -> GroupEffects:
    both = [{name: values[jobs] for name, values in each.items()} for each in (before, after)]
    levels = np.array(list(_LEVELS.values()))
    figures: dict[str, Effect] = {}
    for name in before:
        means = float(both[0][name].mean()), float(both[1][name].mean())
        drawn = blocks.means(both[0][name], jobs), blocks.means(both[1][name], jobs)
        figures[name] = judged_effect(name, means, drawn, blocks)
    waits = both[0]["mean_wait"], both[1]["mean_wait"]
    drawn_waits = [blocks.quantiles(each, jobs, levels) for each in waits]
    exact = [np.quantile(each, levels) for each in waits]
    for place, name in enumerate(_LEVELS):
        drawn = drawn_waits[0][:, place], drawn_waits[1][:, place]
        values = float(exact[0][place]), float(exact[1][place])
        figures[name] = judged_effect(name, values, drawn, blocks)
    longest = float(waits[0].max()), float(waits[1].max())
    nothing = np.empty(0), np.empty(0)
    figures["longest_wait"] = judged_effect("longest_wait", longest, nothing, blocks)
    in_order = {name: figures[name] for name in FIGURES if name in figures}
    return GroupEffects(jobs=len(jobs), figures=in_order)


def services(pair: ReplayedPair) -> tuple[Service, Service]:
    """Who got what before and after, in the fortnights of the counted jobs."""
    places = pair.places_before, pair.places_after
    return (
        service_of(pair.base.schedule, np.sort(places[0])),
        service_of(pair.variant.schedule, np.sort(places[1])),
    )


def _misdelivered(served: tuple[Service, Service], blocks: Blocks) -> Effect:
    """By draws of windows that share time; without an interval where too few groups of them fit."""
    parts = np.array([each.misdelivered_parts for each in served])
    parts = parts[:, np.isfinite(parts).all(axis=0)]
    drawn = np.empty((2, 0))
    if parts.shape[1] >= FEWEST_BLOCKS * WINDOWS_TOGETHER:
        rng = np.random.default_rng(0)
        drawn = parts[:, drawn_places(parts.shape[1], rng, WINDOWS_TOGETHER)].mean(-1)
    means = parts.mean(axis=1) if parts.size else np.zeros(2)
    both = float(means[0]), float(means[1])
    return judged_effect("misdelivered", both, (drawn[0], drawn[1]), blocks, MISDELIVERED_LITTLE)


def judged_effect(
    name: str,
    values: tuple[float, float],
    drawn: tuple[FloatArray, FloatArray],
    blocks: Blocks,
    least: float = 0.0,
) -> Effect:
    """A figure before and after, with intervals where there are draws, shape [resamples] each.

    Waits are in seconds; a difference below `least`, in the unit of the figure, does not matter.
    """
    before, after = values
    bounds = widened(drawn[1] - drawn[0], after - before, blocks.count)
    ratios = None
    if before > 0 and len(drawn[0]) and (drawn[0] > 0).all():
        ratios = widened(drawn[1] / drawn[0], after / before, blocks.count)
        ratios = ratios and (max(ratios[0], 0.0), ratios[1])
    little = FEW_SECONDS if name.endswith("_wait") else LITTLE
    small = max(SMALL * abs(before), little, least)
    return Effect(
        before=before,
        after=after,
        difference=after - before,
        ci95=bounds,
        ratio=after / before if before > 0 else None,
        ratio_ci95=ratios,
        verdict=verdict(
            (0.0, 0.0) if after == before and not len(drawn[0]) else bounds,
            small,
            more_is_better=name == "within_120s",
        ),
    )


#: A cell's mean wait is known where the simulated one differs by no more than this part, or time.
CLOSE, CLOSE_SECONDS = 0.15, MINUTE
#: Part of the jobs that are of known cells where the cluster counts as known.
KNOWN_PART = 0.9
#: What jobs are grouped by.
_BY = ("class", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCell:
    """Mean wait of some jobs as recorded and as simulated, seconds."""

    by: str  #: "class" or "partition"
    group: str
    jobs: int
    recorded: float
    simulated: float
    is_close: bool  #: recorded and simulated differ by no more than CLOSE or CLOSE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """How far the simulated cluster is from the recorded one."""

    cells: tuple[KnownCell, ...]  #: by class and partition; none where the log records no starts
    #: of the starts of single jobs, over the recorded mean wait; None without
    median_difference: float | None
    known_part: float | None  #: part of the jobs in cells that are close, over both groupings
    is_known: bool | None  #: that is KNOWN_PART at least; None where nothing is recorded

    @property
    def why_inconclusive(self) -> str | None:
        """Why no verdict can be given, one clause; None where the cluster is known well enough."""
        if self.is_known is not False:
            return None
        return (
            f"only {100.0 * (self.known_part or 0.0):.0f} % of the jobs wait in the simulation as "
            "they did on the cluster"
        )

    @property
    def sentence(self) -> str:
        """What that means for every answer."""
        if self.is_known is None:
            return (
                "The log records no starts, so it is unknown how well this cluster is known: "
                "take every answer as one about the simulated cluster."
            )
        part = 100.0 * (self.known_part or 0.0)
        if self.is_known:
            return (
                f"Of {part:.0f} % of the jobs the mean wait of class and partition is simulated "
                "as it was recorded: this cluster is known."
            )
        return (
            f"Of {part:.0f} % of the jobs only the mean wait of class and partition is simulated "
            "as it was recorded: this cluster is not known well enough, so that every verdict is "
            "inconclusive."
        )


def knowledge_of(base: ReplayedVariant, counted: IntArray) -> Knowledge:
    """Compare the cluster as it is with what the log recorded of the jobs that are counted."""
    place = base.at(counted)
    recorded = base.prepared.log.start[place] - base.prepared.log.submit[place]
    known = np.isfinite(recorded)
    if not known.any():
        return Knowledge(cells=(), median_difference=None, known_part=None, is_known=None)
    place, recorded = place[known], np.maximum(recorded[known], 0.0)
    simulated = base.measures.wait[place]
    cells: list[KnownCell] = []
    for by, group, jobs_of in members(base.prepared, place):
        if by in _BY:
            waits = float(recorded[jobs_of].mean()), float(simulated[jobs_of].mean())
            close = abs(waits[1] - waits[0]) <= max(CLOSE * waits[0], CLOSE_SECONDS)
            cells.append(
                KnownCell(
                    by=by,
                    group=group,
                    jobs=len(jobs_of),
                    recorded=waits[0],
                    simulated=waits[1],
                    is_close=close,
                )
            )
    jobs = sum(cell.jobs for cell in cells)
    part = sum(cell.jobs for cell in cells if cell.is_close) / jobs
    mean = float(recorded.mean())
    off = float(np.median(np.abs(simulated - recorded)))
    return Knowledge(
        cells=tuple(cells),
        median_difference=off / mean if mean > 0 else None,
        known_part=part,
        is_known=part >= KNOWN_PART,
    )
