"""Runs part of a Slurm site's week on private clusters, and in the simulator of nodes.

Needs root, the log with one sbatch line for each job, and Slurm 26.05
(tests/real/install_release.sh forky). Every repetition submits the same jobs at the same times to a
cluster of its own with several kinds of nodes. Repetitions that are finished in the same folder are
not run again.

Each repetition is simulated with its own submissions and run times, on the machine of its own
slurm.conf. slurmctld's log gives the delays from a submission and from an end to the next
scheduling pass, and the time at which priorities were calculated. No parameter is fitted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import combinations
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM, simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import HOUR, MINUTE, BoolArray, FloatArray, IntArray
from tests.bench.live.harness import (
    CONTROLLER_LOG,
    PATIENCE,
    Document,
    end_all,
    keep_files,
    kept_runs,
    say,
    submit_in_time,
    wait_until_all_started,
)
from tests.bench.live.node_week import USERS, NodeJob, cluster_plan, stretch_of
from tests.bench.report import write_document
from tests.real.conftest import running_slurm
from tests.real.private_cluster import PrivateSlurm
from tests.real.slurm_releases import RELEASES, missing_release

#: Seconds between the starts of clusters that run at the same time.
APART = 50.0
RELEASE = "26.05"
#: Fields of sacct that are kept; times are seconds since the epoch.
FIELDS = (
    *("JobIDRaw", "Submit", "Eligible", "Start", "End"),
    *("State", "NodeList", "AllocTRES", "Flags", "Priority"),
)
#: Two mean waits agree within this part of the real one, or within a second, since accounting has
#: whole seconds.
WITHIN, A_SECOND = 0.15, 1.0


def replay(jobs: Sequence[NodeJob], speed: float, folder: Path, stop: Event) -> Document:
    """Runs the jobs, in order of submission, until the last one has started; then cancels the rest.

    The folder gets copies of the configuration and of slurmctld's log.
    """
    with running_slurm(cluster_plan(speed), RELEASES[RELEASE]) as cluster:
        live = [job.live() for job in jobs]
        numbers, _, late = submit_in_time(folder.name, cluster, live, stop)
        say(f"{folder.name}: all submitted")
        wait_until_all_started(cluster, stop, 2 * HOUR)
        end_all(cluster, USERS)
        found = _outcomes(cluster)
        keep_files(cluster, folder, "slurm.conf", "gres.conf")
    both = zip(numbers, jobs, strict=True)
    done = [asdict(job) | {"number": number, "outcome": found[number]} for number, job in both]
    return {"late": late, "jobs": done}


def _outcomes(cluster: PrivateSlurm) -> dict[int, dict[str, Any]]:
    """Job id -> FIELDS in lower case; seconds are numbers, everything else is sacct's text."""
    said = cluster.run(
        *("sacct", "-a", "-X", "-P", "-n", "-S", "now-1day", "-o", ",".join(FIELDS)),
        env={"SLURM_TIME_FORMAT": "%s"},
        timeout=PATIENCE,
    )
    return {
        int(number): {
            name.lower(): int(text) if text.isdigit() else text
            for name, text in zip(FIELDS[1:], texts, strict=True)
        }
        for number, *texts in (line.split("|") for line in said.stdout.splitlines())
    }


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


def simulated_starts(jobs: Sequence[Job], machine: Machine, delays: Delays) -> FloatArray:
    """Simulated starts of the jobs of one repetition, seconds since the epoch, shape [n].

    Submissions, run times, requests and limits are those of the real run, by accounting.
    """
    order = np.argsort([job["number"] for job in jobs], kind="stable")  # order of submission
    log = log_of([jobs[place] for place in order], delays.handover)
    log = replace(log, submit=log.submit + delays.notice, eligible=log.eligible + delays.notice)
    prepared = prepare_log(log, machine=machine)
    if len(prepared.log) < len(jobs):
        raise ValueError(f"the machine holds {len(prepared.log)} of {len(jobs)} jobs")
    points = site_priority(prepared, machine)._replace(first=delays.calculated)
    site = QueueOrder(site=points)
    settings = SimulationSettings(capacity=prepared.capacity, backfilling=AS_SLURM)
    nodes = node_machine(prepared.log, machine)
    schedule = simulate_on_nodes(prepared.workload(RequestedLimit()), nodes, site, settings)
    found = np.empty(len(jobs))
    found[order] = schedule.start
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


def agrees(real: float, other: float) -> bool:
    """Whether two mean waits agree."""
    return abs(real - other) <= max(WITHIN * real, A_SECOND)


