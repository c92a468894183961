"""What was foretold of running jobs as they started, and what their ends teach the quantiles.

Only a run that was foretold can say whether the quantile was right, so what was said is remembered
until it ends. Runs of a time when nobody watched teach nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.features.history.columns import KnownPast, known_past
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_prediction import PARTS, learn_shares, nominal_shares
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Numbers of a line: job number, the quantiles. Numbers before the lines: layout, how many lines,
#: the shares that are asked for.
_LINE, _HEAD = 1 + len(PARTS), 2 + len(PARTS)
_LAYOUT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForetoldRuns:
    """What is remembered.

    Attributes:
        asked: shares that are asked for, so that PARTS of the runs end below; shape [len(PARTS)].
        lines: number and quantiles in seconds of each running job, sorted by number; shape
            [m, 1 + len(PARTS)].
    """

    asked: FloatArray = field(default_factory=nominal_shares)
    lines: FloatArray = field(default_factory=lambda: np.empty((0, _LINE)))

    @classmethod
    def from_memory(cls, memory: Memory) -> tuple[Self, Memory | None]:
        """What `to_memory` gave, and the memory behind it; None for numbers of another form."""
        count = memory[1] if len(memory) >= _HEAD and memory[0] == _LAYOUT else -1.0
        behind = _HEAD + _LINE * int(count)
        if count < 0 or count % 1 or behind > len(memory):
            return cls(), None
        lines = memory[_HEAD:behind].reshape(-1, _LINE)
        return cls(asked=memory[2:_HEAD], lines=lines), memory[behind:]

    def to_memory(self) -> Memory:
        """All of it as one vector: a head of fixed length, then the lines."""
        return np.concatenate([[_LAYOUT, len(self.lines)], self.asked, self.lines.ravel()])

    def after(self, snapshot: QueueSnapshot, past: PastRuns) -> Self:
        """What is known after a snapshot: ends teach, and who has started is foretold by `past`."""
        learned = replace(self, asked=self._learned(snapshot))
        running = snapshot.running.as_requested
        order = np.argsort(running.job_id)
        lines = np.full((len(order), _LINE), np.nan)
        lines[:, 0] = running.job_id[order]
        met, new = _places(self.lines[:, 0], lines[:, 0])
        lines[~new] = self.lines[met[~new]]
        if new.any():
            started = running.select(order[new])
            told = known_past(snapshot, started, past)
            lines[new, 1:] = told.quantiles(learned.asked)
        return replace(learned, lines=lines)

    def _learned(self, snapshot: QueueSnapshot) -> FloatArray:
        asked = self.asked.copy()
        ended = snapshot.ended
        place, unknown = _places(self.lines[:, 0], ended.jobs.job_id.astype(np.float64))
        run_time = np.maximum(ended.end - ended.start, 0.0)
        told = ~unknown & np.isfinite(run_time)
        chosen = np.flatnonzero(told)
        for end in chosen[np.lexsort((ended.jobs.job_id[chosen], ended.end[chosen]))].tolist():
            learn_shares(asked, self.lines[place[end], 1:], run_time[end])
        return asked


def _places(known: FloatArray, wanted: FloatArray) -> tuple[IntArray, BoolArray]:
    """Where each wanted number lies in sorted ones, and which are not among them."""
    if len(known) == 0:
        return np.zeros(len(wanted), dtype=np.int64), np.ones(len(wanted), dtype=np.bool_)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return place, known[place] != wanted


def foretold_now(told: KnownPast | None, foretold: ForetoldRuns) -> FloatArray:
    """Quantiles of the pending jobs by the shares that are asked for, seconds, [n, len(PARTS)]."""
    return np.empty((0, len(PARTS))) if told is None else told.quantiles(foretold.asked)
