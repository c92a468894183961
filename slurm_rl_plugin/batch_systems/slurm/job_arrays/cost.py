"""What the workers of a training cost beside their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.job_arrays.worker import WorkerReport


@dataclass(slots=True, kw_only=True)
class WorkersCost:
    """What workers cost beside their work; seconds are sums over the workers.

    Attributes:
        workers: that gave back results.
        lost: that did not, and whose items were given to others.
        started: seconds for the start of Python, the imports, and reading what is shared.
        loaded: seconds to compile the simulator, or to load it compiled.
        worked: seconds on items.
        items: evaluated.
        rounds: times that everybody was waited for.
        besides: seconds of all rounds in which the slowest worker did not run: the queue, Slurm's
            start of a job, and our looks.
    """

    workers: int = 0
    lost: int = 0
    started: float = 0.0
    loaded: float = 0.0
    worked: float = 0.0
    items: int = 0
    rounds: int = 0
    besides: float = 0.0

    def add(self, reports: Sequence[WorkerReport], seconds: float) -> None:
        """Count a round that took so many seconds."""
        self.workers += len(reports)
        self.started += sum(each.started for each in reports)
        self.loaded += sum(each.loaded for each in reports)
        self.worked += sum(each.worked for each in reports)
        self.items += sum(len(each.results) for each in reports)
        self.rounds += 1
        self.besides += max(seconds - max(each.overhead + each.worked for each in reports), 0.0)

    @property
    def overhead(self) -> float:
        """Mean seconds of a worker that no item got; 0 before the first one."""
        return (self.started + self.loaded) / max(self.workers, 1)

    @property
    def seconds_of_item(self) -> float:
        """Mean seconds of a worker for an item; 0 before the first one."""
        return self.worked / max(self.items, 1)
