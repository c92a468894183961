"""Every hour three ways on real Slurms side by side; what has run is kept."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event

import numpy as np

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
)
from slurm_rl_plugin.units import HOUR, FloatArray
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.live.compressed_time import (
    end_all,
    in_time,
    side_by_side,
    tell,
    wait_until_all_started,
)
from tests.bench.reserve_hours.load import (
    ACCOUNTS,
    PROCESSORS,
    SHARES,
    HourJob,
    HourPlan,
    lpc_like_hour,
)
from tests.real.conftest import running_slurm
from tests.real.daemon_under_test import running_hook
from tests.real.load import Outcome, outcomes
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm

#: A step between the classes far above any wait's score, and small enough for float32.
_CLASS_STEP = 100.0


@dataclass(frozen=True, slots=True)
class ReserveHead:
    """Processors kept free: `always` and a weight for each feature, log10(1 + count) / 3.

    Attributes:
        always: processors.
        running_interactive: of the processors that run interactive jobs.
        pending_batch: of the waiting batch jobs.
    """

    always: float
    running_interactive: float = 0.0
    pending_batch: float = 0.0


#: 3 processors on a quiet machine; 2 or 1 the more interactive jobs run and batch jobs wait. Chosen
#: on hours 1000 to 1199 in the simulator, which decides at each event: .38 of groups of twelve
#: hours meet all four goals, about as many as with any other head that was tried.
RESERVE_HEAD = ReserveHead(always=3.1, running_interactive=-6.0, pending_batch=-3.0)


def hour_network() -> QNetwork:
    """FIFO within the classes, interactive jobs first, and the reserve of RESERVE_HEAD."""
    fifo = rule_network("fifo")
    linear = fifo.linear.copy()
    linear[SITE.jobs.index("interactive")] = _CLASS_STEP
    return replace(fifo, linear=linear, **_reserve(fifo, RESERVE_HEAD))


def _reserve(fifo: QNetwork, head: ReserveHead) -> dict[str, object]:
    """Weights of the scaled features that give those of the head on the features themselves."""
    weights = np.zeros(len(SITE.queue))
    for name in ("running_interactive", "pending_batch"):
        weights[SITE.queue.index(f"log_{name}")] = getattr(head, name)
    return {
        "reserve_weights": weights * fifo.queue_scale,
        "reserve_bias": head.always + float(weights @ fifo.queue_mean),
    }


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
            tell(f"{side.name}: all submitted")
            wait_until_all_started(cluster, stop, HOUR / SPEED)
        end_all(cluster, USERS)
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


#: Seconds of the hour within which an interactive job should start.
SOON = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """What Slurm adds, seconds of the hour; measured on other hours than the one shown.

    Attributes:
        start: from the moment at which a job could start until it does.
        end: for which a job holds its processors beyond its run time.
    """

    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFigures:
    """Figures of one run of an hour; waits in seconds of the hour, jobs of its beginning left out.

    Attributes:
        interactive_wait, batch_wait: means.
        within_120s: part of the interactive jobs.
        wide_wait: longest wait of a batch job of several processors; 0 without any.
        utilization: of the processors within the hour.
    """

    interactive_wait: float
    within_120s: float
    batch_wait: float
    wide_wait: float
    utilization: float


def workload_of(
    jobs: Sequence[HourJob], latency: Latency, sent: FloatArray | None = None
) -> Workload:
    """The hour as the simulator takes it; limits are the requested ones, `sent` the submissions."""
    interactive = np.array([job.interactive for job in jobs], dtype=np.bool_)
    limit = np.where(interactive, 720.0, 4320.0)
    return Workload.of(
        submit=np.array([job.submit for job in jobs]) if sent is None else sent,
        run_time=np.array([job.run_time for job in jobs]) + latency.end,
        estimate=limit,
        time_limit=limit,
        processors=np.array([job.processors for job in jobs], dtype=np.int64),
        account=np.array([job.account for job in jobs], dtype=np.int64),
        interactive=interactive,
        shares=np.array(SHARES),
    )


def predicted(
    jobs: Sequence[HourJob],
    latency: Latency,
    network: QNetwork | None,
    *,
    class_limit: ClassLimit | None = None,
    sent: FloatArray | None = None,
) -> list[ReplayedJob]:
    """The hour under Slurm alone, or under the order of a network.

    Args:
        jobs: of the hour.
        latency: what Slurm adds.
        network: of the daemon; None for Slurm alone.
        class_limit: how its reserve is kept; None keeps nothing.
        sent: when the jobs of a real run were really submitted, shape [n].
    """
    workload = workload_of(jobs, latency, sent)
    settings = SimulationSettings(
        capacity=PROCESSORS,
        backfilling="easy",
        class_limit=class_limit,
        half_life=7 * 24 * HOUR,
    )
    if network is None:
        start = simulate_order(workload, QueueOrder(rule="multifactor"), settings).start
    else:
        if class_limit is None:
            network = replace(network, reserve_weights=None, reserve_bias=0.0)
        start = simulate_network(workload, network, settings).start
    return replayed(jobs, workload.submit, start - workload.submit + latency.start)


def replayed(jobs: Sequence[HourJob], sent: FloatArray, wait: FloatArray) -> list[ReplayedJob]:
    """Jobs of a simulated hour; `sent` and `wait` of shape [n], seconds of the hour."""
    return [
        ReplayedJob(
            submit=job.submit,
            sent=at,
            wait=waited,
            run_time=job.run_time,
            processors=job.processors,
            interactive=job.interactive,
            wanted_run_time=job.run_time,
        )
        for job, at, waited in zip(jobs, sent.tolist(), wait.tolist(), strict=True)
    ]


def figures_of(jobs: Sequence[ReplayedJob]) -> HourFigures:
    """What the table shows of a run, real or simulated."""
    wait, submit = (np.array([getattr(job, name) for job in jobs]) for name in ("wait", "submit"))
    interactive = np.array([job.interactive for job in jobs])
    processors = np.array([job.processors for job in jobs])
    batch = ~interactive & (submit > 0.0)
    wide = wait[batch & (processors > 1)]
    begin = np.array([job.sent for job in jobs]) + wait
    end = begin + np.array([job.run_time for job in jobs])
    within = np.clip(np.minimum(end, HOUR) - np.maximum(begin, 0.0), 0.0, None)
    return HourFigures(
        interactive_wait=float(wait[interactive].mean()),
        within_120s=float((wait[interactive] <= SOON).mean()),
        batch_wait=float(wait[batch].mean()),
        wide_wait=float(wide.max(initial=0.0)),
        utilization=float((within * processors).sum() / (PROCESSORS * HOUR)),
    )


PLAIN, ORDER, RESERVE = "plain", "order", "reserve"
#: Processors that the daemon may keep free at most; the model says how many.
MOST = 3
LIMIT = ClassLimit(change_interval=10.0, lift_after=2700.0, idle_after=3600.0, narrow_first=True)
SIDES = (
    Side(name=PLAIN),
    Side(name=ORDER, daemon=True),
    Side(
        name=RESERVE,
        daemon=True,
        reserve=reserve_lines(MOST, LIMIT),
    ),
)
#: What Slurm adds in this set-up: fitted to a real run of hour 1000, which is not shown.
LATENCY = Latency(start=3.0, end=4.0)
Runs = dict[tuple[int, str], list[ReplayedJob]]


def run_hours(seeds: Sequence[int], plan: HourPlan, folder: Path, *, at_once: int) -> Runs:
    """All runs: those that an earlier call has left in the folder, and the others on real Slurms.

    Args:
        seeds: of the hours.
        plan: what kind of hours.
        folder: of a file for each run.
        at_once: hours, with three clusters each; the three share what disturbs them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, len(seeds), at_once):
        missing = [
            (seed, side)
            for seed in seeds[first : first + at_once]
            for side in SIDES
            if not _kept(folder, seed, side, plan)
        ]
        side_by_side(
            lambda each, stop: _run(*each, plan, folder, stop), missing, max(len(missing), 1)
        )
    return {(seed, side.name): read_run(folder, seed, side) for seed in seeds for side in SIDES}


