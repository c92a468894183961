"""What a first ordering, a steady cycle and a look at a deep queue cost."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING_OR_RUNNING,
    QUEUE_FIELDS,
    queue_format,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SDIAG, parse_load
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.reader import SQUEUE
from slurm_rl_plugin.batch_systems.slurm.site_factor import SPRIO
from slurm_rl_plugin.cli.benchmark import fewest_writes
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.hook.order.order_changes import in_safe_order
from tests.bench.speed.deep_queue import PATIENCE, OrderedQueue, tell
from tests.bench.speed.paired_ratio import paired_ratio
from tests.real.private_cluster import ClusterError

#: Part of the jobs whose score is new in a cycle of the steady state.
STEADY_PART = 0.01
#: Jobs at the head of a queue that was never ordered, which are to stand soon.
FIRST_JOBS = 1000


def first_ordering(queue: OrderedQueue, pairs: int) -> dict[str, object]:
    """Whole orderings by the hook and by one bare `scontrol`, in turn."""
    hook, bare = [], []
    for pair in range(pairs):
        hook.append(_ordered_by_hook(queue))
        bare.append(_ordered_by_scontrol(queue))
        tell(
            f"ordering {pair + 1} of {pairs}: "
            f"hook {hook[-1]['rate']:.0f}/s, scontrol {bare[-1]['rate']:.0f}/s"
        )
    rates = [[each["rate"] for each in side] for side in (hook, bare)]
    return {"hook": hook, "scontrol": bare, "rate_ratio": paired_ratio(*rates)}


def first_thousand(queue: OrderedQueue, repeats: int) -> dict[str, object]:
    """Seconds of a whole cycle after which the first jobs stand of a queue that had no order."""
    settings, seconds, standing = queue.cycle.settings, [], []
    queue.cycle.settings = replace(settings, max_writes=FIRST_JOBS)
    for _ in range(repeats):
        queue.cycle.release()
        begin = time.perf_counter()
        queue.run_cycle(part=1.0)
        seconds.append(time.perf_counter() - begin)
        standing.append(_standing(queue))
        tell(f"the first {standing[-1]} jobs stand after {seconds[-1]:.2f} s")
    queue.cycle.settings = settings
    return {"seconds": seconds, "standing": standing}


def _standing(queue: OrderedQueue) -> int:
    """How many jobs from the head on stand before all that are to come later."""
    pending = queue.system.snapshot().pending
    jobs, scores = pending.jobs, queue.policy.scores
    score = np.array([scores[job] for job in jobs.job_id.tolist()])
    wanted = np.lexsort((jobs.job_id, jobs.submit, -score))
    standing = np.argsort(-(pending.native_priority + pending.factor), kind="stable")
    return int(np.argmin([*(wanted == standing), False]))


def _ordered_by_hook(queue: OrderedQueue) -> dict[str, float]:
    report = queue.run_cycle(part=1.0)
    in_calls = sum(seconds for name, seconds in report.calls if name == "scontrol")
    return {**_burst(report.writes, report.phase_seconds["apply"]), "scontrol_seconds": in_calls}


def _ordered_by_scontrol(queue: OrderedQueue) -> dict[str, float]:
    """What the hook would write now, by the least that could write it."""
    queue.policy.part = 1.0
    changes = in_safe_order(queue.cycle.look().changes)
    lines = [f"update jobid={change.job_id} sitefactor={change.new}\n" for change in changes]
    begin = time.perf_counter()
    queue.cluster.run("scontrol", stdin="".join(lines), timeout=PATIENCE)
    seconds = time.perf_counter() - begin
    pending = queue.system.snapshot().pending
    factors = dict(zip(pending.jobs.job_id.tolist(), pending.factor.tolist(), strict=True))
    if any(factors[change.job_id] != change.new for change in changes):
        raise ClusterError("scontrol alone did not write every factor")
    return _burst(len(changes), seconds)


def _burst(writes: int, seconds: float) -> dict[str, float]:
    return {"writes": writes, "seconds": seconds, "rate": writes / seconds}


def steady_cycles(queue: OrderedQueue, cycles: int) -> dict[str, object]:
    """Cycles in which one job in a hundred gets a new score, and what bounds them from below.

    The fewest writes that give the order, and the two commands that a cycle cannot do without.
    """
    report = queue.run_cycle(part=1.0)
    while report.suppressed["write_bound"]:  # a cycle writes for some seconds only
        report = queue.run_cycle(part=0.0)
    rows, bare = [], []
    for _ in range(cycles):
        bare.append(_bare_commands(queue))
        begin = time.perf_counter()
        report = queue.run_cycle(part=STEADY_PART)
        seconds = time.perf_counter() - begin
        assert report.snapshot is not None
        priority = wanted_priorities(report.snapshot, queue.policy.scores)
        row = {
            "writes": report.writes,
            "minimum": fewest_writes(np.array(priority, dtype=np.int64)),
            "out_of_order": jobs_out_of_order(priority),
            "seconds": seconds,
            "phase_seconds": dict(report.phase_seconds),
        }
        rows.append(row)
        tell(f"steady cycle {len(rows)} of {cycles}: {report.writes} writes, {seconds:.2f} s")
    ratio = paired_ratio([row["seconds"] for row in rows], bare)
    return {"cycles": rows, "bare_seconds": bare, "ratio_to_bare": ratio}


def _bare_commands(queue: OrderedQueue) -> float:
    """Seconds of `squeue` and `sprio` with the fields that a cycle asks for."""
    commands = CommandRunner(environment=queue.cluster.env, timeout=PATIENCE)
    form = queue_format("0" * 8, QUEUE_FIELDS)
    begin = time.perf_counter()
    commands.read([*SQUEUE, "--states", ASK_WAITING_OR_RUNNING], form)
    commands.read(SPRIO)
    return time.perf_counter() - begin


def wanted_priorities(snapshot: QueueSnapshot, scores: dict[int, float]) -> list[int]:
    """Priorities before the cycle, in the order that the scores want."""
    pending = snapshot.pending
    columns = zip(
        pending.jobs.job_id.tolist(),
        pending.jobs.submit.tolist(),
        (pending.native_priority + pending.factor).tolist(),
        strict=True,
    )
    wanted = sorted((-scores[job], submit, job, priority) for job, submit, priority in columns)
    return [priority for _, _, _, priority in wanted]


def jobs_out_of_order(priority: Sequence[int]) -> int:
    """Jobs outside a longest falling subsequence: the minimum if room were endless."""
    piles: list[int] = []
    for value in priority:
        pile = bisect_left(piles, -value)
        piles[pile : pile + 1] = [-value]
    return len(priority) - len(piles)


def looks(queue: OrderedQueue, repeats: int) -> dict[str, object]:
    """Seconds of a look at slurmctld's load and of a whole snapshot."""

    def look() -> None:
        parse_load(queue.cluster.run(*SDIAG, timeout=PATIENCE).stdout)

    tell("looks and snapshots")
    return {
        "sdiag": _durations(look, 3 * repeats),
        "snapshot": _durations(queue.system.snapshot, repeats),
    }


def _durations(work: Callable[[], object], repeats: int) -> dict[str, float]:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return {"median": float(np.median(times)), "longest": max(times)}
