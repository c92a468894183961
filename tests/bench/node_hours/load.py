"""A stretch of a week of a Slurm site in compressed time, for a small machine of the same kinds.

The log has an sbatch line a job: `-dt` when it is submitted and `-sim-walltime` how long it runs,
both in seconds, then sbatch's own options. Run times, limits and submissions shrink by one speed;
limits are rounded up to Slurm's whole minutes.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import math
import shlex
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_duration
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from tests.real.cluster_files import NodeKind
from tests.real.private_cluster import Account, ClusterPlan

_SMALL, _LARGE = 187000, 754000
_GOLD_6130, _GOLD_6230 = "CPU-Gold-6130", "CPU-Gold-6230"
_N = NodeKind(
    name="n", count=5, processors=32, memory=_SMALL, features=(_GOLD_6130, "OPA"), weight=60
)
#: That the debug partition has too.
_SHARED = NodeKind(
    name="s", count=1, processors=32, memory=_SMALL, features=(_GOLD_6130, "OPA"), weight=60
)
_M = NodeKind(
    name="m", count=4, processors=40, memory=_SMALL, features=(_GOLD_6230, "IB"), weight=70
)
_B = NodeKind(
    name="b", count=3, processors=40, memory=_LARGE, features=(_GOLD_6230, "IB"), weight=160
)
_G = NodeKind(
    name="g",
    count=1,
    processors=40,
    memory=_SMALL,
    gpus=2,
    features=(_GOLD_6230, "IB", "V100"),
    weight=190,
)
_GN = NodeKind(
    name="gn",
    count=1,
    processors=32,
    memory=_SMALL,
    gpus=2,
    features=(_GOLD_6130, "OPA", "P100"),
    weight=190,
)
KINDS = (_N, _SHARED, _M, _B, _G, _GN)
#: MB that each CPU of a job has where it asks for none.
DEFAULT_MEMORY = 2800


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Some of the nodes, and what slurm.conf says beside them."""

    name: str
    kinds: tuple[NodeKind, ...]
    more: str

    @property
    def line(self) -> str:
        """Of slurm.conf."""
        nodes = ",".join(f"{kind.name}[1-{kind.count}]" for kind in self.kinds)
        words = f"MaxTime=UNLIMITED DefMemPerCPU={DEFAULT_MEMORY} State=UP"
        return f"PartitionName={self.name} Nodes={nodes} {words} {self.more}"


GENERAL = Partition(
    name="general-compute",
    kinds=(_N, _SHARED, _M, _B, _G),
    more="Default=YES PriorityJobFactor=100",
)
LARGE = Partition(name="large", kinds=(_B,), more="PriorityJobFactor=200")
GPU = Partition(name="gpu", kinds=(_G,), more="PriorityJobFactor=300")
DEBUG = Partition(name="debug", kinds=(_SHARED, _GN), more="PriorityTier=7 PriorityJobFactor=700")
PARTITIONS = {each.name: each for each in (GENERAL, LARGE, GPU, DEBUG)}


#: Who submits; users of the log take turns in the order in which they first come.
USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
ACCOUNTS = ("physics", "biology")
#: Seconds that the shortest job sleeps.
SHORTEST = 1.0
#: Seconds before its limit that a job ends at the latest, so that Slurm never kills one.
_SPARE = 10.0
#: A limit up to this makes a job interactive, as the debug partition does.
INTERACTIVE = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJob:
    """A job as it is submitted: seconds from the beginning, seconds that it sleeps, its request.

    Attributes:
        memory: of each node, MB; 0 asks for the partition's default a CPU.
        gpus: of each node.
        interactive: by its limit in the log, or its partition there.
    """

    submit: float
    seconds: float
    minutes: int
    nodes: int
    tasks: int
    memory: int
    gpus: int
    feature: str
    exclusive: bool
    partition: str
    interactive: bool
    user: str


def account_of(user: str) -> str:
    """Of one of USERS."""
    return ACCOUNTS[USERS.index(user) % len(ACCOUNTS)]


def in_turn(users: Sequence[Hashable]) -> list[str]:
    """Who of USERS submits each job, given whose it is in the log."""
    turns = dict.fromkeys(users)  # in the order in which they first come
    ours = dict(zip(turns, itertools.cycle(USERS), strict=False))
    return [ours[user] for user in users]


