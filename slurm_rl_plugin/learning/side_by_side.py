"""Simulations side by side in threads of this process: compiled code needs no interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    task: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    finished: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Results of a task in the order of the items; after a fault or Ctrl-C no further item begins.

    `finished` is called in this thread with the place of an item and its result, as it is done.
    """
    with ThreadPoolExecutor(max_workers=processors_here()) as pool:
        runs = {pool.submit(task, item): place for place, item in enumerate(items)}
        waiting = set(runs)
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                # what is done is kept before a fault ends the rest
                for run in sorted(done, key=lambda each: each.exception() is not None):
                    result = run.result()
                    if finished is not None:
                        finished(runs[run], result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [run.result() for run in runs]


def processors_here() -> int:
    """Processors that this process may use: those of its job where Slurm does not bind it."""
    allowed = len(os.sched_getaffinity(0))
    of_job = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(allowed, int(of_job)) if of_job.isdigit() and int(of_job) else allowed
