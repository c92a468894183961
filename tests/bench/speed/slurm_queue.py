"""`make bench-slurm`: writes, cycles and slurmctld's own scheduling on a deep queue of real Slurm.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh. Ratios are taken in interleaved
pairs of one run; single absolute figures say little on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING_OR_RUNNING,
    QUEUE_FIELDS,
    queue_format,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SDIAG, parse_load
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.reader import SQUEUE
from slurm_rl_plugin.batch_systems.slurm.site_factor import SPRIO
from slurm_rl_plugin.cli.benchmark import fewest_writes
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.order.queue_plan import in_safe_order
from tests.bench.live.harness import PATIENCE, eligible_jobs, open_partition, say
from tests.bench.speed.figures.figure import paired_ratio
from tests.real.cluster_files import ClusterPlan
from tests.real.conftest import running_slurm
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterError, PrivateSlurm

#: Backfill often and deep, as the load of a busy site would have it in a far longer time.
PLAN = ClusterPlan(
    nodes=4,
    processors_per_node=8,
    options={
        "SchedulerParameters": (
            "sched_interval=5,bf_interval=3,default_queue_depth=1000,bf_max_job_test=2000,"
            "bf_continue"
        ),
        "MessageTimeout": "60",
    },
    partitions=("PartitionName=batch Nodes=ALL Default=YES MaxTime=60 State=UP",),
)
#: From here to there in steps: jobs of 1 to 8 processors that run for 1 to 3 seconds.
SUBMIT = """
job=$1
while [ $job -lt $2 ]; do
    sbatch --quiet --chdir=/ --output=/dev/null --time=1 \
        --ntasks=$((1 << job % 4)) --wrap="sleep $((1 + job % 3))" || exit 1
    job=$((job + $3))
done
"""
SHELLS = 4


@contextmanager
def deep_queue(jobs: int) -> Iterator[PrivateSlurm]:
    """A cluster on which so many jobs wait and none can start until the partition is up."""
    with running_slurm(PLAN) as cluster:
        open_partition(cluster, False)
        _submit(cluster, jobs)
        cluster.wait_until(lambda: eligible_jobs(cluster) == jobs, PATIENCE, "jobs in sprio")
        yield cluster


def _submit(cluster: PrivateSlurm, jobs: int) -> None:
    shells = [
        subprocess.Popen(
            ["sh", "-c", SUBMIT, "sh", str(first), str(jobs), str(SHELLS)], env=cluster.env
        )
        for first in range(SHELLS)
    ]
    while any(shell.poll() is None for shell in shells):
        say(f"submitting: {eligible_jobs(cluster)} of {jobs} jobs")
        time.sleep(min(5.0, jobs / 200))
    if any(shell.returncode for shell in shells):
        raise ClusterError("a job was not accepted")


@dataclass(slots=True)
class RedrawnOrder(DrawnOrder):
    """Draws the score of `part` of the waiting jobs anew in each decision."""

    part: float = 1.0

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Scores after the redraw."""
        ids = snapshot.pending.jobs.job_id.tolist()
        for job_id in self.rng.sample(ids, round(self.part * len(ids))):
            self.scores.pop(job_id, None)
        return DrawnOrder.decide(self, snapshot, memory)


@dataclass(slots=True)
class OrderedQueue:
    """The hook over a deep queue."""

    cluster: PrivateSlurm
    system: SlurmCommands
    policy: RedrawnOrder
    cycle: Cycle

    @classmethod
    def over(cls, cluster: PrivateSlurm, folder: Path) -> OrderedQueue:
        """Files of the hook are kept in `folder`."""
        calls: list[tuple[str, float]] = []
        system = adapter_of(
            cluster,
            timeout=PATIENCE,
            on_call=lambda name, seconds: calls.append((name, seconds)),
        )
        policy = RedrawnOrder(seed=1)
        cycle = cycle_of(system, policy, folder, max_writes=10**6, inference_deadline=PATIENCE)
        cycle.calls = calls
        return cls(cluster=cluster, system=system, policy=policy, cycle=cycle)

    def run_cycle(self, part: float) -> CycleReport:
        """One cycle in which `part` of the scores is new.

        Raises:
            ClusterError: it did not do all it should, so that its figures mean nothing.
        """
        self.policy.part = part
        self.cycle.calls.clear()
        report = self.cycle.run()
        trouble = report.failure_reason or report.fallback_reason
        if trouble:
            raise ClusterError(f"the cycle failed: {trouble}")
        return report


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
        say(
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
        say(f"the first {standing[-1]} jobs stand after {seconds[-1]:.2f} s")
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
        say(f"steady cycle {len(rows)} of {cycles}: {report.writes} writes, {seconds:.2f} s")
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

    say("looks and snapshots")
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
        say(f"live pair {pair + 1} of {pairs}: {sides[True][-1].waiting} jobs wait")
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


#: What a line of the table says: what was measured, the figure, and the goal with whether it is
#: met; "" and None where there is no goal.
Line = tuple[str, str, str, bool | None]
PARTS = ("first", "order", "steady", "look", "live")


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--jobs", type=int, default=10_000, help="that wait")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--orderings", type=int, default=5, help="pairs of whole orderings")
    parser.add_argument("--cycles", type=int, default=10, help="in the steady state")
    parser.add_argument("--pairs", type=int, default=20, help="of periods of the live queue")
    parser.add_argument("--period", type=float, default=15.0, help="seconds")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    return chosen


