"""Concurrent simulations in threads of this process; compiled code releases the interpreter."""

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
    """Results of a task in the order of the items; after an error or Ctrl-C no further item begins.

    `finished` is called in this thread with the place and the result of each finished item.
    """
    with ThreadPoolExecutor(max_workers=processors_here()) as pool:
        runs = {pool.submit(task, item): place for place, item in enumerate(items)}
        waiting = set(runs)
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                # finished results are reported before an error ends the rest
                for run in sorted(done, key=lambda each: each.exception() is not None):
                    result = run.result()
                    if finished is not None:
                        finished(runs[run], result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [run.result() for run in runs]


def processors_here() -> int:
    """Processors that this process may use, at most those of its Slurm job."""
    allowed = len(os.sched_getaffinity(0))
    of_job = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(allowed, int(of_job)) if of_job.isdigit() and int(of_job) else allowed
