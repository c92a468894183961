"""The stretch once on a private Slurm of its own: what each job was given, and when."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

from slurm_rl_plugin.machine_files.statements import expand
from slurm_rl_plugin.units import HOUR
from tests.bench.live.compressed_time import (
    PATIENCE,
    end_all,
    in_time,
    keep_controller_log,
    tell,
    wait_until_all_started,
)
from tests.bench.node_hours.load import USERS, NodeJob, account_of, sbatch_options
from tests.real.conftest import running_slurm
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import RELEASES

_JOB = re.compile(r"JobId=(\d+) ")
_GIVEN = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+)")
_GPUS = re.compile(r" JOB_GRES=gpu:(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What a job has of a node; memory in MB."""

    node: str
    processors: int
    memory: int
    gpus: int


def placements_of(told: str) -> dict[int, list[Placement]]:
    """Job id -> what it has of each of its nodes, of those that ran."""
    jobs = ((_JOB.match(line), line) for line in told.splitlines())
    return {int(job[1]): _placements(line) for job, line in jobs if job}


def _placements(line: str) -> list[Placement]:
    given = [
        (name, len(expand(f"[{numbers}]")), int(memory))
        for nodes, numbers, memory in _GIVEN.findall(line)
        for name in expand(nodes)
    ]
    gpus = _GPUS.search(line)  # of the whole job: what is said of a node goes when the job ends
    share = int(gpus[1]) // len(given) if gpus and given else 0
    return [
        Placement(node=name, processors=processors, memory=memory, gpus=share)
        for name, processors, memory in given
    ]


#: What sacct tells of a job; times in seconds since the epoch.
FIELDS = (
    *("JobIDRaw", "Submit", "Eligible", "Start", "End"),
    *("State", "NodeList", "AllocTRES", "Flags", "Priority"),
)
_EPOCH = {"SLURM_TIME_FORMAT": "%s"}
#: Files of the cluster that say how it was configured.
CONFIGURED = ("slurm.conf", "gres.conf")


def replay(
    name: str,
    release: str,
    jobs: Sequence[NodeJob],
    plan: ClusterPlan,
    folder: Path,
    stop: Event,
    submitted: Callable[[int], None],
    beside: Callable[[PrivateSlurm], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Any]:
    """Run it until the last job has started; what became of the jobs, for JSON.

    Jobs that run when the last one starts are cancelled: nobody waits for them.

    Args:
        name: of the run, for the words that say how far it is.
        release: of Slurm.
        jobs: in order of submission.
        plan: of the cluster.
        folder: of copies of the configuration and of slurmctld's log; must be there.
        stop: breaks it off once it is set.
        submitted: is told how many jobs more were submitted.
        beside: what goes on beside the cluster until the last job has started.

    Raises:
        Stopped: it was broken off; its cluster is gone.
    """

    def submit(place: int) -> None:
        numbers.append(_submit(cluster, jobs[place]))
        submitted(1)

    with running_slurm(plan, RELEASES[release]) as cluster:
        for each in CONFIGURED:
            text = cluster.directory.joinpath("etc", each).read_text()
            folder.joinpath(each).write_text(text)
        numbers = list[int]()
        with beside(cluster):
            late = in_time(name, [job.submit for job in jobs], submit, stop)
            tell(f"{name}: all submitted")
            wait_until_all_started(cluster, stop, 2 * HOUR)
        statistics = cluster.run("sdiag", timeout=PATIENCE).stdout
        end_all(cluster, USERS)
        found = outcomes_of(cluster)
        keep_controller_log(cluster, folder)
    return {
        "late": late,
        "backfilled": _counter(statistics, "Total backfilled jobs (since last slurm start)"),
        "started": _counter(statistics, "Jobs started"),
        "statistics": statistics,
        "jobs": [
            asdict(job) | {"number": number, "outcome": found[number]}
            for number, job in zip(numbers, jobs, strict=True)
        ],
    }


def _submit(cluster: PrivateSlurm, job: NodeJob) -> int:
    return cluster.submit(
        *sbatch_options(job),
        user=job.user,
        account=account_of(job.user),
        processors=job.tasks,
        minutes=job.minutes,
        seconds=job.seconds,
    )


def outcomes_of(cluster: PrivateSlurm) -> dict[int, dict[str, Any]]:
    """Job id -> what sacct says, in small letters, and what it had of each node as `placed`.

    Seconds since the epoch are numbers, all else is sacct's text.
    """
    told = cluster.run(
        *("sacct", "-a", "-X", "-P", "-n", "-S", "now-1day", "-o", ",".join(FIELDS)),
        env=_EPOCH,
        timeout=PATIENCE,
    )
    detailed = cluster.run("scontrol", "-o", "-d", "show", "jobs", timeout=PATIENCE)
    placed = placements_of(detailed.stdout)
    found = {}
    for number, *texts in (line.split("|") for line in told.stdout.splitlines()):
        found[int(number)] = {
            name.lower(): int(text) if text.isdigit() else text
            for name, text in zip(FIELDS[1:], texts, strict=True)
        } | {"placed": [asdict(each) for each in placed[int(number)]]}
    return found


def _counter(statistics: str, name: str) -> int:
    """One of sdiag's."""
    found = re.search(rf"{re.escape(name)}:\s+(\d+)", statistics)
    assert found, f"no {name} in sdiag's answer"
    return int(found[1])
