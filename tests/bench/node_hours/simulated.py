"""The jobs of a repetition as a log, and when the simulator of nodes starts them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM, simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import MINUTE, FloatArray, IntArray
from slurm_rl_plugin.what_if.variant import admitted

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] (.*)")
#: What the lines say that tell of each, as Slurm 24.11 and 26.05 write them.
_SAYS = {
    "loaded": "Priority MULTIFACTOR plugin loaded",
    "submitted": "_slurm_rpc_submit_batch_job: JobId=",
    "ended": " done",
    "main pass": "sched: Running job scheduler for",
    "backfill": "sched/backfill: _attempt_backfill: beginning",
}
#: Seconds that time() of Linux may be behind the log's clock: a tick, 250 of which are a second.
#: Main passes begin as a second does, mostly within a tick, and accounting tells the one before.
_TICK = 0.004
_ENDED = re.compile(r"_job_complete: JobId=\d+ done$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Of one run; seconds, as accounting would tell them: it keeps whole ones.

    Attributes:
        notice: mean from a submission to the next look at the queue, of either scheduler.
        handover: mean from a job's end to the next look.
        calculated: when priorities were calculated first, since the epoch.
        looks: how many there were.
    """

    notice: float
    handover: float
    calculated: float
    looks: int


def delays_of(path: Path) -> Delays:
    """What a log, gzip, tells; written with SlurmctldDebug=debug or above.

    Raises:
        ValueError: it lacks one of the lines.
    """
    moments = _moments(path)
    missing = [name for name, times in moments.items() if len(times) == 0]
    if missing:
        raise ValueError(f"{path} has no line that tells of: {', '.join(missing)}")
    looks = np.sort(np.concatenate([moments["main pass"], moments["backfill"]]))
    return Delays(
        notice=_until_next(moments["submitted"], looks),
        handover=_until_next(moments["ended"], looks),
        calculated=float(moments["loaded"][0]),
        looks=len(looks),
    )


def _until_next(times: FloatArray, looks: FloatArray) -> float:
    """Mean of whole seconds to the next look, of those that have one."""
    times = times[times < looks[-1]]
    behind = looks[np.searchsorted(looks, times, side="right")]
    return float((_told(behind) - _told(times)).mean()) if len(times) else 0.0


def _told(times: FloatArray) -> FloatArray:
    """The seconds that accounting tells of moments of the log."""
    seconds: FloatArray = np.floor(times - _TICK)
    return seconds


def _moments(path: Path) -> Mapping[str, FloatArray]:
    """Seconds since the epoch at which each happened, rising."""
    found: dict[str, list[float]] = {name: [] for name in _SAYS}
    with gzip.open(path, "rt", errors="replace") as lines:
        for line in lines:
            name = next((name for name, words in _SAYS.items() if words in line), None)
            told = _LINE.match(line) if name else None
            if name is None or told is None or (name == "ended" and not _ENDED.search(told[2])):
                continue
            found[name].append(datetime.fromisoformat(told[1]).timestamp())  # local, as the log
    return {name: np.array(times) for name, times in found.items()}


Job = Mapping[str, Any]


def simulated_starts(
    jobs: Sequence[Job], machine: Machine, delays: Delays, before: Machine | None = None
) -> FloatArray:
    """When each job starts on the simulated machine, seconds since the epoch; shape [n].

    Submissions, run times, requests and limits are those of the real run, as accounting tells them.

    Args:
        jobs: of one repetition, in any order.
        machine: that its slurm.conf describes.
        delays: of its slurmctld.
        before: that the jobs were sent to, where that is another one. They are then sent to this
            one as their users would (what_if/variant.py); NaN of those that it does not hold.

    Raises:
        ValueError: the machine that they were sent to does not hold some of the jobs.
    """
    order = np.argsort([job["number"] for job in jobs], kind="stable")  # that of submission
    log = _noticed_later(log_of([jobs[place] for place in order], delays.handover), delays.notice)
    if before is not None:
        log, _ = admitted(log, before, machine)
    prepared = prepare_log(log, machine=machine)
    if before is None and len(prepared.log) < len(jobs):
        raise ValueError(f"the machine holds {len(prepared.log)} of {len(jobs)} jobs")
    points = site_priority(prepared, machine)._replace(first=delays.calculated)
    site = QueueOrder(site=points)
    settings = SimulationSettings(capacity=prepared.capacity, backfilling=AS_SLURM)
    nodes = node_machine(prepared.log, machine)
    schedule = simulate_on_nodes(prepared.workload(RequestedLimit()), nodes, site, settings)
    found = np.full(len(jobs), np.nan)
    found[order[np.searchsorted(log.job_id, prepared.log.job_id)]] = schedule.start
    return found


def _noticed_later(log: JobLog, seconds: float) -> JobLog:
    return replace(log, submit=log.submit + seconds, eligible=log.eligible + seconds)


def log_of(jobs: Sequence[Job], handover: float) -> JobLog:
    """The jobs of a repetition, in order of submission, as an accounting log.

    Args:
        jobs: with what became of them.
        handover: seconds that each holds its nodes beyond its end.
    """
    users, user = _named(jobs, "user")
    partitions, partition = _named(jobs, "partition")
    times = {name: _column(jobs, name) for name in ("submit", "eligible", "start", "end")}
    processors = np.array([job["tasks"] for job in jobs], dtype=np.int64)
    return JobLog(
        job_id=np.array([job["number"] for job in jobs], dtype=np.int64),
        submit=times["submit"],
        eligible=times["eligible"],
        start=times["start"],
        run_time=_run_times(jobs, times["end"] - times["start"]) + handover,
        processors=processors,
        time_limit=MINUTE * np.array([job["minutes"] for job in jobs], dtype=np.float64),
        account=np.zeros(len(jobs), dtype=np.int64),  # fair share has no weight
        accounts=("all",),
        user=user,
        users=users,
        partition=partition,
        partitions=partitions,
        requests=_requests(jobs),
        kind="sacct",
    )


def _run_times(jobs: Sequence[Job], told: FloatArray) -> FloatArray:
    """As told; of jobs that the end of the run cancelled, as wanted and what others took more."""
    wanted = np.array([job["seconds"] for job in jobs], dtype=np.float64)
    whole = np.array([job["outcome"]["state"] == "COMPLETED" for job in jobs])
    added = float((told - wanted)[whole].mean()) if whole.any() else 0.0
    return np.where(whole, told, np.maximum(wanted + added, told))


def _requests(jobs: Sequence[Job]) -> ResourceRequests:
    """Of memory and GPUs each node's amount is known; 0 of memory is the partition's default."""
    asked = np.array(
        [
            (job["tasks"], job["nodes"] * job["memory"], job["nodes"] * job["gpus"])
            for job in jobs
        ],
        dtype=np.float64,
    )  # fmt: skip
    plain = ResourceRequests.of_totals(
        asked,
        names=BASIC_RESOURCES,
        nodes=np.array([job["nodes"] for job in jobs], dtype=np.int64),
    )
    constraints, constraint = _named(jobs, "feature")
    return replace(
        plain,
        exclusive=np.array([job["exclusive"] for job in jobs], dtype=np.bool_),
        constraint=constraint,
        constraints=constraints,
    )


def _named(jobs: Sequence[Job], key: str) -> tuple[tuple[str, ...], IntArray]:
    names, place = np.unique([job[key] for job in jobs], return_inverse=True)
    return tuple(str(name) for name in names), place.astype(np.int64)


def _column(jobs: Sequence[Job], name: str) -> FloatArray:
    return np.array([job["outcome"][name] for job in jobs], dtype=np.float64)
