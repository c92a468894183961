"""What a forecast would give: a reserve that knows when the next interactive jobs come.

It keeps as many processors free as interactive jobs come within the next seconds, which no policy
of a live system can know, and changes the limit at once. Everything else is as in
`search`: the hours, Slurm's own times, interactive jobs first, the wide batch jobs
behind. It is no bound on all policies: it does not look at who waits or at what ends soon. It runs
in the readable simulator, since the compiled one takes networks and rules only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, replace
from functools import partial

import numpy as np

from tests.bench.reserve_hours.load import PROCESSORS, lpc_like_hour
from tests.bench.reserve_hours.runs import LATENCY, LIMIT, ReplayedJob, replayed, workload_of
from tests.bench.reserve_hours.search import FIRST, HEADER, Tuning, measures, row_of, sums_of
from tests.reference.loads import jobs_of
from tests.reference.readable_simulator import Holder, Job, Limit, Moment, rule, simulate

#: Seconds of the hour that it looks ahead, and processors that it keeps free at most.
AHEAD = (60.0, 90.0, 120.0)
MOST = (3, 9)


def coming(ahead: float) -> Holder:
    """Processors of the interactive jobs that come within `ahead` seconds."""

    def hold(jobs: Sequence[Job], at: Moment) -> int:
        soon = (at.now < job.submit <= at.now + ahead for job in jobs if job.interactive)
        return sum(soon)

    return hold


def foreseen(seed: int, ahead: float, most: int) -> list[ReplayedJob]:
    """The hour with the reserve that knows what comes, but never keeps more than `most` free."""
    jobs = lpc_like_hour(seed)
    workload = workload_of(jobs, LATENCY)
    start = simulate(
        jobs_of(workload),
        PROCESSORS,
        rule("interactive-first"),
        easy=True,
        reserve=coming(ahead),
        limit=Limit(*astuple(replace(LIMIT, change_interval=0.0, most=most))[:6]),
    )
    return replayed(jobs, workload.submit, np.array(start) - workload.submit + LATENCY.start)


def rows(hours: int, workers: int) -> Iterator[tuple[str, np.ndarray]]:  # type: ignore[type-arg]
    """What is kept free, and the figures of the four goals over all hours."""
    seeds = range(FIRST, FIRST + hours)
    every = np.arange(hours)[None, :]
    tuning = Tuning(hours, 1, LATENCY)
    with ProcessPoolExecutor(workers) as pool:
        for most in MOST:
            for ahead in AHEAD:
                kept = sums_of(list(pool.map(partial(foreseen, ahead=ahead, most=most), seeds)))
                name = f"who comes in {ahead:.0f} s, {most} at most"
                yield name, measures(tuning.plain, tuning.order, kept, every)[:, 0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each look ahead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(arguments)
    print(HEADER)
    for name, found in rows(chosen.hours, chosen.workers):
        print(row_of(name, found), flush=True)


if __name__ == "__main__":
    main()
