"""The jobs of an hour on a private Slurm in compressed time, with the daemon or without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event

from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.units import HOUR
from tests.bench.reserve_hours.load import ACCOUNTS, SHARES, HourJob
from tests.bench.speed.deep_queue import PATIENCE, tell
from tests.real.conftest import running_slurm
from tests.real.daemon_under_test import running_hook
from tests.real.load import Outcome, outcomes
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm

#: Seconds of the hour that pass in one second of the run: what Slurm needs for an end, about a
#: second, becomes so many in the hour.
SPEED = 6.0
#: Seconds of the hour between two cycles of the daemon, with and without a reserve.
CYCLE = 15.0
#: Calls take as long as ever, so that of a compressed hour they may take more than 0.1, which would
#: be a cycle in 44 s of the hour (`busy_share`).
BUSY_SHARE = 0.1 * SPEED
USERS = ("alice", "bob")
#: Slurm's defaults (60 s, 30 s, 5 min, 7 days) over SPEED, in the whole units that it takes.
PLAN = ClusterPlan(
    nodes=4,
    processors_per_node=8,
    accounts={
        name: Account(share=round(100 * share), users=(user,))
        for name, share, user in zip(ACCOUNTS, SHARES, USERS, strict=True)
    },
    options={
        "AccountingStorageEnforce": "associations,limits,qos",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=10,bf_interval=5,bf_continue",
        "PriorityMaxAge": "1-04:00:00",
        "PriorityDecayHalfLife": "1-04:00:00",
        "PriorityWeightPartition": None,
        "MessageTimeout": "60",
    },
    partitions=("PartitionName=grid Nodes=ALL Default=YES MaxTime=60 State=UP",),
)
#: What users ask for, 12 and 72 minutes of the hour; the class is told by it.
QUICK_MINUTES, LONG_MINUTES = 2, 12
_CLASS_RULE = f"""
[[job_class]]
class = "interactive"
time_limit_at_most = {60 * QUICK_MINUTES}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to run the hour.

    Attributes:
        name: for the table.
        daemon: whether ours runs beside Slurm.
        reserve: lines of [reserve]; "" for none.
    """

    name: str
    daemon: bool = False
    reserve: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    """What became of a job; times in seconds of the hour, wait and run time with Slurm's share.

    `submit` is when it was due, `sent` when it was really submitted: late on a busy machine.
    """

    submit: float
    sent: float
    wait: float
    run_time: float
    processors: int
    interactive: bool
    wanted_run_time: float


def reserve_lines(most: int, limit: ClassLimit) -> str:
    """[reserve] by a QOS; seconds of the hour, which the run compresses."""
    return f"""
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = {most}
change_seconds = {limit.change_interval / SPEED:g}
lift_hours = {limit.lift_after / SPEED / HOUR!r}
idle_minutes = {limit.idle_after / SPEED / 60.0!r}
narrow_first = {str(limit.narrow_first).lower()}
"""


class Stopped(Exception):
    """The hour was broken off."""


def replay(
    side: Side, jobs: Sequence[HourJob], folder: Path, network: QNetwork, stop: Event
) -> list[ReplayedJob]:
    """Run the hour once, on a cluster of its own.

    Args:
        side: Slurm alone, or a daemon beside it.
        jobs: in order of submission.
        folder: of the daemon's files; must be there.
        network: the daemon's model.
        stop: breaks it off once it is set.

    Raises:
        Stopped: it was broken off; its cluster is gone.
    """
    with running_slurm(PLAN) as cluster:
        _add_qos(cluster)
        with _daemon(cluster, side, folder, network):
            sent = submit_in_time(cluster, side, jobs, stop)
            _wait_until_all_started(cluster, side, stop)
        _end_all(cluster)
        found = outcomes(cluster, list(sent))
    return [
        _in_hours(found[number], job, at)
        for (number, at), job in zip(sent.items(), jobs, strict=True)
    ]


def _add_qos(cluster: PrivateSlurm) -> None:
    for name in ("batch", "interactive"):
        cluster.run("sacctmgr", "-i", "add", "qos", name)
        users = ("where", f"name={','.join(USERS)}")
        cluster.run("sacctmgr", "-i", "modify", "user", *users, "set", f"qos+={name}")


@contextmanager
def _daemon(cluster: PrivateSlurm, side: Side, folder: Path, network: QNetwork) -> Iterator[None]:
    """The daemon's own times are compressed as well."""
    if not side.daemon:
        yield
        return
    model = folder / "model.onnx"
    export_network(network, model, {"algorithm": "reserve-hours"})
    more = f"busy_share = {BUSY_SHARE:g}\n{side.reserve}{_CLASS_RULE}"
    with running_hook(cluster, folder, model, cycle=CYCLE / SPEED, more=more) as hook:
        yield
        assert hook.stop() == 0, hook.log


