"""`make bench`: jobs a second on nodes of several kinds, under EASY and as slurmctld backfills.

The week of UB-HPC where SLURM_RL_TRACES names a folder with `ubhpc`, else a load drawn for the same
kinds of nodes; and the same jobs by their CPUs alone in the kernel of processors. In processor
seconds, so that a busy machine slows nothing down.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import BackfillSettings, Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.on_nodes import simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import DAY, HOUR

POLICIES = ("fifo", "sjf", "multifactor", "default")
#: The kinds of nodes of UB-HPC: how many, CPUs, memory in MiB, GPUs, weight.
KINDS = (
    ("b[001-024]", 24, 40.0, 754_000.0, 0.0, 160),
    ("g[001-008]", 8, 40.0, 187_000.0, 2.0, 190),
    ("gn[001-002]", 2, 32.0, 187_000.0, 2.0, 190),
    ("m[001-096]", 96, 40.0, 187_000.0, 0.0, 70),
    ("n[001-087]", 87, 32.0, 187_000.0, 0.0, 60),
)
JOBS = 20_000


def drawn_machine() -> Machine:
    """217 nodes of five kinds, looked at as UB-HPC's slurmctld does."""
    kinds = tuple(
        NodeKind(name=name, count=count, resources=(cpus, memory, gpus), weight=weight)
        for name, count, cpus, memory, gpus, weight in KINDS
    )
    partition = MachinePartition(name="", kinds=tuple(range(len(kinds))), is_default=True)
    settings = BackfillSettings(
        interval=120.0, window=3.0 * DAY, most_jobs=2500, most_of_user=100, depth=2500
    )
    return Machine(kinds=kinds, partitions=(partition,), backfill=settings)


def drawn_log(jobs: int) -> JobLog:
    """Bursts of jobs that ask for CPUs, memory and GPUs, so many that a thousand wait at times."""
    rng = np.random.default_rng(1)
    log = egee_log(rng, jobs=jobs, processors=700, load=1.05)
    kind = rng.choice(5, size=jobs, p=(0.67, 0.12, 0.12, 0.07, 0.02))
    cpus = np.array([6, 1, 16, 40, 80])[kind]
    memory = np.array([32_000.0, 2000.0, 60_000.0, 120_000.0, 240_000.0])[kind]
    gpus = np.where(rng.random(jobs) < 0.01, 1.0, 0.0)
    asked = ResourceRequests.of_totals(
        np.column_stack([cpus, memory, gpus]),
        names=BASIC_RESOURCES,
        nodes=np.where(kind == 4, 2, 1),
    )
    hours = np.ceil(log.run_time * rng.choice([1, 2, 8], jobs) / HOUR)
    limit = np.minimum(hours * HOUR, 3.0 * DAY)
    return replace(
        log,
        processors=cpus.astype(np.int64),
        time_limit=limit,
        run_time=np.minimum(log.run_time, limit),
        requests=asked,
    )


def load() -> tuple[str, PreparedLog]:
    """The week where it is, else jobs drawn."""
    folder = Path(os.environ.get("SLURM_RL_TRACES", ""), "ubhpc")
    week = folder / "workload_week.events.gz"
    if week.exists():
        machine = read_machine(folder / "slurm.conf")
        return "the week of UB-HPC", prepare_log(read_log(week)[0], machine=machine)
    return "jobs drawn for its nodes", prepare_log(drawn_log(JOBS), machine=drawn_machine())


def processor_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least of several after a first run that compiles."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def order_of(policy: str, prepared: PreparedLog, workload: Workload) -> QueueOrder:
    """As `evaluate --cluster` orders the queue."""
    if policy in STATIC_RULES:
        scores = STATIC_RULES[policy](prepared.jobs(), workload.estimate)
        return QueueOrder(scores=np.asarray(scores, dtype=np.float64))
    if policy == "multifactor" and prepared.machine is not None:
        return QueueOrder(site=site_priority(prepared, prepared.machine))
    return QueueOrder(network=candidate_of(policy).network)


def rates(prepared: PreparedLog) -> dict[str, float]:
    """Jobs a second by policy and backfilling; on processors alone for what they can order."""
    workload, found = prepared.workload(RequestedLimit()), {}
    assert prepared.machine is not None
    machine = node_machine(prepared.log, prepared.machine)
    for policy in POLICIES:
        order = order_of(policy, prepared, workload)
        for backfilling in ("easy", "slurm"):
            settings = SimulationSettings(capacity=prepared.capacity, backfilling=backfilling)
            taken = processor_seconds(
                lambda o=order, s=settings: simulate_on_nodes(workload, machine, o, s)
            )
            found[f"{policy}, {backfilling}"] = len(prepared.log) / taken
        if order.site is None:
            settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
            taken = processor_seconds(lambda o=order, s=settings: simulate_order(workload, o, s))
            found[f"{policy}, processors only"] = len(prepared.log) / taken
    return found
