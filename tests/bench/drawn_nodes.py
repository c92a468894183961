"""Puts a log of processors alone on drawn nodes with memory and GPUs.

    python -m tests.bench.drawn_nodes LOG...

Submit times, run times, users and processors are the log's. Other requests are drawn for each
user and each kind of job of that user, since users repeat their requests. The command replays each
log under each policy on some such machines and prints ratios over the rules.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    ContinuousRun,
    Replayed,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.schedule_waits import RATIOS, median_ratios
from slurm_rl_plugin.learning.training_load import class_known_at_submission
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import FloatArray, IntArray

#: MiB of a node for each CPU, and factor of a large node.
_MEMORY, _LARGE = 4096.0, 4.0
#: CPUs of a node, and GPUs of a node with GPUs.
_CPUS, _GPUS = (8, 16, 32), (2, 4, 8)
#: Fewest nodes without GPUs.
_FEWEST = 4


def on_drawn_nodes(
    log: JobLog, processors: int, rng: np.random.Generator
) -> tuple[JobLog, Machine]:
    """The jobs of a log on nodes with as many CPUs as its machine, and on nodes with GPUs.

    The load of the resource with the largest load is 0.7 to 1.1.
    """
    sizes = [each for each in _CPUS if processors >= _FEWEST * each]
    cpus = int(rng.choice(sizes or [1]))
    gpus = int(rng.choice(_GPUS))
    template = _templates(log)
    asked_gpus = _gpus(log, template, gpus, rng)
    processors_asked = np.where(
        asked_gpus > 0, np.minimum(log.processors, cpus * asked_gpus / gpus), log.processors
    )
    processors_asked = np.maximum(np.ceil(processors_asked), 1.0)
    memory = _memory(template, processors_asked, asked_gpus, cpus, rng)
    nodes = np.maximum(np.ceil(processors_asked / cpus), np.ceil(memory / (_MEMORY * cpus)))
    nodes = np.where(asked_gpus > 0, 1.0, np.minimum(nodes, processors // cpus))
    total = np.column_stack([processors_asked, memory, asked_gpus])
    machine = _machine(total, log, processors, cpus, gpus, rng)
    requests = ResourceRequests.of_totals(total, nodes=nodes.astype(np.int64))
    spread = np.ones(len(log), dtype=np.bool_)
    drawn = replace(
        log,
        processors=processors_asked.astype(np.int64),
        partition=np.zeros(len(log), dtype=np.int64),
        partitions=("all",),
        requests=replace(requests, memory_per_cpu=spread),
    )
    busiest = float(_loads(total, log, machine.capacity).max())
    return scale_load(drawn, rng.uniform(0.7, 1.1) / busiest), machine


def _templates(log: JobLog) -> IntArray:
    """Number of each job's group: same user and same request, shape [n]."""
    limit = np.nan_to_num(log.time_limit, nan=-1.0)
    kinds = np.column_stack([log.user, log.processors, limit])
    return np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1)


def _gpus(log: JobLog, template: IntArray, most: int, rng: np.random.Generator) -> FloatArray:
    """GPUs of each job, at most those of a node, shape [n]; 0 for most users."""
    users = rng.random(int(log.user.max()) + 2) < rng.uniform(0.1, 0.4)
    kinds = int(template.max()) + 1
    count = np.minimum(2.0 ** rng.integers(0, 4, kinds), float(most))
    count[rng.random(kinds) < 0.3] = 0.0
    return np.where(users[log.user], count[template], 0.0)


