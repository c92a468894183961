"""`make bench-slurm`: writes, cycles and slurmctld's scheduling on a deep queue of a real Slurm.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh. Ratios are of interleaved pairs
of one run; single absolute figures mean little on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING_OR_RUNNING,
    QUEUE_FIELDS,
    queue_format,
)
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
from tests.bench.report import Goal, print_goals, write_document
from tests.bench.speed.figures.__main__ import paired_ratio
from tests.real.cluster_files import ClusterPlan
from tests.real.conftest import running_slurm
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterError, PrivateSlurm

#: Backfill often and deep, as a busy site's load would have it over a longer time.
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
#: Arguments: first job, number of jobs, step. Jobs of 1 to 8 processors and 1 to 3 seconds.
SUBMIT = """
job=$1
while [ $job -lt $2 ]; do
    sbatch --quiet --chdir=/ --output=/dev/null --time=1 \
        --ntasks=$((1 << job % 4)) --wrap="sleep $((1 + job % 3))" || exit 1
    job=$((job + $3))
done
"""
SHELLS = 4
#: Part of the jobs with a new score in a cycle of the steady state.
STEADY_PART = 0.01
#: Jobs at the head of a queue without an order, which should soon be in order.
FIRST_JOBS = 1000
#: Seconds between the hook's cycles, and in which the first jobs fill the nodes.
CYCLE_INTERVAL, WARM_UP = 5.0, 5.0
SCHEDULERS = {"main": "Main schedule statistics", "backfill": "Backfilling stats"}
Found = Mapping[str, Any]


@contextmanager
def deep_queue(jobs: int) -> Iterator[PrivateSlurm]:
    """A cluster with this number of pending jobs, which cannot start."""
    with running_slurm(PLAN) as cluster:
        open_partition(cluster, False)
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
        cluster.wait_until(lambda: eligible_jobs(cluster) == jobs, PATIENCE, "jobs in sprio")
        yield cluster


@dataclass(slots=True)
class RedrawnOrder(DrawnOrder):
    """Draws new scores for `part` of the pending jobs in each decision."""

    part: float = 1.0

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
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
        """The hook keeps its files in `folder`."""
        calls: list[tuple[str, float]] = []
        system = adapter_of(
            cluster,
            timeout=PATIENCE,
            on_call=calls.append,
        )
        policy = RedrawnOrder(seed=1)
        cycle = cycle_of(system, policy, folder, max_writes=10**6, inference_deadline=PATIENCE)
        cycle.calls = calls
        return cls(cluster=cluster, system=system, policy=policy, cycle=cycle)

    def run_cycle(self, part: float) -> CycleReport:
        """Runs a cycle in which `part` of the scores is new."""
        self.policy.part = part
        self.cycle.calls.clear()
        report = self.cycle.run()
        if trouble := report.failure_reason or report.fallback_reason:
            raise ClusterError(f"the cycle failed: {trouble}")
        return report


def first_ordering(queue: OrderedQueue, pairs: int) -> dict[str, object]:
    """Whole orderings by the hook and by one bare `scontrol`, in turn."""
    hook, bare = [], []
    for pair in range(pairs):
        report = queue.run_cycle(part=1.0)
        in_calls = sum(seconds for name, seconds in report.calls if name == "scontrol")
        burst = _burst(report.writes, report.phase_seconds["apply"])
        hook.append({**burst, "scontrol_seconds": in_calls})
        bare.append(_ordered_by_scontrol(queue))
        say(
            f"ordering {pair + 1} of {pairs}: "
            f"hook {hook[-1]['rate']:.0f}/s, scontrol {bare[-1]['rate']:.0f}/s"
        )
    rates = [[each["rate"] for each in side] for side in (hook, bare)]
    return {"hook": hook, "scontrol": bare, "rate_ratio": paired_ratio(*rates)}


def _ordered_by_scontrol(queue: OrderedQueue) -> dict[str, float]:
    """Writes what the hook would write now with the fewest means."""
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


def first_thousand(queue: OrderedQueue, repeats: int) -> dict[str, object]:
    """Seconds of the cycle that puts the first jobs of an unordered queue in order."""
    settings, seconds, ordered = queue.cycle.settings, [], []
    queue.cycle.settings = replace(settings, max_writes=FIRST_JOBS)
    for _ in range(repeats):
        queue.cycle.release()
        begin = time.perf_counter()
        queue.run_cycle(part=1.0)
        seconds.append(time.perf_counter() - begin)
        ordered.append(_in_order(queue))
        say(f"the first {ordered[-1]} jobs are in order after {seconds[-1]:.2f} s")
    queue.cycle.settings = settings
    return {"seconds": seconds, "standing": ordered}


def _in_order(queue: OrderedQueue) -> int:
    """Number of jobs at the head of the queue that are before all later ones."""
    pending = queue.system.snapshot().pending
    jobs, scores = pending.jobs, queue.policy.scores
    score = np.array([scores[job] for job in jobs.job_id.tolist()])
    wanted = np.lexsort((jobs.job_id, jobs.submit, -score))
    now = np.argsort(-(pending.native_priority + pending.factor), kind="stable")
    return int(np.argmin([*(wanted == now), False]))


def steady_cycles(queue: OrderedQueue, cycles: int) -> dict[str, object]:
    """Cycles in which one job in a hundred gets a new score, with their lower bounds.

    The bounds are the fewest writes that give the order, and the two commands of every cycle.
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
            "seconds": seconds,
            "phase_seconds": dict(report.phase_seconds),
        }
        rows.append(row)
        say(f"steady cycle {len(rows)} of {cycles}: {report.writes} writes, {seconds:.2f} s")
    ratio = paired_ratio([row["seconds"] for row in rows], bare)
    return {"cycles": rows, "bare_seconds": bare, "ratio_to_bare": ratio}


