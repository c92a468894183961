"""A text on the waits of now for those who log in, without jobs or users."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slurm_rl_plugin.forecasts.live.foretold_queue import ForetoldQueue
from slurm_rl_plugin.units import DAY, HOUR, MINUTE

#: Partitions that are named at most, those with most waiting jobs.
_PARTITIONS = 8


def notice_text(queue: ForetoldQueue) -> str:
    """How many wait in each partition, and when half of them will have started."""
    return "".join(f"{line}\n" for line in _lines(queue))


def _lines(queue: ForetoldQueue) -> Iterator[str]:
    jobs, told = queue.snapshot.pending.jobs, queue.place >= 0
    yield f"{len(queue.snapshot.running)} jobs run and {len(jobs)} wait on this cluster."
    if queue.too_little or not told.any():
        return
    median = np.full(len(jobs), np.nan)
    median[told] = queue.told.forecasts.median[queue.place[told]]
    numbers, counts = np.unique(jobs.partition[told], return_counts=True)
    for number in numbers[np.argsort(-counts, kind="stable")][:_PARTITIONS].tolist():
        here = told & (jobs.partition == number)
        within = span(float(np.median(median[here])))
        name = queue.snapshot.partitions[number]
        yield f"{name}: {int(here.sum())} wait, half of them start within {within}."
    yield "slurm-rl start tells when yours do."


def span(seconds: float) -> str:
    """A span of time in its largest unit."""
    for unit, word in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {word}"
    return "2 minutes"
