"""Replays each hour on real Slurms and in the simulator: alone, with our order, with a reserve."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
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
from tests.bench.live.harness import (
    Document,
    LiveJob,
    end_all,
    in_time,
    kept_runs,
    say,
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
from tests.real.load import outcomes
from tests.real.private_cluster import Account, ClusterPlan

#: Score that separates the classes: far above any wait's score, small enough for float32.
_CLASS_STEP = 100.0
#: Processors always kept free, and the weight of each feature, log10(1 + count) / 3: 3 processors
#: on a quiet machine, 2 or 1 as interactive jobs run and batch jobs wait. Chosen on hours 1000 to
#: 1199 in the simulator, which decides at each event: 0.38 of groups of twelve hours meet all four
#: goals, about as many as with any other weights that were tried.
RESERVE_HEAD = {"always": 3.1, "running_interactive": -6.0, "pending_batch": -3.0}
#: Seconds of the hour in one second of the run: Slurm takes about a second to end a job, which
#: becomes this many seconds of the hour.
SPEED = 6.0
#: Seconds of the hour between two cycles of the daemon.
CYCLE = 15.0
#: Slurm's commands do not get faster in compressed time; with the default of 0.1 a cycle would come
#: every 44 s of the hour.
BUSY_SHARE = 0.1 * SPEED
USERS = ("alice", "bob")
#: Slurm's defaults (60 s, 30 s, 5 min, 7 days) over SPEED, in the whole units that Slurm takes.
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
#: Time limits, 12 and 72 minutes of the hour; the limit gives the class.
QUICK_MINUTES, LONG_MINUTES = 2, 12
#: Largest reserve; the model gives its size.
MOST = 3
LIMIT = ClassLimit(change_interval=10.0, lift_after=2700.0, idle_after=3600.0, narrow_first=True)
#: Lines of the daemon's configuration.
_CLASS_RULE = f"""
[[job_class]]
class = "interactive"
time_limit_at_most = {60 * QUICK_MINUTES}
"""
_RESERVE = f"""
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = {MOST}
change_seconds = {LIMIT.change_interval / SPEED:g}
lift_hours = {LIMIT.lift_after / SPEED / HOUR!r}
idle_minutes = {LIMIT.idle_after / SPEED / 60.0!r}
narrow_first = {str(LIMIT.narrow_first).lower()}
"""
PLAIN, ORDER, RESERVE = SIDES = ("plain", "order", "reserve")
#: Seconds of the hour within which an interactive job should start.
SOON = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds of the hour that Slurm adds to each start and each end."""

    start: float
    end: float