def submit_in_time(
    cluster: PrivateSlurm, side: Side, jobs: Sequence[HourJob], stop: Event
) -> dict[int, float]:
    """Job id -> when it was submitted, seconds of the run; in the order of the jobs.

    Raises:
        Stopped: `stop` is set.
    """
    begin, sent = time.monotonic(), dict[int, float]()

    def submit(place: int) -> None:
        job = jobs[place]
        number = cluster.submit(
            f"--qos={'interactive' if job.interactive else 'batch'}",
            user=USERS[job.account],
            account=ACCOUNTS[job.account],
            processors=job.processors,
            minutes=QUICK_MINUTES if job.interactive else LONG_MINUTES,
            seconds=job.run_time / SPEED,
        )
        sent[number] = time.monotonic() - begin

    in_time(side.name, [job.submit / SPEED for job in jobs], submit, stop)
    return sent


def in_time(name: str, due: Sequence[float], act: Callable[[int], None], stop: Event) -> float:
    """Call `act` with each place in turn when it is due; seconds by which one was late at most.

    Args:
        name: of the run, for the words that say how far it is.
        due: seconds from now, rising.
        act: what to do; is given the place in `due`.
        stop: breaks it off once it is set.

    Raises:
        Stopped: `stop` is set.
    """
    begin, late = time.monotonic(), 0.0
    for place, at in enumerate(due):
        if stop.wait(max(begin + at - time.monotonic(), 0.0)):
            raise Stopped
        late = max(late, time.monotonic() - begin - at)
        act(place)
        if place % 40 == 0:
            tell(f"{name}: {place} of {len(due)} jobs submitted, at most {late:.1f} s late")
    return late


def _wait_until_all_started(cluster: PrivateSlurm, side: Side, stop: Event) -> None:
    tell(f"{side.name}: all submitted")

    def nobody_waits() -> bool:
        if stop.is_set():
            raise Stopped
        waiting = cluster.run("squeue", "-h", "-t", "PD", "-o", "%A", timeout=PATIENCE)
        return not waiting.stdout

    cluster.wait_until(nobody_waits, HOUR / SPEED, "all started")


def _end_all(cluster: PrivateSlurm) -> None:
    """What still runs has told what it is to tell."""
    cluster.run("scancel", f"--user={USERS[0]}", timeout=PATIENCE)
    cluster.run("scancel", f"--user={USERS[1]}", timeout=PATIENCE)
    gone = ("squeue", "-h", "-o", "%A")
    cluster.wait_until(
        lambda: not cluster.run(*gone, timeout=PATIENCE).stdout, PATIENCE, "an empty queue"
    )
    time.sleep(2.0)  # slurmdbd is told of the last ends in a bundle


def _in_hours(found: Outcome, job: HourJob, sent: float) -> ReplayedJob:
    return ReplayedJob(
        submit=job.submit,
        sent=sent * SPEED,
        wait=(found.start - found.submit) * SPEED,
        run_time=(found.end - found.start) * SPEED,
        processors=job.processors,
        interactive=job.interactive,
        wanted_run_time=job.run_time,
    )


def as_rows(jobs: Sequence[ReplayedJob]) -> list[dict[str, float]]:
    """For JSON."""
    return [asdict(job) for job in jobs]