def _memory(
    template: IntArray,
    processors: FloatArray,
    gpus: FloatArray,
    cpus: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Memory of each job, MiB: at most twice a node's for each CPU; with GPUs at most a node's."""
    typical, kinds = rng.uniform(0.2, 1.2) * _MEMORY, int(template.max()) + 1
    each = typical * np.exp(rng.normal(0.0, 0.8, kinds))[template]
    most = np.where(gpus > 0, _MEMORY * cpus / processors, 2.0 * _MEMORY)
    return np.floor(np.minimum(each, most) * processors)


def _loads(total: FloatArray, log: JobLog, capacity: FloatArray) -> FloatArray:
    """Load of each resource until the last submission."""
    span = max(float(log.submit[-1] - log.submit[0]), 1.0)
    loads: FloatArray = (log.run_time @ total) / (span * np.maximum(capacity, 1.0))
    return loads


def _machine(
    total: FloatArray, log: JobLog, processors: int, cpus: int, gpus: int, rng: np.random.Generator
) -> Machine:
    """Nodes without GPUs, some with more memory, and nodes with GPUs, which may be scarce."""
    plain = max(processors // cpus, 1)
    large = int(plain * rng.choice([0.0, 0.1, 0.25]))
    cpu_load, _, gpu_work = _loads(total, log, np.array([float(plain * cpus), 1.0, 1.0]))
    wanted = gpu_work / (gpus * max(cpu_load, 1e-9) * rng.uniform(0.6, 1.6))
    with_gpus = int(np.ceil(max(wanted, 1.0)))
    drawn = (
        NodeKind(name="c", count=plain - large, resources=(cpus, _MEMORY * cpus, 0.0)),
        NodeKind(name="m", count=large, resources=(cpus, _LARGE * _MEMORY * cpus, 0.0), weight=2),
        NodeKind(name="g", count=with_gpus, resources=(cpus, _MEMORY * cpus, gpus), weight=3),
    )
    kinds = tuple(each for each in drawn if each.count > 0)
    everywhere = MachinePartition(name="all", kinds=tuple(range(len(kinds))), is_default=True)
    return Machine(resources=BASIC_RESOURCES, kinds=kinds, partitions=(everywhere,))


def drawn_logs(paths: Sequence[Path], machines: int, jobs: int) -> list[PreparedLog]:
    """The first jobs of each log on `machines` machines, with classes known at submission."""
    found: list[PreparedLog] = []
    for path in paths:
        log = read_log(path)[0]
        log = log.select(np.arange(min(len(log), jobs)))
        processors = log.processors_available or int(log.processors.max())
        for _ in range(machines):
            rng = np.random.default_rng((1000, len(found)))
            drawn, machine = on_drawn_nodes(log, processors, rng)
            found.append(class_known_at_submission(prepare_log(drawn, machine=machine)))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Replays and prints one JSON document: geometric means over the machines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--policy", action="append", default=None)
    parser.add_argument("--machines", type=int, default=3, help="of each log")
    parser.add_argument("--jobs", type=int, default=15_000, help="of each log, at most")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args(arguments)
    policies = options.policy or ["default", "saf", "multifactor", "fifo"]
    protocol = ContinuousProtocol(runs=options.runs)
    replayed = [Replayed(name=name, candidate=candidate_of(name)) for name in policies]
    found: list[Mapping[str, Sequence[ContinuousRun]]] = []
    for number, log in enumerate(drawn_logs(options.logs, options.machines, options.jobs)):
        settings = SimulationSettings(capacity=log.capacity, backfilling="easy")
        found.append(replay_continuously(replayed, log, settings, protocol))
        print(f"machine {number + 1}", file=sys.stderr, flush=True)
    table = {base: {name: ratios(found, name, base) for name in policies} for base in policies}
    print(json.dumps(table, indent=2))


def ratios(
    machines: Sequence[Mapping[str, Sequence[ContinuousRun]]], name: str, base: str
) -> dict[str, float]:
    """Ratios of two policies: geometric means of the machines' medians."""
    each = [
        median_ratios([run.waits for run in runs[name]], [run.waits for run in runs[base]])
        for runs in machines
    ]
    return {
        figure: float(np.exp(np.mean(np.log([ratio[figure] or np.nan for ratio in each]))))
        for figure in RATIOS
    }


if __name__ == "__main__":
    main()
