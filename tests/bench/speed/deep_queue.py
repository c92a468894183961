"""A private Slurm with thousands of waiting jobs, and the hook's cycle over it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport
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
#: Seconds that a command may take on a machine that others use as well.
PATIENCE = 120.0


def tell(text: str) -> None:
    """Say how far we are."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@contextmanager
def deep_queue(jobs: int) -> Iterator[PrivateSlurm]:
    """A cluster on which so many jobs wait and none can start until the partition is up."""
    with running_slurm(PLAN) as cluster:
        open_partition(cluster, False)
        _submit(cluster, jobs)
        cluster.wait_until(lambda: eligible_jobs(cluster) == jobs, PATIENCE, "jobs in sprio")
        yield cluster


def open_partition(cluster: PrivateSlurm, opened: bool) -> None:
    """Let jobs start, or not."""
    state = "up" if opened else "down"
    cluster.run("scontrol", "update", "partition=batch", f"state={state}", timeout=PATIENCE)


def _submit(cluster: PrivateSlurm, jobs: int) -> None:
    shells = [
        subprocess.Popen(
            ["sh", "-c", SUBMIT, "sh", str(first), str(jobs), str(SHELLS)], env=cluster.env
        )
        for first in range(SHELLS)
    ]
    while any(shell.poll() is None for shell in shells):
        tell(f"submitting: {eligible_jobs(cluster)} of {jobs} jobs")
        time.sleep(min(5.0, jobs / 200))
    if any(shell.returncode for shell in shells):
        raise ClusterError("a job was not accepted")


def eligible_jobs(cluster: PrivateSlurm) -> int:
    """How many jobs wait that could start."""
    return len(cluster.run("sprio", "-h", "-o", "%i", timeout=PATIENCE).stdout.split())


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
