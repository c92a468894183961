"""What a worker of a job array does: read what is shared, work off its items, say what it cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from submitit.core.utils import DelayedSubmission

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import own_folder


class SharedWork(NamedTuple):
    """What all workers of a training need."""

    task: Callable[[Any, Any], Any]
    shared: Any
    warm_up: Callable[[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """The results of one worker, and how its seconds were spent.

    Attributes:
        results: of its items, in their order.
        refused: words of a ConfigurationError, which no second try mends; None without one.
        started: seconds for the start of Python, the imports, and reading what is shared.
        loaded: seconds to compile the simulator, or to load it compiled.
        worked: seconds that the items took.
    """

    results: list[Any]
    refused: str | None
    started: float
    loaded: float
    worked: float

    @property
    def overhead(self) -> float:
        """Seconds that no item got."""
        return self.started + self.loaded


class ArrayWorker:
    """Called by submitit in the worker; started again from the beginning after a time-out.

    What it works on goes on from its own checkpoint, where it keeps one.

    Args:
        threads: items worked off side by side.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def __call__(self, shared: Path, items: Sequence[Any]) -> WorkerReport:
        """Work off some items of the work in the file `shared`."""
        own_folder(shared.parent)  # what submitit reads below it is code
        found = DelayedSubmission.load(shared)
        work = SharedWork(found.function, *found.args)
        started, begin = _process_age(), time.monotonic()
        work.warm_up(work.shared)
        loaded, begin = time.monotonic() - begin, time.monotonic()
        results, refused = [], None
        try:
            results = self._results(partial(work.task, work.shared), items)
        except ConfigurationError as error:
            refused = str(error)
        return WorkerReport(
            results=results,
            refused=refused,
            started=started,
            loaded=loaded,
            worked=time.monotonic() - begin,
        )

    def _results(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if len(items) == 1:  # in this thread, which the signals of Slurm end
            return [task(items[0])]
        with ThreadPoolExecutor(max_workers=self._threads) as pool:
            return list(pool.map(task, items))

    def checkpoint(self, shared: Path, items: Sequence[Any]) -> DelayedSubmission:
        """What submitit requeues when Slurm says that the time is over or that others go first."""
        return DelayedSubmission(self, shared, items)


def _process_age() -> float:
    """Seconds since this process was started."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[19])  # starttime, field 22 of proc(5)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
