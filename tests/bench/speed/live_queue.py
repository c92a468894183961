"""What slurmctld's own scheduling cycles cost with the hook beside them and without it."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, field

from tests.bench.speed.deep_queue import (
    PATIENCE,
    OrderedQueue,
    eligible_jobs,
    open_partition,
    tell,
)
from tests.bench.speed.paired_ratio import paired_ratio
from tests.bench.speed.queue_writes import STEADY_PART
from tests.real.private_cluster import ClusterError, PrivateSlurm

#: Seconds between the hook's cycles.
CYCLE_INTERVAL = 5.0
#: Seconds in which the first jobs fill the nodes.
WARM_UP = 5.0
SCHEDULERS = {"main": "Main schedule statistics", "backfill": "Backfilling stats"}


@dataclass(slots=True, kw_only=True)
class Period:
    """What happened in a period, with the hook or without.

    Attributes:
        mean_cycle: scheduler -> mean seconds of its cycles; those without a cycle are missing.
        cycles: scheduler -> number of its cycles.
        waiting: jobs that wait at the end.
        started: jobs started.
        hook_seconds: of each cycle of the hook.
        longest_call: command -> seconds of the longest call of ours.
    """

    mean_cycle: dict[str, float] = field(default_factory=dict)
    cycles: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    started: int = 0
    hook_seconds: list[float] = field(default_factory=list)
    longest_call: dict[str, float] = field(default_factory=dict)


def live_pairs(queue: OrderedQueue, pairs: int, seconds: float) -> dict[str, object]:
    """Periods with and without the hook, in turn, while jobs keep starting.

    Every other pair begins without, since the queue shrinks slowly all the time.
    """
    queue.run_cycle(part=1.0)
    open_partition(queue.cluster, True)
    time.sleep(min(WARM_UP, seconds))
    sides: dict[bool, list[Period]] = {True: [], False: []}
    for pair in range(pairs):
        for hooked in (pair % 2 == 0, pair % 2 == 1):
            sides[hooked].append(_period(queue, hooked, seconds))
        tell(f"live pair {pair + 1} of {pairs}: {sides[True][-1].waiting} jobs wait")
    open_partition(queue.cluster, False)
    calls = [each for period in sides[True] for each in period.longest_call.values()]
    return {
        "with_hook": [asdict(period) for period in sides[True]],
        "without_hook": [asdict(period) for period in sides[False]],
        "mean_cycle_ratio": {name: _ratio(sides, name) for name in SCHEDULERS},
        "longest_call_seconds": max(calls),
    }


def _ratio(sides: dict[bool, list[Period]], scheduler: str) -> dict[str, object] | None:
    """Over the pairs in which the scheduler had a cycle on both sides; None where there is none."""
    both = [
        (hooked.mean_cycle[scheduler], alone.mean_cycle[scheduler])
        for hooked, alone in zip(sides[True], sides[False], strict=True)
        if scheduler in hooked.mean_cycle and scheduler in alone.mean_cycle
    ]
    return paired_ratio(*zip(*both, strict=True)) if both else None


def _period(queue: OrderedQueue, hooked: bool, seconds: float) -> Period:
    period = Period()
    queue.cluster.run("sdiag", "--reset", timeout=PATIENCE)
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if hooked:
            _run_hook(queue, period)
        due = min(now + CYCLE_INTERVAL, end) if hooked else end
        time.sleep(max(due - time.monotonic(), 0.0))
    _read_statistics(queue.cluster, period)
    return period


def _run_hook(queue: OrderedQueue, period: Period) -> None:
    begin = time.monotonic()
    report = queue.run_cycle(part=STEADY_PART)
    period.hook_seconds.append(time.monotonic() - begin)
    for name, seconds in report.calls:
        period.longest_call[name] = max(seconds, period.longest_call.get(name, 0.0))


def _read_statistics(cluster: PrivateSlurm, period: Period) -> None:
    text = cluster.run("sdiag", timeout=PATIENCE).stdout
    period.started = _number(text, "Jobs started")
    period.waiting = eligible_jobs(cluster)  # sdiag counts those that wait only now and then
    if period.waiting == 0:
        raise ClusterError("the queue ran dry: measure with more --jobs or fewer --pairs")
    for name, heading in SCHEDULERS.items():
        statistics = text.partition(heading)[2]
        period.cycles[name] = _number(statistics, "Total cycles")
        if period.cycles[name]:
            period.mean_cycle[name] = _number(statistics, "Mean cycle") / 1e6


def _number(text: str, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", text)
    if found is None:
        raise ClusterError(f"sdiag does not tell {name}")
    return int(found[1])