def compared(runs: Sequence[Run], simulated: Sequence[Run]) -> dict[str, Any]:
    """Each repetition with its simulation, and the repetitions with each other, which is chance."""
    pairs, cells = list(combinations(runs, 2)), {}
    for name, mask in cells_of(runs[0]).items():
        real, ours = ([_mean(run, mask) for run in side] for side in (runs, simulated))
        cells[" ".join(name)] = {
            "jobs": int(mask.sum()),
            "real": real,
            "simulated": ours,
            "agrees": list(map(agrees, real, ours)),
            "real_agrees": [agrees(_mean(one, mask), _mean(other, mask)) for one, other in pairs],
        }
    agree, agree_real = (
        [each for cell in cells.values() for each in cell[name]]
        for name in ("agrees", "real_agrees")
    )
    within = [
        abs(real - ours) <= WITHIN * real
        for cell in cells.values()
        for real, ours in zip(cell["real"], cell["simulated"], strict=True)
    ]
    return {
        "cells": cells,
        "share_of_cells_that_agree": float(np.mean(agree)),
        "share_without_the_second": float(np.mean(within)),
        "share_of_real_cells_that_agree": float(np.mean(agree_real)) if pairs else None,
        "median_start_difference": [*map(_apart, runs, simulated)],
        "median_start_difference_of_real": [_apart(one, other) for one, other in pairs],
    }


def _mean(run: Run, mask: BoolArray) -> float:
    return float(waits_of(run)[mask].mean())


def _apart(one: Run, other: Run) -> float:
    """Median difference of a job's start over the mean wait."""
    return float(np.median(np.abs(starts_of(one) - starts_of(other))) / waits_of(one).mean())


def table_of(result: Mapping[str, Any]) -> str:
    """A line for each cell, then the summary."""
    lines = [f"{'CLASS AND PARTITION':28}{'JOBS':>5}  REAL AND SIMULATED MEAN WAIT, S; * DIFFERS"]
    for name, cell in result["cells"].items():
        every = zip(cell["real"], cell["simulated"], cell["agrees"], strict=True)
        waits = "  ".join(
            f"{real:8.1f} {ours:8.1f}{' ' if ok else '*'}" for real, ours, ok in every
        )
        lines.append(f"{name:28}{cell['jobs']:5}  {waits}")
    for words, key in (
        ("median difference of a start over the mean wait", "median_start_difference"),
        ("the same of two real repetitions", "median_start_difference_of_real"),
    ):
        lines.append(f"{words}: {', '.join(f'{each:.3f}' for each in result[key])}")
    agree, alone = result["share_of_cells_that_agree"], result["share_without_the_second"]
    lines.append(f"cells that agree: {agree:.2f}; {alone:.2f} without the second")
    if result["share_of_real_cells_that_agree"] is not None:
        lines.append(f"of two real ones: {result['share_of_real_cells_that_agree']:.2f}")
    for words, key in (("submission", "notice"), ("end", "handover")):
        seconds = ", ".join(f"{each[key]:.2f}" for each in result["delays"])
        lines.append(f"from a job's {words} to the next pass of a scheduler, s: {seconds}")
    return "\n".join(lines)


def repetition_of(run: Run) -> dict[str, Any]:
    """Counts of one repetition."""
    outcomes = [job["outcome"] for job in run["jobs"]]
    return {
        "jobs": len(outcomes),
        "states": dict(Counter(each["state"].split()[0] for each in outcomes)),
        "late": run["late"],
        "by_backfill": sum("SchedBackfill" in each["flags"] for each in outcomes) / len(outcomes),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing, simulates, compares, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="one sbatch line for each job, gzip")
    parser.add_argument("--first", type=int, default=17000, help="place of the first job")
    parser.add_argument("--jobs", type=int, default=650)
    parser.add_argument("--speed", type=float, default=170.0, help="seconds of the log in one")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="clusters at the same time")
    parser.add_argument("--output", type=Path, default=Path("bench-output/machine-fidelity"))
    chosen = parser.parse_args(arguments)
    if missing := missing_release(RELEASES[RELEASE]):
        sys.exit(missing)
    jobs = stretch_of(chosen.log, chosen.first, chosen.jobs, chosen.speed)
    head = {"log": chosen.log.name, "first": chosen.first, "speed": chosen.speed}
    head |= {"asked": [asdict(job) for job in jobs]}
    folders = [chosen.output / f"rep{number}" for number in range(1, chosen.repetitions + 1)]
    runs = kept_runs(
        {folder / "jobs.json": None for folder in folders},
        lambda _: head,
        lambda _, folder, stop: replay(jobs, chosen.speed, folder, stop),
        at_once=chosen.at_once,
        apart=APART,
    )
    delays = [delays_of(folder / f"{CONTROLLER_LOG}.gz") for folder in folders]
    simulated = [
        as_simulated(run, read_machine(folder), delay)
        for run, folder, delay in zip(runs, folders, delays, strict=True)
    ]
    result = {
        "repetitions": list(map(repetition_of, runs)),
        "delays": [asdict(each) for each in delays],
        **compared(runs, simulated),
    }
    write_document(chosen.output / "fidelity.json", result)
    print(json.dumps(result["repetitions"], indent=1))
    print(table_of(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
