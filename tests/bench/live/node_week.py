"""Part of a week of a Slurm site in compressed time, for a small machine with the same node types.

The log has one sbatch line for each job: `-dt` is its submission and `-sim-walltime` its run time,
both in seconds; then come sbatch's own options. Run times, limits and submissions shrink by the
same factor; limits are rounded up to Slurm's whole minutes.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import math
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_duration
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from tests.bench.live.harness import LiveJob
from tests.real.cluster_files import Account, ClusterPlan, NodeKind

_SMALL, _LARGE = 187000, 754000
_GOLD_6130, _GOLD_6230 = "CPU-Gold-6130", "CPU-Gold-6230"


def _kind(name: str, count: int, model: str, memory: int = _SMALL, **more: Any) -> NodeKind:
    processors, fabric = {_GOLD_6130: (32, "OPA"), _GOLD_6230: (40, "IB")}[model]
    features = (model, fabric, *more.pop("features", ()))
    return NodeKind(
        name=name, count=count, processors=processors, memory=memory, features=features, **more
    )


_N = _kind("n", 5, _GOLD_6130, weight=60)
#: The debug partition has this node too.
_SHARED = _kind("s", 1, _GOLD_6130, weight=60)
_M = _kind("m", 4, _GOLD_6230, weight=70)
_B = _kind("b", 3, _GOLD_6230, _LARGE, weight=160)
_G = _kind("g", 1, _GOLD_6230, gpus=2, features=("V100",), weight=190)
_GN = _kind("gn", 1, _GOLD_6130, gpus=2, features=("P100",), weight=190)
KINDS = (_N, _SHARED, _M, _B, _G, _GN)
#: MB for each CPU of a job that requests no memory.
DEFAULT_MEMORY = 2800


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of slurm.conf: its nodes, and further words of its line."""

    name: str
    kinds: tuple[NodeKind, ...]
    more: str

    @property
    def line(self) -> str:
        """The line of slurm.conf."""
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


#: Users who submit; the users of the log are mapped to them in turn.
USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
ACCOUNTS = {
    "physics": Account(share=70, users=USERS[::2]),
    "biology": Account(share=30, users=USERS[1::2]),
}
#: Run time of the shortest job, seconds.
SHORTEST = 1.0
#: A job ends at least this number of seconds before its limit, so that Slurm never kills one.
_SPARE = 10.0
#: A job with at most this limit is interactive, and so is a job of the debug partition.
INTERACTIVE = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJob:
    """A job to submit: submission and run time in seconds, and its request."""

    submit: float
    seconds: float
    minutes: int
    nodes: int
    tasks: int
    memory: int  #: MB on each node; 0 requests the partition's default for each CPU
    gpus: int  #: number on each node
    feature: str
    exclusive: bool
    partition: str
    interactive: bool  #: by the limit or the partition in the log
    user: str

    def live(self) -> LiveJob:
        """The job as sbatch gets it."""
        words = [f"--nodes={self.nodes}", f"--partition={self.partition}"]
        words += [f"--mem={self.memory}M"] if self.memory else []
        words += [f"--gres=gpu:{self.gpus}"] if self.gpus else []
        words += [f"--constraint={self.feature}"] if self.feature else []
        words += ["--exclusive"] if self.exclusive else []
        return LiveJob(
            user=self.user,
            seconds=self.seconds,
            minutes=self.minutes,
            processors=self.tasks,
            submit=self.submit,
            options=tuple(words),
        )


def stretch_of(path: Path, first: int, count: int, speed: float) -> list[NodeJob]:
    """Reads `count` jobs that fit the small machine, in order of submission.

    They begin with the job at place `first` of the log, gzip, whose time passes `speed` times as
    fast.
    """
    with gzip.open(path, "rt") as lines:
        jobs = [job for place, job in enumerate(map(_job_of, lines)) if place >= first]
    fitting = [job for job in jobs if _fits(job)][:count]
    if len(fitting) < count:
        raise ValueError(f"{path}: from job {first} on {len(fitting)} jobs fit, not {count}")
    begin = fitting[0].submit
    first_seen = dict.fromkeys(job.user for job in fitting)
    user_of = dict(zip(first_seen, itertools.cycle(USERS), strict=False))
    return [_compressed(job, begin, speed, user_of[job.user]) for job in fitting]


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
    """A job in the log's own time, in its partition of the small machine."""
    # --exclusive=user keeps other users away, and users of the log share our users
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
    # No other kind has as much; on the site, too, only these nodes take such a job.
    return LARGE if memory > max(kind.memory for kind in GPU.kinds) else GENERAL


def _megabytes(text: str) -> int:
    """MB of sbatch's --mem; 0 without it."""
    return int(text[:-1]) * 1024 if text.endswith("G") else int(text.rstrip("M") or 0)


def _fits(job: NodeJob) -> bool:
    """Whether enough nodes of its partition have its features, memory, GPUs and processors."""
    able = [
        kind.processors
        for kind in PARTITIONS[job.partition].kinds
        for _ in range(kind.count)
        if not job.feature or job.feature in kind.features
        if job.memory <= kind.memory and job.gpus <= kind.gpus
    ]
    able = sorted(able, reverse=True)[: job.nodes]
    return len(able) == job.nodes and sum(able) >= job.tasks


def _compressed(job: NodeJob, begin: float, speed: float, user: str) -> NodeJob:
    minutes = max(math.ceil(job.minutes / speed), 1)
    longest = MINUTE * minutes - _SPARE
    return replace(
        job,
        submit=(job.submit - begin) / speed,
        seconds=round(min(max(job.seconds / speed, SHORTEST), longest), 2),
        minutes=minutes,
        user=user,
    )


#: PriorityMaxAge of the site.
_MAX_AGE = 7 * DAY
#: The site's depth. Its two minutes between rounds of backfill would be a second of the run, and a
#: plan in minutes would be too coarse for limits of a few minutes.
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
    """The small machine with the site's weights of age, size and partition; no fair share."""
    return ClusterPlan(
        kinds=KINDS,
        accounts=ACCOUNTS,
        options={
            "SelectTypeParameters": "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK",
            "SchedulerParameters": ",".join(_SCHEDULER),
            "AccountingStorageTRES": "gres/gpu",
            "EnforcePartLimits": "ALL",
            "JobRequeue": "0",
            "PriorityMaxAge": f"0-00:00:{_MAX_AGE / speed:.0f}",
            "PriorityCalcPeriod": "1",  # the shortest that Slurm allows, in minutes
            "PriorityFavorSmall": "NO",
            "PriorityWeightAge": "70000",
            "PriorityWeightFairshare": "0",
            "PriorityWeightJobSize": "200000",
            "PriorityWeightPartition": "1000000",
            "MessageTimeout": "60",
            "SlurmctldDebug": "debug2",  # logs when each node is free again
        },
        partitions=[each.line for each in PARTITIONS.values()],
    )
