"""Replays the flooded site in compressed time on a real slurmctld, and compares what-if with it.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh; seven minutes for each run. The
site is that of `flooded_site` with 64 CPUs: two minutes of the run are the seven days of
PriorityMaxAge and PriorityDecayHalfLife. Each repetition runs it in the site's own order and with
the daemon at several values of its influence. Runs that are finished in the same folder are not run
again. `what-if` gets the jobs of each run from accounting, and slurmctld's delays from its log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from tests.bench.live.harness import (
    CONTROLLER_LOG,
    Document,
    LiveJob,
    keep_files,
    kept_runs,
    submit_in_time,
    wait_until_empty,
    write_associations,
)
from tests.bench.node_hours.fidelity import WITHIN, agrees
from tests.bench.node_hours.simulated import delays_of
from tests.bench.report import write_document
from tests.bench.shares.flooded_site import FLOOD, FLOODS, OTHERS, SHARES, answer
from tests.real.conftest import running_slurm
from tests.real.daemon_under_test import running_hook
from tests.real.load import outcomes
from tests.real.private_cluster import Account, ClusterPlan

#: Seconds of the run for seven days of age.
_AGE = 120.0
#: Influence in hours of age at the site, by name of the run; None runs Slurm alone.
INFLUENCES: Mapping[str, float | None] = {
    "now": None,
    "336": 336.0,
    "72": 72.0,
    "24": 24.0,
    "0": 0.0,
}
_NODES, _CPUS, _CYCLE = 8, 8, 2
#: Run times in seconds, time limits in minutes, and CPUs.
_RUNS, _LIMITS, _WIDTHS = (2, 4, 8, 16, 24), (1, 1, 2, 8, 20), (1, 2, 4, 4, 8)
#: Longest time limit of an interactive job, in minutes, as in the daemon's configuration.
_QUICK = 1
_CLASS = f"""
[[job_class]]
class = "interactive"
time_limit_at_most = {_QUICK * MINUTE:g}
"""
#: Seconds between the starts of clusters that run at the same time.
_APART = 40.0
_PLAN = ClusterPlan(
    nodes=_NODES,
    processors_per_node=_CPUS,
    accounts={
        name: Account(share=share, users=(f"flood{place:02}", f"flood{place + 50:02}"))
        for place, (name, share) in enumerate(SHARES.items())
    },
    options={
        "SelectTypeParameters": "CR_CPU",
        "AccountingStorageEnforce": "associations,limits",
        "PriorityMaxAge": f"0-00:{_AGE / MINUTE:02.0f}:00",
        "PriorityDecayHalfLife": f"0-00:{_AGE / MINUTE:02.0f}:00",
        "PriorityCalcPeriod": "1",
        "PriorityWeightAge": "1000",
        "PriorityWeightFairshare": "10000",
        "PriorityWeightJobSize": "1000",
        "PriorityWeightPartition": "0",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=2,bf_interval=2,bf_resolution=1,"
        "bf_window=60,bf_continue,bf_max_job_test=1000,default_queue_depth=1000",
        "MessageTimeout": "60",
        "SlurmctldDebug": "debug",  # logs when priorities are calculated and jobs handed over
    },
    partitions=("PartitionName=batch Nodes=ALL Default=YES MaxTime=60 State=UP",),
)


def drawn_jobs(count: int, seed: int) -> list[LiveJob]:
    """Jobs in order of submission, with 1.2 times the work that the machine can do."""
    rng = np.random.default_rng(seed)
    whole = float(sum(SHARES.values()))
    asked = {
        name: FLOOD if name == FLOODS else OTHERS * share / whole for name, share in SHARES.items()
    }
    work = float(np.mean(_RUNS) * np.mean(_WIDTHS))
    last = count * work / (sum(asked.values()) * _NODES * _CPUS)
    parts = np.array(list(asked.values())) / sum(asked.values())
    jobs = []
    for place in rng.choice(len(SHARES), count, p=parts).tolist():
        name, kind = list(SHARES)[place], int(rng.integers(len(_RUNS)))
        user = _PLAN.accounts[name].users[int(rng.integers(2))]
        cpus, submit = int(rng.choice(_WIDTHS)), float(rng.uniform(0.0, last))
        words = {"seconds": _RUNS[kind], "minutes": _LIMITS[kind], "processors": cpus}
        jobs.append(LiveJob(submit=submit, account=name, user=user, **words))
    return sorted(jobs, key=lambda job: job.submit)


def influence_hours(name: str) -> float:
    """Influence of a run in the run's own time."""
    hours = INFLUENCES[name] or 0.0
    return hours * HOUR / (7 * DAY) * _AGE / HOUR


def run_once(name: str, jobs: Sequence[LiveJob], folder: Path, stop: Event) -> Document:
    """Runs the jobs on a cluster of their own; their times by sacct."""
    with running_slurm(_PLAN) as cluster:
        hours = influence_hours(name)
        options = {"cycle": _CYCLE, "influence": hours, "more": "busy_share = 0.9"}
        daemon = running_hook(cluster, folder, "default", **options)
        with nullcontext() if INFLUENCES[name] is None else daemon:
            numbers, _, late = submit_in_time(folder.name, cluster, jobs, stop)
            wait_until_empty(cluster, HOUR)
        found = outcomes(cluster, numbers)
        keep_files(cluster, folder, "slurm.conf")
    write_associations(_PLAN, folder)
    rows = [asdict(found[number]) for number in numbers]
    return {"late": late, "asked": [asdict(job) for job in jobs], "found": rows}