def first_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """The head of a queue that is ordered for the first time."""
    seconds, standing = found["seconds"], found["standing"]
    name = f"until the first {FIRST_JOBS:,} stand"
    yield name, seconds_of(seconds), "mean <= 1.5 s", statistics.mean(seconds) <= 1.5
    yield "  that stand", f"{min(standing):,}", f">= {FIRST_JOBS:,}", min(standing) >= FIRST_JOBS


def order_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """A first ordering, beside `scontrol` alone."""
    for side in ("hook", "scontrol"):
        bursts = found[side]
        writes, seconds = (statistics.mean(b[key] for b in bursts) for key in ("writes", "seconds"))
        text = f"{writes:,.0f} writes in {seconds:.2f} s, {writes / seconds:,.0f}/s"
        yield f"whole ordering, {side}", text, "", None
    ratio = found["rate_ratio"]
    yield "rate, hook / scontrol", interval(ratio), ">= 0.9", ratio["ratio"] >= 0.9


def steady_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Cycles of the steady state."""
    cycles = found["cycles"]
    writes, minimum, out = (
        [cycle[key] for cycle in cycles] for key in ("writes", "minimum", "out_of_order")
    )
    text = f"{sum(writes):,} writes, minimum {sum(minimum):,} ({sum(out):,} if room were endless)"
    yield f"{len(cycles)} steady cycles", text, "writes = minimum", writes == minimum
    for phase in cycles[0]["phase_seconds"]:
        yield f"  {phase}", seconds_of([c["phase_seconds"][phase] for c in cycles]), "", None
    seconds = [cycle["seconds"] for cycle in cycles]
    mean = statistics.mean(seconds)
    yield "  whole cycle", seconds_of(seconds), "mean <= .35 s", mean <= 0.35
    yield "  the longest", f"{max(seconds):.3f} s", "<= .6 s", max(seconds) <= 0.6
    yield "squeue and sprio alone", seconds_of(found["bare_seconds"]), "", None
    ratio = found["ratio_to_bare"]
    yield "whole cycle / the two", interval(ratio), "<= 1.3", ratio["ratio"] <= 1.3


def look_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Reading alone."""
    for what, times in found.items():
        yield what, f"median {times['median']:.3f} s, longest {times['longest']:.3f} s", "", None


def live_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Slurm's own cycles beside the hook's."""
    for scheduler, ratio in found["mean_cycle_ratio"].items():
        for side in ("with_hook", "without_hook"):
            means = [each["mean_cycle"].get(scheduler) for each in found[side]]
            known = [mean for mean in means if mean is not None]
            if known:
                yield f"{scheduler} cycle {side.replace('_', ' ')}", seconds_of(known), "", None
        if ratio is not None:
            name = f"{scheduler} cycle, with / without"
            yield name, interval(ratio), "upper end < 1.15", ratio["ci95"][1] < 1.15
    hook = [seconds for each in found["with_hook"] for seconds in each["hook_seconds"]]
    yield "hook's cycle on the live queue", seconds_of(hook), "", None
    longest = found["longest_call_seconds"]
    yield "longest call of ours", f"{longest:.2f} s", "<= 5 s", longest <= 5.0


def seconds_of(values: Sequence[float]) -> str:
    """Mean and range."""
    return f"mean {statistics.mean(values):.3f} s, {min(values):.3f} to {max(values):.3f}"


def interval(ratio: Mapping[str, Any]) -> str:
    """A ratio with its interval."""
    low, high = ratio["ci95"]
    return f"{ratio['ratio']:.3f} (95 %: {low:.3f} to {high:.3f}, {ratio['pairs']} pairs)"


LINES: dict[str, Callable[[Mapping[str, Any]], Iterator[Line]]] = {
    "first": first_lines,
    "order": order_lines,
    "steady": steady_lines,
    "look": look_lines,
    "live": live_lines,
}


def measure(
    queue: OrderedQueue, chosen: argparse.Namespace
) -> Iterator[tuple[str, dict[str, object]]]:
    """The chosen parts, one after the other: name and figures."""
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "first": lambda: first_thousand(queue, chosen.orderings),
        "order": lambda: first_ordering(queue, chosen.orderings),
        "steady": lambda: steady_cycles(queue, chosen.cycles),
        "look": lambda: looks(queue, chosen.cycles),
        "live": lambda: live_pairs(queue, chosen.pairs, chosen.period),
    }
    for part in PARTS:
        if part in chosen.parts.split(","):
            before = os.getloadavg()[0]
            say(f"part {part}, load average {before:.1f}")
            yield part, {**parts[part](), "load_average": [before, os.getloadavg()[0]]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    chosen = options(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the cluster goes too
    report: dict[str, Any] = {"jobs": chosen.jobs}
    with tempfile.TemporaryDirectory() as folder, deep_queue(chosen.jobs) as cluster:
        for part, found in measure(OrderedQueue.over(cluster, Path(folder)), chosen):
            report[part] = found
            # each at once: an interrupted run keeps what it has
            text = json.dumps(report, indent=2)
            chosen.output.joinpath("slurm-queue.json").write_text(text + "\n")
            print_table(part, report[part])


def print_table(part: str, found: Mapping[str, Any]) -> None:
    """One line for each figure."""
    loads = " to ".join(f"{load:.1f}" for load in found["load_average"])
    print(f"{part} (load average {loads})")
    figures = {name: value for name, value in found.items() if name != "load_average"}
    for what, figure, goal, met in LINES[part](figures):
        verdict = "" if met is None else f"  goal {goal}: {'met' if met else 'MISSED'}"
        print(f"  {what:32s} {figure}{verdict}", flush=True)


if __name__ == "__main__":
    main()
