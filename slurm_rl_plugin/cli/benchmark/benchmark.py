"""`slurm-rl benchmark`: how fast the hook decides and how fast the simulator runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.assembly.hook import load_policy, model_path
from slurm_rl_plugin.cli.benchmark.drawn_queue import past_runs, random_snapshot
from slurm_rl_plugin.cli.look.job_arguments import count
from slurm_rl_plugin.cli.tables import print_json, print_table
from slurm_rl_plugin.configuration import SHIPPED_MODEL
from slurm_rl_plugin.hook.order.order_changes import order_changes
from slurm_rl_plugin.hook.rails.guard_rails import total_priority

#: Jobs that have ended before the first decision of a policy that learns from runs.
PAST_RUNS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=["hook", "simulator"])
    parser.add_argument("--jobs", type=count, default=10_000, help="pending, or simulated, jobs")
    parser.add_argument("--policy", default=SHIPPED_MODEL, metavar="NAME|MODEL")
    parser.add_argument("--repeats", type=count, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Measure and print."""
    document = _hook(options) if options.what == "hook" else _simulator(options)
    if options.json:
        print_json(document)
    else:
        rows = [[key, value] for key, value in _flat(document).items()]
        print_table(["MEASURE", "VALUE"], rows)
    return 0


def _flat(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = f"{value:.6f}" if isinstance(value, float) else value
    return flat


def _seconds(work: Callable[[], Any], repeats: int) -> list[float]:
    work()  # caches and lazy imports are warm from here on
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return times


def _hook(options: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(options.seed)
    loaded = load_policy(options.policy)
    policy = loaded.policy
    snapshot_times = _seconds(lambda: random_snapshot(options.jobs, rng), 3)
    snapshot = random_snapshot(options.jobs, rng)
    past = (
        replace(snapshot, ended=past_runs(PAST_RUNS, rng)) if loaded.learns_from_runs else snapshot
    )
    begin = time.perf_counter()
    first = policy.decide(past)
    first_seconds = time.perf_counter() - begin
    scores = first.scores
    decide = _seconds(
        lambda: np.argsort(-policy.decide(snapshot, first.memory).scores, kind="stable"),
        options.repeats,
    )
    priority = total_priority(snapshot.pending)[np.argsort(-scores, kind="stable")]
    order = _seconds(lambda: order_changes(priority), 5)
    writes = len(order_changes(priority).place)
    return {
        "jobs": options.jobs,
        "snapshot_seconds": float(np.median(snapshot_times)),
        "first_decide_seconds": first_seconds,
        "decide_seconds": {
            "median": float(np.median(decide)),
            "p99": float(np.quantile(decide, 0.99)),
        },
        "order_seconds": float(np.median(order)),
        "writes": writes,
        "minimum_writes": writes,
    }


def _simulator(options: argparse.Namespace) -> dict[str, Any]:
    from slurm_rl_plugin.learning.evaluation.paired import (  # noqa: PLC0415 - needs the extra
        Candidate,
        starts_under,
    )
    from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings  # noqa: PLC0415
    from slurm_rl_plugin.simulator.workloads.generators import generated_log  # noqa: PLC0415
    from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log  # noqa: PLC0415

    prepared = prepare_log(generated_log(f"mmn:jobs={options.jobs},seed={options.seed}"))
    workload = prepared.workload(None)
    document: dict[str, Any] = {"jobs": options.jobs, "jobs_per_second": {}}
    for backfilling in ("none", "easy"):
        settings = SimulationSettings(capacity=prepared.capacity, backfilling=backfilling)
        candidates = [Candidate(name="fifo"), Candidate(name="sjf")]
        model = model_path(options.policy)
        if model.exists():
            from slurm_rl_plugin.learning.export.model import import_model  # noqa: PLC0415

            network = import_model(model)
            candidates.append(Candidate(name="model", network=network))
        for each in candidates:
            taken = _seconds(
                lambda each=each, settings=settings: starts_under(  # type: ignore[misc]
                    each, prepared, workload, settings
                ),
                5,
            )
            name = f"{each.name} {backfilling}"
            document["jobs_per_second"][name] = options.jobs / float(np.median(taken))
    return document