def _run(seed: int, side: Side, plan: HourPlan, folder: Path, stop: Event) -> None:
    with tempfile.TemporaryDirectory() as own:
        jobs = replay(side, lpc_like_hour(seed, plan), Path(own), hour_network(), stop)
    document = {"seed": seed, "side": side.name, "key": _key(side, plan), "jobs": as_rows(jobs)}
    write_whole(_path(folder, seed, side), json.dumps(document) + "\n")
    tell(f"hour {seed}, {side.name}: done")


def _key(side: Side, plan: HourPlan) -> dict[str, object]:
    """What a kept run must have been made with."""
    model = asdict(RESERVE_HEAD) if side.daemon else None
    return {
        "side": asdict(side),
        "plan": asdict(plan),
        "speed": SPEED,
        "cycle": CYCLE,
        "busy_share": BUSY_SHARE,
        "model": model,
    }


def _kept(folder: Path, seed: int, side: Side, plan: HourPlan) -> bool:
    path = _path(folder, seed, side)
    return path.exists() and json.loads(path.read_text())["key"] == _key(side, plan)


def _path(folder: Path, seed: int, side: Side) -> Path:
    return folder / f"hour-{seed}-{side.name}.json"


def read_run(folder: Path, seed: int, side: Side) -> list[ReplayedJob]:
    """A run that is kept."""
    rows = json.loads(_path(folder, seed, side).read_text())["jobs"]
    return [ReplayedJob(**{"sent": row["submit"], **row}) for row in rows]
