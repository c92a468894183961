"""Where the evaluations of a training run: in threads of this machine, or on many machines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Workplace(Protocol):
    """Runs one function on many items; whatever it does, the results are those of a plain loop."""

    @property
    def folder(self) -> Path | None:
        """A folder that every worker sees; None where the workers are this process."""

    def each(
        self,
        task: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        *,
        warm_up: Callable[[Shared], None],
        on_look: Callable[[Sequence[Result | None]], None] | None = None,
    ) -> list[Result]:
        """Results of `task(shared, item)`, in the order of the items.

        Args:
            task: a function of a module, whose result depends on nothing but its arguments.
            shared: what all items need; shipped once as long as it is the same object.
            items: what the results are of.
            warm_up: compiles all that the task will call, on little input.
            on_look: told now and then the results so far, in the order of the items; None for each
                that is not finished.

        Raises:
            ConfigurationError: as the task says.
            BatchSystemError: workers are lost again and again, or cannot be started.
        """


class ThisMachine:
    """Threads of this process: the compiled simulator needs no interpreter."""

    folder: Path | None = None

    def each(
        self,
        task: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        *,
        warm_up: Callable[[Shared], None],
        on_look: Callable[[Sequence[Result | None]], None] | None = None,
    ) -> list[Result]:
        """Run the task on each item in threads of this process, which keep its compiled code."""
        del warm_up
        with ThreadPoolExecutor(max_workers=processors_here()) as pool:
            if on_look is None:
                return list(pool.map(partial(task, shared), items))
            runs = [pool.submit(task, shared, item) for item in items]
            try:
                for run in as_completed(runs):
                    on_look([_so_far(each) for each in runs])
                    run.result()
            except BaseException:  # Ctrl-C too: what has not begun never does
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [each.result() for each in runs]


def _so_far(run: Future[Result]) -> Result | None:
    """What a run has given, if it has."""
    return None if not run.done() or run.exception() is not None else run.result()


def processors_here() -> int:
    """Processors that this process may use: those of its job where Slurm does not bind it."""
    allowed = len(os.sched_getaffinity(0))
    of_job = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(allowed, int(of_job)) if of_job.isdigit() and int(of_job) else allowed