#: Fitted to a real run of hour 1000, which is not shown.
LATENCY = Latency(start=3.0, end=4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    """Outcome of a job in seconds of the hour; wait and run time include Slurm's latency.

    `submit` is when it was due, `sent` when it was submitted: late on a busy machine.
    """

    submit: float
    sent: float
    wait: float
    run_time: float
    processors: int
    interactive: bool
    wanted_run_time: float


Runs = dict[tuple[int, str], list[ReplayedJob]]


def hour_network() -> QNetwork:
    """Interactive jobs first, FIFO within the classes, and the reserve of RESERVE_HEAD."""
    fifo = rule_network("fifo")
    linear, weights = fifo.linear.copy(), np.zeros(len(SITE.queue))
    linear[SITE.jobs.index("interactive")] = _CLASS_STEP
    for name in ("running_interactive", "pending_batch"):
        weights[SITE.queue.index(f"log_{name}")] = RESERVE_HEAD[name]
    return replace(
        fifo,
        linear=linear,
        reserve_weights=weights * fifo.queue_scale,  # of scaled features
        reserve_bias=RESERVE_HEAD["always"] + float(weights @ fifo.queue_mean),
    )


def run_hours(seeds: Sequence[int], plan: HourPlan, folder: Path, *, at_once: int) -> Runs:
    """Real runs: those that are kept in the folder, and the missing ones on new clusters.

    Args:
        at_once: number of hours that run at the same time, each on three clusters: other load on
            the machine then disturbs all three runs of an hour.
    """

    def key(run: tuple[int, str]) -> Document:
        seed, side = run
        made = {"plan": asdict(plan), "speed": SPEED, "cycle": CYCLE, "busy_share": BUSY_SHARE}
        made |= {"reserve": _RESERVE if side == RESERVE else ""}
        made |= {"model": RESERVE_HEAD if side != PLAIN else None}
        return {"seed": seed, "side": side, "key": made}

    def play(run: tuple[int, str], _: Path, stop: Event) -> Document:
        jobs = replay(run[1], lpc_like_hour(run[0], plan), stop)
        return {"jobs": [asdict(job) for job in jobs]}

    runs: Runs = {}
    for first in range(0, len(seeds), at_once):
        asked = {
            folder / f"hour-{seed}-{side}.json": (seed, side)
            for seed in seeds[first : first + at_once]
            for side in SIDES
        }
        found = kept_runs(asked, key, play, at_once=len(asked))
        for run, document in zip(asked.values(), found, strict=True):
            runs[run] = [ReplayedJob(**job) for job in document["jobs"]]
    return runs


def replay(side: str, jobs: Sequence[HourJob], stop: Event) -> list[ReplayedJob]:
    """Runs the hour once, on a cluster of its own.

    Raises:
        Stopped: `stop` is set; the cluster is gone.
    """
    live = [
        LiveJob(
            user=USERS[job.account],
            account=ACCOUNTS[job.account],
            seconds=job.run_time / SPEED,
            minutes=QUICK_MINUTES if job.interactive else LONG_MINUTES,
            processors=job.processors,
            submit=job.submit / SPEED,
            options=(f"--qos={'interactive' if job.interactive else 'batch'}",),
        )
        for job in jobs
    ]
    numbers, sent = list[int](), list[float]()
    with tempfile.TemporaryDirectory() as own, running_slurm(PLAN) as cluster:
        for name in ("batch", "interactive"):
            cluster.add_qos(name, users=",".join(USERS))
        model = Path(own) / "model.onnx"
        export_network(hour_network(), model, {"algorithm": "reserve-hours"})
        more = f"busy_share = {BUSY_SHARE:g}\n{_RESERVE if side == RESERVE else ''}{_CLASS_RULE}"
        daemon = running_hook(cluster, Path(own), model, cycle=CYCLE / SPEED, more=more)
        with nullcontext() if side == PLAIN else daemon:
            begin = time.monotonic()

            def submit(place: int) -> None:
                numbers.append(live[place].submit_to(cluster))
                sent.append((time.monotonic() - begin) * SPEED)

            in_time(side, [job.submit for job in live], submit, stop)
            say(f"{side}: all submitted")
            wait_until_all_started(cluster, stop, HOUR / SPEED)
        end_all(cluster, USERS)
        found = outcomes(cluster, numbers)
    return [
        ReplayedJob(
            submit=job.submit,
            sent=at,
            wait=(found[number].start - found[number].submit) * SPEED,
            run_time=(found[number].end - found[number].start) * SPEED,
            processors=job.processors,
            interactive=job.interactive,
            wanted_run_time=job.run_time,
        )
        for number, at, job in zip(numbers, sent, jobs, strict=True)
    ]


def predicted(jobs: Sequence[HourJob], side: str, sent: FloatArray) -> list[ReplayedJob]:
    """The hour in the simulator, submitted as in a real run at `sent`, shape [n]."""
    interactive = np.array([job.interactive for job in jobs], dtype=np.bool_)
    limit = np.where(interactive, 720.0, 4320.0)
    workload = Workload.of(
        submit=sent,
        run_time=np.array([job.run_time for job in jobs]) + LATENCY.end,
        estimate=limit,
        time_limit=limit,
        processors=np.array([job.processors for job in jobs], dtype=np.int64),
        account=np.array([job.account for job in jobs], dtype=np.int64),
        interactive=interactive,
        shares=np.array(SHARES),
    )
    settings = SimulationSettings(
        capacity=PROCESSORS,
        backfilling="easy",
        class_limit=LIMIT if side == RESERVE else None,
        half_life=7 * 24 * HOUR,
    )
    if side == PLAIN:
        start = simulate_order(workload, QueueOrder(rule="multifactor"), settings).start
    else:
        network = hour_network()
        if side == ORDER:
            network = replace(network, reserve_weights=None, reserve_bias=0.0)
        start = simulate_network(workload, network, settings).start
    waits = (start - sent + LATENCY.start).tolist()
    return [
        ReplayedJob(
            submit=job.submit,
            sent=at,
            wait=wait,
            run_time=job.run_time,
            processors=job.processors,
            interactive=job.interactive,
            wanted_run_time=job.run_time,
        )
        for job, at, wait in zip(jobs, sent.tolist(), waits, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFigures:
    """Figures of a run; waits in seconds of the hour, without the initial jobs.

    Attributes:
        interactive_wait, batch_wait: means.
        within_120s: part of the interactive jobs.
        wide_wait: longest wait of a batch job with several processors; 0 without any.
        utilization: of the processors within the hour.
    """

    interactive_wait: float
    within_120s: float
    batch_wait: float
    wide_wait: float
    utilization: float


def figures_of(jobs: Sequence[ReplayedJob]) -> HourFigures:
    """Figures of a real or simulated run."""
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
