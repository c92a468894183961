"""A private Slurm with one node of pretended processors, planned by EASY backfilling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bench.plan_hours.load import ACCOUNTS, USERS, StretchJob
from bench.plan_hours.machine import Closed, Ended
from bench.speed.deep_queue import PATIENCE
from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_duration
from tests.real.load import outcomes
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm

RESERVATION = "maintenance"
_EPOCH = {"SLURM_TIME_FORMAT": "%s"}
_SHARES = (70, 30)


#: Those of USERS, in turn.
ACCOUNT_PLAN = {
    name: Account(share=share, users=USERS[place :: len(ACCOUNTS)])
    for place, (name, share) in enumerate(zip(ACCOUNTS, _SHARES, strict=True))
}


def cluster_plan(processors: int) -> ClusterPlan:
    """Backfill plans for the first waiting job alone, and by TimeMin, estimates or not."""
    return ClusterPlan(
        nodes=1,
        processors_per_node=processors,
        accounts=ACCOUNT_PLAN,
        options={
            "AccountingStorageEnforce": "associations,limits,qos",
            "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=2,bf_continue,"
            "bf_resolution=1,bf_job_part_count_reserve=1,time_min_as_soft_limit",
            "MinJobAge": "7200",  # `squeue` tells what estimate a job started with
            "MessageTimeout": "60",
        },
        partitions=("PartitionName=grid Nodes=ALL Default=YES MaxTime=1-0 State=UP",),
    )


class SlurmMachine:
    """A running one."""

    lines = ""

    def __init__(self, cluster: PrivateSlurm) -> None:
        self._cluster = cluster

    @property
    def env(self) -> Mapping[str, str]:
        return self._cluster.env

    def submit(self, job: StretchJob) -> int:
        return self._cluster.submit(
            user=job.user,
            account=job.account,
            processors=job.processors,
            minutes=job.minutes,
            seconds=job.seconds,
        )

    def reserve(self, ahead: float) -> Closed:
        words = ("users=root", "nodes=ALL", "duration=1", "flags=maint,ignore_jobs")
        create = ("scontrol", "create", f"reservation={RESERVATION}")
        self._run(*create, f"starttime=now+{ahead:.0f}", *words)
        told = self._run("scontrol", "-o", "show", f"reservation={RESERVATION}")
        found = re.search(r"StartTime=(\d+) EndTime=(\d+)", told)
        assert found, f"no times in: {told}"
        return Closed(begin=float(found[1]), end=float(found[2]))

    def is_empty(self) -> bool:
        return not self._run("squeue", "-h", "-o", "%A")

    def standing(self) -> int:
        return sum(seconds > 0 for seconds in self._estimates("PENDING").values())

    def ended(self, numbers: Sequence[int]) -> dict[int, Ended]:
        estimates = self._estimates("all")
        return {
            number: Ended(
                submit=found.submit,
                start=found.start,
                end=found.end,
                state=found.state,
                limit=60.0 * found.limit,
                estimate=estimates[number],
            )
            for number, found in outcomes(self._cluster, list(numbers)).items()
        }

    def end_all(self) -> None:
        for user in USERS:
            self._run("scancel", f"--user={user}")
        self._cluster.wait_until(self.is_empty, PATIENCE, "an empty queue")

    def _estimates(self, states: str) -> dict[int, float]:
        told = self._run("squeue", "-h", "-t", states, "-O", "JobID:|,MinTime:")
        pairs = (line.split("|") for line in told.splitlines())
        return {int(number): parse_duration(minimum.strip()) for number, minimum in pairs}

    def _run(self, *words: str) -> str:
        return self._cluster.run(*words, env=_EPOCH, timeout=PATIENCE).stdout
