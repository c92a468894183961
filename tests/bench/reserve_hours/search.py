"""Settings of the reserve in the simulator, on hours that are not shown; about five minutes.

For each setting: the figures of all hours together, and the part of groups of some hours, drawn
again and again, whose figures meet all four goals. With `--search SECONDS` CMA-ES looks for the
numbers of the head first, towards that part.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from cmaes import CMA

from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.units import FloatArray
from tests.bench.reserve_hours.load import HourJob, lpc_like_hour
from tests.bench.reserve_hours.runs import (
    LATENCY,
    LIMIT,
    RESERVE_HEAD,
    Latency,
    ReplayedJob,
    ReserveHead,
    figures_of,
    hour_network,
    predicted,
)

#: Drawn from these seeds on.
FIRST = 1000
_DRAWS = 4000
HEADER = "RESERVE                        I<=120S  I/SLURM  B/ORDER  UTIL.LOST"
_EARLIER = replace(LIMIT, change_interval=30.0)
_IN_TURN = replace(_EARLIER, narrow_first=False)
LARGER = ReserveHead(3.1, -3.85, -3.0)
SMALLER = ReserveHead(2.8, -6.0, -2.0)
SETTINGS: dict[str, tuple[ReserveHead, ClassLimit]] = {
    "1 processor": (ReserveHead(always=1.0), _IN_TURN),
    "2 processors": (ReserveHead(always=2.0), _IN_TURN),
    "3 processors": (ReserveHead(always=3.0), _IN_TURN),
    "by the queue": (SMALLER, _IN_TURN),
    "1, narrow first": (ReserveHead(always=1.0), _EARLIER),
    "2, narrow first": (ReserveHead(always=2.0), _EARLIER),
    "3, narrow first": (ReserveHead(always=3.0), _EARLIER),
    "as in hours 301 to 306": (LARGER, _EARLIER),
    "as in hours 401 to 403": (SMALLER, _EARLIER),
    "2.1, -2, -2": (ReserveHead(2.1, -2.0, -2.0), _EARLIER),
    "301 to 306, changes in 60 s": (LARGER, replace(LIMIT, change_interval=60.0)),
    "301 to 306, changes in 10 s": (LARGER, LIMIT),
    "301 to 306, changes at once": (LARGER, replace(LIMIT, change_interval=0.0)),
    "301 to 306, lift after 1800 s": (LARGER, replace(_EARLIER, lift_after=1800.0)),
    "as in hours 501 to 512": (RESERVE_HEAD, LIMIT),
}


@dataclass(frozen=True, slots=True)
class Sums:
    """Of each hour, shape [hours]: jobs and waits of both classes, soon started, utilization."""

    interactive: FloatArray
    waited: FloatArray
    soon: FloatArray
    batch: FloatArray
    batch_waited: FloatArray
    utilization: FloatArray


def sums_of(hours: Sequence[Sequence[ReplayedJob]]) -> Sums:
    """What is added up over hours."""
    rows = []
    for jobs in hours:
        found = figures_of(jobs)
        quick = sum(job.interactive for job in jobs)
        slow = sum(not job.interactive and job.submit > 0.0 for job in jobs)
        rows.append(
            (
                *(quick, quick * found.interactive_wait, quick * found.within_120s),
                *(slow, slow * found.batch_wait, found.utilization),
            )
        )
    return Sums(*np.array(rows, dtype=np.float64).T)


def measures(plain: Sums, order: Sums, kept: Sums, hours: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """The figures of the four goals, shape [4, groups], of hours [groups, n]."""

    def total(each: FloatArray) -> FloatArray:
        return np.asarray(each[hours].sum(axis=1))

    batch = (total(kept.batch_waited) / total(kept.batch)) / (
        total(order.batch_waited) / total(order.batch)
    )
    return np.array(
        [
            total(kept.soon) / total(kept.interactive),
            (total(kept.waited) / total(kept.interactive))
            / (total(plain.waited) / total(plain.interactive)),
            batch,
            (total(order.utilization) - total(kept.utilization)) / hours.shape[1],
        ]
    )


def meets(figures: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Whether each goal is met, shape [4, groups]."""
    return np.array([figures[0] >= 0.95, figures[1] <= 0.2, figures[2] <= 1.15, figures[3] <= 0.02])


class Tuning:
    """The hours, and what Slurm alone and our order make of them."""

    def __init__(self, hours: int, group: int, latency: Latency) -> None:
        self.jobs: list[list[HourJob]] = [lpc_like_hour(FIRST + each) for each in range(hours)]
        self.latency = latency
        self.plain = sums_of([predicted(jobs, latency, None) for jobs in self.jobs])
        self.order = sums_of([predicted(jobs, latency, hour_network()) for jobs in self.jobs])
        self.groups = np.random.default_rng(0).integers(0, hours, (_DRAWS, group))

    def figures(self, head: ReserveHead, limit: ClassLimit) -> tuple[FloatArray, FloatArray]:
        """Of all hours together; and the part of groups that meets each goal, then all."""
        network = hour_network(head)
        kept = sums_of(
            [predicted(jobs, self.latency, network, class_limit=limit) for jobs in self.jobs]
        )
        every = np.arange(len(self.jobs))[None, :]
        met = meets(measures(self.plain, self.order, kept, self.groups))
        whole = measures(self.plain, self.order, kept, every)[:, 0]
        return whole, np.array([*met.mean(axis=1), met.all(axis=0).mean()])


def search(tuning: Tuning, seconds: float) -> Iterator[tuple[float, ReserveHead]]:
    """Better and better heads."""
    optimizer = CMA(mean=np.array(astuple(RESERVE_HEAD)), sigma=0.8, seed=1, population_size=8)
    best, end = -1.0, time.monotonic() + seconds
    while time.monotonic() < end:
        asked = [optimizer.ask() for _ in range(optimizer.population_size)]
        found = []
        for numbers in asked:
            head = ReserveHead(*numbers.tolist())
            met = tuning.figures(head, LIMIT)[1]
            found.append((numbers, -float(met[-1] + 0.2 * met[:-1].sum())))
            if met[-1] > best:
                best = float(met[-1])
                yield best, head
        optimizer.tell(found)


def row_of(name: str, figures: FloatArray) -> str:
    """A row under HEADER; figures of the four goals, shape [4]."""
    return f"{name:30s} {figures[0]:7.3f} {figures[1]:8.3f} {figures[2]:8.3f} {figures[3]:10.4f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row a setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=200)
    parser.add_argument("--group", type=int, default=12, help="hours that are shown together")
    parser.add_argument("--search", type=float, default=0.0, metavar="SECONDS")
    chosen = parser.parse_args(arguments)
    tuning = Tuning(chosen.hours, chosen.group, LATENCY)
    for part, head in search(tuning, chosen.search) if chosen.search else ():
        print(f"{part:.3f} {head}", flush=True)
    print(f"{HEADER}  MEET EACH AND ALL")
    for name, (head, limit) in SETTINGS.items():
        whole, met = tuning.figures(head, limit)
        each = " ".join(f"{part:.2f}" for part in met)
        print(f"{row_of(name, whole)}  {each}", flush=True)


if __name__ == "__main__":
    main()