def _bare_commands(queue: OrderedQueue) -> float:
    """Seconds of `squeue` and `sprio` with the fields of a cycle."""
    commands = CommandRunner(environment=queue.cluster.env, timeout=PATIENCE)
    form = queue_format("0" * 8, QUEUE_FIELDS)
    begin = time.perf_counter()
    commands.read([*SQUEUE, "--states", ASK_WAITING_OR_RUNNING], form)
    commands.read(SPRIO)
    return time.perf_counter() - begin


def wanted_priorities(snapshot: QueueSnapshot, scores: dict[int, float]) -> list[int]:
    """Priorities before the cycle, in the order of the scores."""
    pending = snapshot.pending
    columns = zip(
        pending.jobs.job_id.tolist(),
        pending.jobs.submit.tolist(),
        (pending.native_priority + pending.factor).tolist(),
        strict=True,
    )
    wanted = sorted((-scores[job], submit, job, priority) for job, submit, priority in columns)
    return [priority for _, _, _, priority in wanted]


Period = dict[str, Any]


def live_pairs(queue: OrderedQueue, pairs: int, seconds: float) -> dict[str, object]:
    """Periods with and without the hook, in turn, while jobs start.

    Every second pair starts without the hook, since the queue shrinks slowly.
    """
    queue.run_cycle(part=1.0)
    open_partition(queue.cluster, True)
    time.sleep(min(WARM_UP, seconds))
    sides: dict[bool, list[Period]] = {True: [], False: []}
    for pair in range(pairs):
        for hooked in (pair % 2 == 0, pair % 2 == 1):
            sides[hooked].append(_period(queue, hooked, seconds))
        say(f"live pair {pair + 1} of {pairs}: {sides[True][-1]['waiting']} jobs pending")
    open_partition(queue.cluster, False)
    ratios: dict[str, object] = {}
    for name in SCHEDULERS:  # over the pairs in which the scheduler had a cycle on both sides
        both = [
            (hooked["mean_cycle"][name], alone["mean_cycle"][name])
            for hooked, alone in zip(sides[True], sides[False], strict=True)
            if name in hooked["mean_cycle"] and name in alone["mean_cycle"]
        ]
        ratios[name] = paired_ratio(*zip(*both, strict=True)) if both else None
    return {
        "with_hook": sides[True],
        "without_hook": sides[False],
        "mean_cycle_ratio": ratios,
        "longest_call_seconds": max(
            each for period in sides[True] for each in period["longest_call"].values()
        ),
    }


