"""Whether the simulator knows this cluster: the log's own settings beside the recorded starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.learning.evaluation.group_waits import groupings_of
from slurm_rl_plugin.units import MINUTE, IntArray
from slurm_rl_plugin.what_if.replay import ReplayedVariant

#: A cell's mean wait is known where the simulated one differs by no more than this part, or time.
CLOSE, CLOSE_SECONDS = 0.15, MINUTE
#: Part of the jobs that are of known cells where the cluster counts as known.
KNOWN_PART = 0.9
#: What jobs are grouped by.
_BY = ("class", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCell:
    """Mean wait of some jobs as recorded and as simulated, seconds.

    Attributes:
        by: "class" or "partition".
        group: its name.
        jobs: how many are counted.
        recorded, simulated: mean waits.
        is_close: they differ by no more than CLOSE or CLOSE_SECONDS.
    """

    by: str
    group: str
    jobs: int
    recorded: float
    simulated: float
    is_close: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """How far the simulated cluster is from the recorded one.

    Attributes:
        cells: by class and partition; none where the log records no starts.
        median_difference: of the starts of single jobs, over the recorded mean wait; None without.
        known_part: part of the jobs in cells that are close, over both groupings.
        is_known: that is KNOWN_PART at least; None where nothing is recorded.
    """

    cells: tuple[KnownCell, ...]
    median_difference: float | None
    known_part: float | None
    is_known: bool | None

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
                "The log records no starts, so nobody can tell how well this cluster is known: "
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
    for by, grouping in groupings_of(base.prepared).items():
        for group in np.unique(grouping.place[place]) if by in _BY else ():
            mine = grouping.place[place] == group
            waits = float(recorded[mine].mean()), float(simulated[mine].mean())
            close = abs(waits[1] - waits[0]) <= max(CLOSE * waits[0], CLOSE_SECONDS)
            name = grouping.names[group]
            cells.append(
                KnownCell(
                    by=by,
                    group=name,
                    jobs=int(mine.sum()),
                    recorded=waits[0],
                    simulated=waits[1],
                    is_close=bool(close),
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
