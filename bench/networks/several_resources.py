"""Weights of a job's resources, searched on logs that are put on drawn nodes with memory and GPUs.

    python -m bench.networks.several_resources LOG... -o MODEL.onnx

The search starts from the shipped model and sees the first 60 % of each log, on machines drawn for
it; three quarters of that train, the last quarter chooses among its steps, the model as it ships
among them. What it found is then judged on the last 40 %, on other machines, in one run through
each log, behind the shipped model's protection.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.networks.hidden_part import network_of
from bench.networks.replayed_orders import over
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.features.site import RESOURCE_FEATURES, SCARCE_SHARE, SITE
from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    ContinuousRun,
    Replayed,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.heldout import HeldoutProtocol
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.export.network import export_network
from slurm_rl_plugin.learning.heldout_training import heldout_loads
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.learning.policy_search.search import search_policy
from slurm_rl_plugin.learning.policy_search.settings import SLOWDOWN
from slurm_rl_plugin.learning.trained_policy import TrainedPolicy
from slurm_rl_plugin.policies.network import QNetwork, with_resources
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.drawn_nodes import on_drawn_nodes
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

#: Windows of each log and machine: shorter and fewer than those of one log, since machines differ.
TRAINING = HeldoutProtocol(windows=8, warm_up=500, further=256)
VALIDATION = HeldoutProtocol(windows=4)
#: Machines that judge are drawn by numbers from here on.
OTHERS = 1000
LEARNED, RULES = "learned", ("fifo", "saf", "least-share")


def drawn_logs(paths: Sequence[Path], machines: int, first: int, most: int) -> list[PreparedLog]:
    """Each log, its first `most` jobs, on so many machines."""
    found = []
    for path in paths:
        log = read_log(path)[0]
        log = log.select(np.arange(min(len(log), most)))
        processors = log.processors_available or int(log.processors.max())
        for number in range(first, first + machines):
            drawn = on_drawn_nodes(log, processors, np.random.default_rng((number, len(found))))
            found.append(prepare_log(drawn.log, machine=drawn.machine))
    return found


def searched(logs: Sequence[PreparedLog], options: argparse.Namespace) -> TrainedPolicy:
    """The search from the shipped model on, on the first 60 % of each log."""
    shipped = network_of(SHIPPED_MODEL)
    loads = heldout_loads(logs, options.seed, training=TRAINING, validation=VALIDATION)
    settings = replace(
        SLOWDOWN,
        resources=True,
        searched=options.searched,
        generations=options.generations,
        seed=options.seed,
    )
    with progress_bar("search", settings.generations, "objective") as progress:
        return search_policy(
            loads.training,
            loads.validation,
            settings,
            prediction=shipped.prediction,
            start=shipped,
            progress=progress,
        )


def judged(network: QNetwork, logs: Sequence[PreparedLog], runs: int) -> dict[str, object]:
    """The last 40 % of each log under the network, the shipped model and rules."""
    shipped = network_of(SHIPPED_MODEL)
    candidates = [Candidate(name=name) for name in RULES]
    candidates.append(Candidate(name=SHIPPED_MODEL, network=shipped))
    candidates.append(Candidate(name=LEARNED, network=network))
    replayed = [Replayed(name=each.name, candidate=each) for each in candidates]
    found: list[dict[str, list[ContinuousRun]]] = []
    for log in logs:
        settings = SimulationSettings(capacity=log.capacity, backfilling="easy")
        known = class_known_at_submission(log)
        protocol = ContinuousProtocol(runs=runs)
        found.append(replay_continuously(replayed, known, settings, protocol))
    compared = {base: over(found, LEARNED, base, "fifo") for base in (SHIPPED_MODEL, *RULES)}
    alone = [over([each], LEARNED, SHIPPED_MODEL, "fifo")["slowdown"] for each in found]
    rules = {name: over(found, SHIPPED_MODEL, name, "fifo") for name in RULES}
    return {"learned_over": compared, "each_load_over_shipped": alone, "shipped_over": rules}


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, judge, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL.onnx")
    parser.add_argument("--searched", choices=["resources", "linear"], default="resources")
    parser.add_argument("--machines", type=int, default=4, help="of each log")
    parser.add_argument("--jobs", type=int, default=60_000, help="of each log, at most")
    parser.add_argument("--generations", type=int, default=20)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    trained = searched(drawn_logs(options.logs, options.machines, 0, options.jobs), options)
    assert isinstance(trained.network, QNetwork)
    shipped = network_of(SHIPPED_MODEL)
    network = replace(with_resources(trained.network), protection=shipped.protection)
    export_network(network, options.output, {"algorithm": "policy-search"})
    names = (*RESOURCE_FEATURES, SCARCE_SHARE)
    told = {
        "weights": {name: float(network.linear[SITE.jobs.index(name)]) for name in names},
        "curve": [list(each) for each in trained.curve],
        "simulated_jobs": trained.simulated_jobs,
        **judged(
            network,
            drawn_logs(options.logs, options.machines, OTHERS, options.jobs),
            options.runs,
        ),
    }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