def write_log(run: Mapping[str, Any], folder: Path) -> None:
    """Writes `log.swf` and `accounts.csv` of a run for `what-if`.

    Times are seconds from slurmctld's first calculation of priorities, as in the simulator. Jobs
    arrive at slurmctld's next scheduling pass, and hold their CPUs until the pass after their end.
    """
    delays = delays_of(folder / f"{CONTROLLER_LOG}.gz")
    users = sorted({job["user"] for job in run["asked"]})
    lines = [f"; MaxProcs: {_NODES * _CPUS}", f"; MaxNodes: {_NODES}"]
    both = zip(run["asked"], run["found"], strict=True)
    for number, (job, each) in enumerate(both, start=1):
        user, limit = users.index(job["user"]) + 1, job["minutes"] * 60
        came = each["submit"] + delays.notice - delays.calculated
        wait = max(each["start"] - each["submit"] - delays.notice, 0.0)
        ran = each["end"] - each["start"] + delays.handover
        times = [f"{value:.2f}" for value in (came, wait, ran)]
        fields = [number, *times, job["processors"], -1, -1, job["processors"]]
        fields += [limit, -1, 1, user, user, -1, 1, 1, -1, -1]
        lines.append(" ".join(map(str, fields)))
    folder.joinpath("log.swf").write_text("\n".join(lines) + "\n")
    account_of = {job["user"]: job["account"] for job in run["asked"]}
    pairs = [f"{users.index(user) + 1},{account}" for user, account in account_of.items()]
    folder.joinpath("accounts.csv").write_text("user,account\n" + "\n".join(pairs) + "\n")


def predicted(folder: Path, name: str) -> dict[str, tuple[float, float]]:
    """Mean wait of each account and class, seconds: at present, and under an influence."""
    config = f"influence-{name}.toml"
    text = f"[hook]\ncycle = {_CYCLE}\ninfluence_hours = {influence_hours(name)!r}\n{_CLASS}"
    folder.joinpath(config).write_text(text)
    words = ("--cluster", ".", "--account-of", "accounts.csv", "--config", config, "--json")
    found = answer(folder, "what-if", "log.swf", *words, "--change", "hook default")
    (variant,) = found["variants"].values()
    cells = {"all": variant["figures"]["mean_wait"]}
    for by in ("class", "account"):
        cells |= {key: each["figures"]["mean_wait"] for key, each in variant["groups"][by].items()}
    return {key: (each["before"], each["after"]) for key, each in cells.items()}


def measured(run: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
    """Jobs and mean wait of each cell in a run, over the jobs that `what-if` counts."""
    count = len(run["asked"])
    counted = slice(int(count * 0.1), count - int(count * 0.05))
    waits: dict[str, list[float]] = {}
    for job, each in list(zip(run["asked"], run["found"], strict=True))[counted]:
        job_class = "interactive" if job["minutes"] <= _QUICK else "batch"
        for cell in ("all", job_class, job["account"]):
            waits.setdefault(cell, []).append(float(each["start"] - each["submit"]))
    return {cell: (len(values), float(np.mean(values))) for cell, values in waits.items()}


def compared(runs: Mapping[Path, str], documents: Sequence[Document]) -> dict[str, Any]:
    """Each cell of each run, and what `what-if` predicts from the run's own jobs."""
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for (path, name), run in zip(runs.items(), documents, strict=True):
        hours = INFLUENCES[name]
        write_log(run, path.parent)
        ours = predicted(path.parent, "0" if hours is None else name)
        for key, (jobs, real) in measured(run).items():
            cell = cells.setdefault((name, key), {"jobs": jobs, "real": [], "predicted": []})
            cell["real"].append(real)
            cell["predicted"].append(ours[key][hours is not None])
    rows = [{"run": name, "cell": key, **cell} for (name, key), cell in cells.items()]
    for row in rows:
        real, ours = float(np.mean(row["real"])), float(np.mean(row["predicted"]))
        row["agrees"] = agrees(real, ours)
        row["within"] = abs(real - ours) <= WITHIN * real
    return {
        "cells": rows,
        "agree": float(np.mean([row["agrees"] for row in rows])),
        "within": float(np.mean([row["within"] for row in rows])),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing, compares, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2, help="clusters at the same time")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    chosen = parser.parse_args(arguments)
    jobs = drawn_jobs(chosen.jobs, chosen.seed)
    runs = {
        chosen.output / f"{name}-{repetition}/run.json": name
        for repetition in range(1, chosen.repetitions + 1)
        for name in INFLUENCES
    }
    documents = kept_runs(
        runs,
        lambda _: {"asked": [asdict(job) for job in jobs]},
        lambda name, folder, stop: run_once(name, jobs, folder, stop),
        at_once=chosen.at_once,
        apart=_APART,
    )
    result = compared(runs, documents)
    for each in result["cells"]:
        both = zip(each["real"], each["predicted"], strict=True)
        waits = "  ".join(f"{real:7.1f} {ours:7.1f}" for real, ours in both)
        mark = "" if each["agrees"] else " *"
        print(f"{each['run']:>4} {each['cell']:12} {each['jobs']:4}  {waits}{mark}")
    print("jobs, then real and predicted mean wait of each repetition, seconds")
    print(
        f"of {len(result['cells'])} cells the means agree in {100 * result['agree']:.0f} % within "
        f"15 % or 1 s, in {100 * result['within']:.0f} % within 15 % alone"
    )
    write_document(chosen.output / "flooded-on-slurm.json", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