def stretch_of(path: Path, first: int, count: int, speed: float) -> list[NodeJob]:
    """Jobs of the log from its `first` on that fit the small machine, in order of submission.

    Args:
        path: of the log, gzip.
        first: place of the first job in the log, from 0.
        count: of jobs to return.
        speed: seconds of the log in one second of the run.

    Raises:
        ValueError: the log has no such job, or no `count` of them that fit.
    """
    with gzip.open(path, "rt") as lines:
        jobs = [job for place, job in enumerate(map(_job_of, lines)) if place >= first]
    fitting = [job for job in jobs if _fits(job)][:count]
    if len(fitting) < count:
        raise ValueError(f"{path}: from job {first} on {len(fitting)} jobs fit, not {count}")
    begin = fitting[0].submit
    users = in_turn([job.user for job in fitting])
    return [
        replace(_compressed(job, begin, speed), user=user)
        for job, user in zip(fitting, users, strict=True)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for word in ("-dt", "-sim-walltime"):
        parser.add_argument(word, type=float, required=True)
    for word in ("-N", "-n"):
        parser.add_argument(word, type=int, default=1)
    for word in ("-t", "-p", "--uid"):
        parser.add_argument(word, required=True)
    for word in ("--mem", "--gres", "--constraint"):
        parser.add_argument(word, default="")
    parser.add_argument("--exclusive", action="store_true")
    return parser


_PARSER = _parser()


def _job_of(line: str) -> NodeJob:
    """In the log's own time; the partition is the one that it is to have here."""
    # --exclusive=user keeps other users away, who are not told apart here
    words = [word for word in shlex.split(line) if word != "--exclusive=user"]
    found, _ = _PARSER.parse_known_args(words)
    limit = parse_duration(found.t)
    gpus = int(found.gres.rpartition(":")[2] or 0)
    memory = _megabytes(found.mem)
    debug = found.p == DEBUG.name
    return NodeJob(
        submit=found.dt,
        seconds=min(found.sim_walltime, limit),
        minutes=math.ceil(limit / MINUTE),
        nodes=found.N,
        tasks=max(found.n, found.N),
        memory=memory,
        gpus=gpus,
        feature=found.constraint,
        exclusive=found.exclusive,
        partition=(DEBUG if debug else _partition_of(memory, gpus)).name,
        interactive=debug or limit <= INTERACTIVE,
        user=found.uid,
    )


def _partition_of(memory: int, gpus: int) -> Partition:
    if gpus:
        return GPU
    # More than any other kind has: on the site, too, such a job runs on these nodes alone.
    return LARGE if memory > max(kind.memory for kind in GPU.kinds) else GENERAL


def _megabytes(text: str) -> int:
    """Of sbatch's --mem, which counts in MB; 0 for none."""
    return int(text[:-1]) * 1024 if text.endswith("G") else int(text.rstrip("M") or 0)


def _fits(job: NodeJob) -> bool:
    """Whether enough nodes of its partition could hold it."""
    able = sorted(_processors(job), reverse=True)[: job.nodes]
    return len(able) == job.nodes and sum(able) >= job.tasks


def _processors(job: NodeJob) -> Iterator[int]:
    """Of each node that has its features, memory and GPUs."""
    for kind in PARTITIONS[job.partition].kinds:
        featured = not job.feature or job.feature in kind.features
        if featured and job.memory <= kind.memory and job.gpus <= kind.gpus:
            yield from [kind.processors] * kind.count


def _compressed(job: NodeJob, begin: float, speed: float) -> NodeJob:
    minutes = max(math.ceil(job.minutes / speed), 1)
    longest = MINUTE * minutes - _SPARE
    return replace(
        job,
        submit=(job.submit - begin) / speed,
        seconds=round(min(max(job.seconds / speed, SHORTEST), longest), 2),
        minutes=minutes,
    )


def sbatch_options(job: NodeJob) -> Sequence[str]:
    """Those beyond tasks and limit."""
    words = [f"--nodes={job.nodes}", f"--partition={job.partition}"]
    words += [f"--mem={job.memory}M"] if job.memory else []
    words += [f"--gres=gpu:{job.gpus}"] if job.gpus else []
    words += [f"--constraint={job.feature}"] if job.feature else []
    words += ["--exclusive"] if job.exclusive else []
    return words


_SHARES = (70, 30)
#: Of each account its share, and those of USERS, in turn.
ACCOUNT_PLAN = {
    name: Account(share=share, users=USERS[place :: len(ACCOUNTS)])
    for place, (name, share) in enumerate(zip(ACCOUNTS, _SHARES, strict=True))
}
#: Seconds after which age counts in full: the site's.
_MAX_AGE = 7 * DAY
#: Minutes between two calculations of priorities: the site's five would be two seconds of the run,
#: and Slurm knows no less than one.
_CALCULATED = 1
#: The site tests as deep. Its two minutes between rounds of backfill would be a second of the run,
#: and a plan in minutes would be too coarse for limits of a few.
_SCHEDULER = (
    "default_queue_depth=2500",
    "batch_sched_delay=0",
    "sched_interval=2",
    "bf_interval=3",
    "bf_max_time=30",
    "bf_resolution=1",
    "bf_window=120",
    "bf_max_job_test=2500",
    "bf_continue",
)


def cluster_plan(speed: float) -> ClusterPlan:
    """The site's weights of age, size and partition; nothing else makes the order.

    Args:
        speed: seconds of the log in one second of the run.
    """
    return ClusterPlan(
        kinds=KINDS,
        accounts=ACCOUNT_PLAN,
        options={
            "SelectTypeParameters": "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK",
            "SchedulerParameters": ",".join(_SCHEDULER),
            "AccountingStorageTRES": "gres/gpu",
            "EnforcePartLimits": "ALL",
            "JobRequeue": "0",
            "PriorityMaxAge": f"0-00:00:{_MAX_AGE / speed:.0f}",
            "PriorityCalcPeriod": f"{_CALCULATED}",
            "PriorityFavorSmall": "NO",
            "PriorityWeightAge": "70000",
            "PriorityWeightFairshare": "0",
            "PriorityWeightJobSize": "200000",
            "PriorityWeightPartition": "1000000",
            "MinJobAge": "86400",  # `scontrol show job` tells of every job at the end
            "MessageTimeout": "60",
            "SlurmctldDebug": "debug2",  # tells when each node was free again
        },
        partitions=[each.line for each in PARTITIONS.values()],
    )