def _period(queue: OrderedQueue, hooked: bool, seconds: float) -> Period:
    """A period with the hook or without.

    Returns:
        Of each scheduler that had a cycle the mean seconds (`mean_cycle`), of all their number
        (`cycles`); pending jobs at the end (`waiting`); jobs `started`; seconds of each cycle of
        the hook (`hook_seconds`), and of its longest call of each command (`longest_call`).
    """
    hook_seconds, longest_call = list[float](), dict[str, float]()
    queue.cluster.run("sdiag", "--reset", timeout=PATIENCE)
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if hooked:
            report = queue.run_cycle(part=STEADY_PART)
            hook_seconds.append(time.monotonic() - now)
            for name, taken in report.calls:
                longest_call[name] = max(taken, longest_call.get(name, 0.0))
        due = min(now + CYCLE_INTERVAL, end) if hooked else end
        time.sleep(max(due - time.monotonic(), 0.0))
    text = queue.cluster.run("sdiag", timeout=PATIENCE).stdout
    waiting = eligible_jobs(queue.cluster)  # sdiag counts pending jobs only at times
    if waiting == 0:
        raise ClusterError("no job is pending: measure with more --jobs or fewer --pairs")
    counters = {name: text.partition(heading)[2] for name, heading in SCHEDULERS.items()}
    cycles = {name: _number(each, "Total cycles") for name, each in counters.items()}
    return {
        "mean_cycle": {
            name: _number(each, "Mean cycle") / 1e6
            for name, each in counters.items()
            if cycles[name]
        },
        "cycles": cycles,
        "waiting": waiting,
        "started": _number(text, "Jobs started"),
        "hook_seconds": hook_seconds,
        "longest_call": longest_call,
    }


