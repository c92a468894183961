"""`slurm-rl demo`: the whole product on a simulated cluster, from logs to a live queue."""

from __future__ import annotations

import argparse
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.batch_systems.simulated import SimulatedCluster
from slurm_rl_plugin.cli.argument_types import add_seed_option, at_least_one, make_folder
from slurm_rl_plugin.cli.log_arguments import peak_processors
from slurm_rl_plugin.cli.progress import COMPILES_FIRST, progress_bar
from slurm_rl_plugin.cli.study_text import print_policies
from slurm_rl_plugin.cli.tables import answer
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from slurm_rl_plugin.evaluation.figures import draw_schedules
from slurm_rl_plugin.features.estimates import RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleSettings
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs, default_guard_rails
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.learning.policy_search import SITE_ORDER
from slurm_rl_plugin.learning.training import TrainingPlan, train_model
from slurm_rl_plugin.learning.training_load import TRAINING_FRACTION
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.services.hook import load_policy
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    prepare_log,
    select_prepared,
)
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise
from slurm_rl_plugin.whole_file import write_whole

#: A loaded site: half of the jobs are short, and 95 % of the processor time is used.
_LOAD = "mmn:interactive=.4,load=.99,processors=50,jobs=6000,seed={seed}"
_GENERATIONS = 25
#: Users of the bundled log requested at most this time, in seconds, for interactive jobs.
_CLUSTER_QUICK_LIMIT = 60.0
#: Seconds between cycles of the hook on the simulated cluster.
_CYCLE = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the demo writes, and how long it trains."""
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="folder for all files (default: demo-output)",
    )
    add_seed_option(parser)
    parser.add_argument(
        "--generations", type=at_least_one, default=_GENERATIONS, help="generations of the training"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Train, evaluate, run the daemon's cycle, and print a table and the written files."""

    def say(text: str) -> None:
        if not options.json:
            print(text)

    folder: Path = options.output
    make_folder("-o", folder)
    say("1. reading accounting logs")
    cluster_log = _bundled_log()
    # write the load as a file and read it, like a site's log
    text, path = _LOAD.format(seed=options.seed), folder / "mmn.swf"
    write_swf(path, generated_log(text), comments=[f"generated: {text}", "MaxProcs: 50"])
    load = prepare_log(read_log(path)[0], capacity=50)
    say(f"   real Slurm cluster: {len(cluster_log.log)} jobs; M/M/N load: {len(load.log)} jobs")
    say("2. training on the first 60 % of the M/M/N load")
    if not compiled_before():
        say(f"   {COMPILES_FIRST}")
    model = folder / "model.onnx"
    _train(load, model, options)
    say("3. evaluating on its last 40 %, and on the cluster's log, neither used in training")
    held_out = select_prepared(
        load, np.arange(int(len(load.log) * TRAINING_FRACTION), len(load.log))
    )
    schedules = _evaluate(held_out, model, load_q_network(model).estimates)
    say("4. running the hook on a simulated cluster: shadow, then active")
    port = _run_hook(held_out, model, folder, schedules, say)
    of_cluster = _evaluate(cluster_log, model, RequestedLimit())
    document = {
        "policies": {
            name: summarise(jobs, accounts=held_out.accounts) for name, jobs in schedules.items()
        },
        "cluster_log_policies": {
            name: summarise(jobs, accounts=cluster_log.accounts)
            for name, jobs in of_cluster.items()
        },
        "figures": [draw_schedules(folder, schedules)],
        "metrics_port": port,
    }
    return answer(options, document, lambda: _print_report(document, folder))


def _bundled_log() -> PreparedLog:
    bundled = resources.files("slurm_rl_plugin.cli.demo") / "logs" / "cluster-sacct.log"
    with resources.as_file(bundled) as path:
        log, _ = read_log(path)
    classifier = JobClassifier(
        (JobClassRule(job_class="interactive", time_limit_at_most=_CLUSTER_QUICK_LIMIT),)
    )
    capacity = peak_processors(log.start, log.run_time, log.processors)
    return prepare_log(log, capacity=capacity, classifier=classifier)


def _train(load: PreparedLog, model: Path, options: argparse.Namespace) -> None:
    source = {
        "log": "mmn.swf",
        "sha256": file_checksum(model.with_name("mmn.swf")),
        "jobs": len(load.log),
        "processors": load.capacity,
        "class_rule": load.class_rule,
    }
    plan = TrainingPlan(
        logs=[load],
        sources=[source],
        estimates=["class-median"],
        backfilling="none",
        runs=1,
        algorithm="policy-search",
        settings=replace(SITE_ORDER, generations=options.generations, seed=options.seed),
        command=f"slurm-rl demo --seed {options.seed}",
    )
    with progress_bar("   training", options.generations, "objective") as progress:
        train_model(plan, model, progress=progress)


def _evaluate(
    prepared: PreparedLog, model: Path, estimates: RunTimeEstimate
) -> dict[str, ScheduledJobs]:
    settings = SimulationSettings(capacity=prepared.capacity)
    workload = prepared.workload(estimates)
    candidates = [Candidate(name="fifo"), Candidate(name="sjf")]
    candidates.append(Candidate(name="model", network=import_model(model)))
    return {
        each.name: schedule_of(prepared, starts_under(each, prepared, workload, settings), settings)
        for each in candidates
    }


def _run_hook(
    prepared: PreparedLog,
    model: Path,
    folder: Path,
    schedules: dict[str, ScheduledJobs],
    say: Callable[[str], None],
) -> int:
    """Run the hook in both modes on the same jobs, into `schedules`; the port of its metrics."""
    loaded, registry = load_policy(str(model)), CollectorRegistry()
    metrics = CycleMetrics(registry, loaded.labels)
    port = serve_metrics(metrics, "127.0.0.1", 0)
    settings = SimulationSettings(capacity=prepared.capacity)
    for mode in ("shadow", "active"):
        cluster = SimulatedCluster(prepared, settings)
        audit = folder / f"audit-{mode}.jsonl"
        audit.unlink(missing_ok=True)
        cycle = Cycle(
            batch_system=cluster,
            policy=loaded.policy,
            model_sha256=loaded.sha256,
            settings=CycleSettings(shadow=mode == "shadow"),
            guard_rails=default_guard_rails(2 * DAY),
            untouched=UntouchedJobs(),
            state=StateFile(folder / "state.json"),
            audit=AuditLog(audit),
            monotonic=time.monotonic,
        )
        hours = 0.0
        with progress_bar(f"   {mode}", 1, "simulated_hours") as progress:
            while not cluster.finished:
                metrics.publish(cycle.run())
                cluster.advance(cluster.now + _CYCLE)
                hours += _CYCLE / HOUR
                progress(0, hours)
        schedules[f"hook {mode}"] = schedule_of(prepared, cluster.start, settings)
        say(f"   {mode}: audit in {audit}")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        write_whole(folder / "metrics.txt", answer.read().decode())
    return port


def _print_report(document: dict[str, Any], folder: Path) -> None:
    print("\nM/M/N load, last 40 % (waits in seconds):")
    print_policies(document["policies"])
    print("\nthe real cluster's log, replayed:")
    print_policies(document["cluster_log_policies"])
    print(f"\nall files are in {folder}/")
    meanings = {
        "model.onnx": "the model, with its manifest model.json and card model.md",
        "wait-cdf.png": "waits of both classes under each policy",
        "audit-active.jsonl": "every decision and write of the hook",
        "metrics.txt": "what /metrics served",
        "mmn.swf": "the load",
    }
    for name, meaning in meanings.items():
        print(f"  {name:20s} {meaning}")
