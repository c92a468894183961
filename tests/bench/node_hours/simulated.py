"""Simulates the jobs of a real repetition on its machine; waits, starts and cells of a run."""

from __future__ import annotations

import gzip
import json
import re
import sys
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
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM, simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import MINUTE, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.what_if.variant import admitted

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] (.*)")
#: Text in the line of each event, as Slurm 24.11 and 26.05 write it.
_SAYS = {
    "loaded": "Priority MULTIFACTOR plugin loaded",
    "submitted": "_slurm_rpc_submit_batch_job: JobId=",
    "ended": " done",
    "main pass": "sched: Running job scheduler for",
    "backfill": "sched/backfill: _attempt_backfill: beginning",
}
#: time() of Linux may lag the log's clock by a tick, here 1/250 s. Main passes start with a second,
#: mostly within a tick, and accounting then has the second before.
_TICK = 0.004
_ENDED = re.compile(r"_job_complete: JobId=\d+ done$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Delays of slurmctld in one run, by whole seconds as in accounting."""

    notice: float  #: mean from a submission to the next pass of either scheduler
    handover: float  #: mean from a job's end to the next pass
    calculated: float  #: first calculation of priorities, seconds since the epoch
    looks: int  #: number of passes


def delays_of(path: Path) -> Delays:
    """Reads slurmctld's log, gzip, of SlurmctldDebug=debug or above."""
    found: dict[str, list[float]] = {name: [] for name in _SAYS}
    with gzip.open(path, "rt", errors="replace") as lines:
        for line in lines:
            name = next((name for name, words in _SAYS.items() if words in line), None)
            match = _LINE.match(line) if name else None
            if name is None or match is None or (name == "ended" and not _ENDED.search(match[2])):
                continue
            found[name].append(datetime.fromisoformat(match[1]).timestamp())  # local time
    if missing := [name for name, times in found.items() if not times]:
        raise ValueError(f"{path} has no line for: {', '.join(missing)}")
    moments = {name: np.array(times) for name, times in found.items()}
    looks = np.sort(np.concatenate([moments["main pass"], moments["backfill"]]))
    return Delays(
        notice=_until_next(moments["submitted"], looks),
        handover=_until_next(moments["ended"], looks),
        calculated=float(moments["loaded"][0]),
        looks=len(looks),
    )


def _until_next(times: FloatArray, looks: FloatArray) -> float:
    """Mean seconds to the next pass, over the times that have one."""
    times = times[times < looks[-1]]
    next_look = looks[np.searchsorted(looks, times, side="right")]
    seconds = np.floor(next_look - _TICK) - np.floor(times - _TICK)
    return float(seconds.mean()) if len(times) else 0.0


Job = Mapping[str, Any]


def simulated_starts(
    jobs: Sequence[Job], machine: Machine, delays: Delays, before: Machine | None = None
) -> FloatArray:
    """Simulated starts, seconds since the epoch, shape [n].

    Submissions, run times, requests and limits are those of the real run, by accounting.

    Args:
        jobs: jobs of one repetition, in any order.
        machine: described by its slurm.conf.
        delays: of its slurmctld.
        before: the machine that the jobs were sent to, if it is another one. They are sent as
            what-if assumes; the start of a job that `machine` cannot hold is NaN.
    """
    order = np.argsort([job["number"] for job in jobs], kind="stable")  # order of submission
    log = log_of([jobs[place] for place in order], delays.handover)
    log = replace(log, submit=log.submit + delays.notice, eligible=log.eligible + delays.notice)
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


def log_of(jobs: Sequence[Job], handover: float) -> JobLog:
    """Jobs of a repetition, in order of submission, as an accounting log.

    Each holds its nodes for `handover` seconds beyond its end.
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


def _run_times(jobs: Sequence[Job], recorded: FloatArray) -> FloatArray:
    """Recorded run times; of a cancelled job its sleep and the mean overhead of completed jobs."""
    wanted = np.array([job["seconds"] for job in jobs], dtype=np.float64)
    whole = np.array([job["outcome"]["state"] == "COMPLETED" for job in jobs])
    added = float((recorded - wanted)[whole].mean()) if whole.any() else 0.0
    return np.where(whole, recorded, np.maximum(wanted + added, recorded))


def _requests(jobs: Sequence[Job]) -> ResourceRequests:
    """Totals over the nodes of each job; memory 0 is the partition's default."""
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


Run = Mapping[str, Any]
#: Class and partition, or ALL.
Cell = tuple[str, str]
ALL = "all"


def runs_in(folder: Path) -> tuple[list[Path], list[Run]]:
    """Folders and documents of the repetitions that the campaign wrote."""
    folders = sorted(path.parent for path in folder.glob("rep*/jobs.json"))
    if not folders:
        sys.exit(f"{folder} has no rep1/jobs.json: run tests.bench.node_hours.campaign first.")
    return folders, [json.loads(each.joinpath("jobs.json").read_text()) for each in folders]


def as_simulated(run: Run, machine: Machine, delays: Delays) -> Run:
    """The same run with the simulator's starts."""
    starts = simulated_starts(run["jobs"], machine, delays)
    jobs = [
        {**job, "outcome": {**job["outcome"], "start": start}}
        for job, start in zip(run["jobs"], starts.tolist(), strict=True)
    ]
    return {**run, "jobs": jobs}


def waits_of(run: Run) -> FloatArray:
    """Seconds from a job's eligible time to its start."""
    return _column(run["jobs"], "start") - _column(run["jobs"], "eligible")


def starts_of(run: Run) -> FloatArray:
    """Seconds since the first submission."""
    return _column(run["jobs"], "start") - _column(run["jobs"], "submit").min()


def cells_of(run: Run) -> dict[Cell, BoolArray]:
    """Mask of the jobs in each cell; no cell is empty."""
    kinds = np.array(["interactive" if job["interactive"] else "batch" for job in run["jobs"]])
    partitions = np.array([job["partition"] for job in run["jobs"]])
    found = {}
    for kind in (ALL, *sorted(set(kinds))):
        for partition in (ALL, *sorted(set(partitions))):
            mask = np.isin(kinds, [kind] if kind != ALL else kinds)
            mask &= np.isin(partitions, [partition] if partition != ALL else partitions)
            if mask.any():
                found[kind, partition] = mask
    return found