def _number(text: str, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", text)
    if found is None:
        raise ClusterError(f"sdiag has no {name}")
    return int(found[1])


def first_lines(found: Found) -> Iterator[Goal]:
    """The head of a queue that is ordered for the first time."""
    seconds, ordered = found["seconds"], found["standing"]
    name = f"until the first {FIRST_JOBS:,} are in order"
    yield Goal(name, seconds_text(seconds), "mean <= 1.5 s", statistics.mean(seconds) <= 1.5)
    yield Goal("  in order", f"{min(ordered):,}", f">= {FIRST_JOBS:,}", min(ordered) >= FIRST_JOBS)


def order_lines(found: Found) -> Iterator[Goal]:
    """A first ordering, and `scontrol` alone."""
    for side in ("hook", "scontrol"):
        bursts = found[side]
        writes, seconds = (statistics.mean(b[key] for b in bursts) for key in ("writes", "seconds"))
        text = f"{writes:,.0f} writes in {seconds:.2f} s, {writes / seconds:,.0f}/s"
        yield Goal(f"whole ordering, {side}", text)
    ratio = found["rate_ratio"]
    yield Goal("rate, hook / scontrol", interval(ratio), ">= 0.9", ratio["ratio"] >= 0.9)


def steady_lines(found: Found) -> Iterator[Goal]:
    """Cycles of the steady state."""
    cycles = found["cycles"]
    writes, minimum = ([cycle[key] for cycle in cycles] for key in ("writes", "minimum"))
    text = f"{sum(writes):,} writes, minimum {sum(minimum):,}"
    yield Goal(f"{len(cycles)} steady cycles", text, "writes = minimum", writes == minimum)
    for phase in cycles[0]["phase_seconds"]:
        yield Goal(f"  {phase}", seconds_text([c["phase_seconds"][phase] for c in cycles]))
    seconds = [cycle["seconds"] for cycle in cycles]
    mean = statistics.mean(seconds)
    yield Goal("  whole cycle", seconds_text(seconds), "mean <= 0.35 s", mean <= 0.35)
    yield Goal("  the longest", f"{max(seconds):.3f} s", "<= 0.6 s", max(seconds) <= 0.6)
    yield Goal("squeue and sprio alone", seconds_text(found["bare_seconds"]))
    ratio = found["ratio_to_bare"]
    yield Goal("whole cycle / the two", interval(ratio), "<= 1.3", ratio["ratio"] <= 1.3)


def live_lines(found: Found) -> Iterator[Goal]:
    """Slurm's own cycles, with the hook and without."""
    for scheduler, ratio in found["mean_cycle_ratio"].items():
        for side in ("with_hook", "without_hook"):
            means = [each["mean_cycle"].get(scheduler) for each in found[side]]
            known = [mean for mean in means if mean is not None]
            if known:
                yield Goal(f"{scheduler} cycle {side.replace('_', ' ')}", seconds_text(known))
        if ratio is not None:
            name = f"{scheduler} cycle, with / without"
            yield Goal(name, interval(ratio), "upper end < 1.15", ratio["ci95"][1] < 1.15)
    hook = [seconds for each in found["with_hook"] for seconds in each["hook_seconds"]]
    yield Goal("hook's cycle on the live queue", seconds_text(hook))
    longest = found["longest_call_seconds"]
    yield Goal("the hook's longest call", f"{longest:.2f} s", "<= 5 s", longest <= 5.0)


def seconds_text(values: Sequence[float]) -> str:
    """Mean and range."""
    return f"mean {statistics.mean(values):.3f} s, {min(values):.3f} to {max(values):.3f}"


def interval(ratio: Mapping[str, Any]) -> str:
    """A ratio with its interval."""
    low, high = ratio["ci95"]
    return f"{ratio['ratio']:.3f} (95 %: {low:.3f} to {high:.3f}, {ratio['pairs']} pairs)"


LINES: dict[str, Callable[[Found], Iterator[Goal]]] = {
    "first": first_lines,
    "order": order_lines,
    "steady": steady_lines,
    "live": live_lines,
}
PARTS = tuple(LINES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--jobs", type=int, default=10_000, help="pending jobs")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--orderings", type=int, default=5, help="pairs of whole orderings")
    parser.add_argument("--cycles", type=int, default=10, help="in the steady state")
    parser.add_argument("--pairs", type=int, default=20, help="of periods of the live queue")
    parser.add_argument("--period", type=float, default=15.0, help="seconds")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.parts.split(",")) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the cluster goes too
    report: dict[str, Any] = {"jobs": chosen.jobs}
    with tempfile.TemporaryDirectory() as folder, deep_queue(chosen.jobs) as cluster:
        queue = OrderedQueue.over(cluster, Path(folder))
        measurements: dict[str, Callable[[], dict[str, object]]] = {
            "first": lambda: first_thousand(queue, chosen.orderings),
            "order": lambda: first_ordering(queue, chosen.orderings),
            "steady": lambda: steady_cycles(queue, chosen.cycles),
            "live": lambda: live_pairs(queue, chosen.pairs, chosen.period),
        }
        for part in (each for each in PARTS if each in chosen.parts.split(",")):
            before = os.getloadavg()[0]
            say(f"part {part}, load average {before:.1f}")
            found = measurements[part]()
            report[part] = {**found, "load_average": [before, os.getloadavg()[0]]}
            # each at once: an interrupted run keeps what it has
            write_document(chosen.output / "slurm-queue.json", report)
            print(f"{part} (load average {before:.1f} to {os.getloadavg()[0]:.1f})")
            print_goals(LINES[part](found))


if __name__ == "__main__":
    main()
