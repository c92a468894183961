"""`make bench`: speed of the simulator on processors and on nodes.

Logs are read from the folder SLURM_RL_TRACES if it is set, and drawn otherwise. Functions import
what an earlier release, which is measured too, may lack.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import BackfillSettings, Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.policies.network import (
    QNetwork,
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_scores,
)
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import DAY, HOUR
from tests.bench.speed.figures.measurements import LOGS, seconds_of

Values = dict[str, float]
POLICIES = ("fifo", "sjf", "multifactor", "default")
#: Node types of UB-HPC: names, count, CPUs, memory in MiB, GPUs, weight.
KINDS = (
    ("b[001-024]", 24, 40.0, 754_000.0, 0.0, 160),
    ("g[001-008]", 8, 40.0, 187_000.0, 2.0, 190),
    ("gn[001-002]", 2, 32.0, 187_000.0, 2.0, 190),
    ("m[001-096]", 96, 40.0, 187_000.0, 0.0, 70),
    ("n[001-087]", 87, 32.0, 187_000.0, 0.0, 60),
)
#: Jobs drawn for these nodes.
JOBS = 20_000


def static_order(policy: str, prepared: PreparedLog, workload: Workload) -> QueueOrder:
    scores = STATIC_RULES[policy](prepared.jobs(), workload.estimate)
    return QueueOrder(scores=np.asarray(scores, dtype=np.float64))


def random_network(hidden: int, *, past_runs: bool = False) -> QNetwork:
    """A scorer with random weights; weights of past runs are 0 unless asked for."""
    parameters = np.random.default_rng(1).normal(size=parameter_count(SITE, hidden)) * 0.1
    parameters[-len(SITE.jobs) + SITE.jobs.index("log_time_limit")] = -1.0
    scorer = network_from_parameters(SITE, parameters, hidden=hidden, scaler=fixed_scaler(SITE))
    if past_runs:
        return scorer
    job_weights, linear = scorer.job_weights.copy(), scorer.linear.copy()
    first = len(SITE.jobs) - len(SITE.history_jobs)
    job_weights[first:], linear[first:] = 0.0, 0.0
    return replace(scorer, job_weights=job_weights, linear=linear)


def whole_logs() -> Values:
    """Jobs per second on whole logs under EASY, and of events alone."""
    folder, logs = os.environ.get("SLURM_RL_TRACES"), dict[str, PreparedLog]()
    for name, file in LOGS.items():
        if folder and Path(folder, file).exists():
            logs[name] = prepare_log(read_log(Path(folder, file))[0])
    if not folder:
        rng = np.random.default_rng(1)
        log = egee_log(rng, jobs=50_000, processors=128, load=0.2)
        logs["generated"] = prepare_log(replace(log, processors=2 ** rng.integers(0, 4, len(log))))
    found = {}
    for name, prepared in logs.items():
        for what, seconds in _seconds_on(prepared):
            found[f"{name}, {what}"] = len(prepared.log) / seconds
    return found


def _seconds_on(prepared: PreparedLog) -> Iterator[tuple[str, float]]:
    workload = prepared.workload(RequestedLimit())

    def median(work: Callable[[], object]) -> float:
        work()  # compiles
        return seconds_of(work, 3, clock=time.perf_counter, of=np.median)

    # on such a machine every job starts when it arrives
    endless = SimulationSettings(capacity=int(workload.processors.sum()), backfilling="easy")
    yield "events alone", median(lambda: simulate_scores(workload, -workload.submit, endless))
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
    for policy in ("fifo", "saf"):
        scores = static_order(policy, prepared, workload).scores
        yield policy, median(lambda s=scores: simulate_scores(workload, s, settings))
    for name, scorer in (
        ("linear scorer", random_network(0)),
        ("16 hidden units", random_network(16)),
        ("16 hidden units, past runs", random_network(16, past_runs=True)),
    ):
        yield name, median(lambda n=scorer: simulate_network(workload, n, settings))


def drawn_machine() -> Machine:
    """217 nodes of five types, with the backfill settings of UB-HPC."""
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
    """Bursts of jobs that request CPUs, memory and GPUs; at times a thousand are pending."""
    rng = np.random.default_rng(1)
    log = egee_log(rng, jobs=jobs, processors=700, load=1.05)
    kind = rng.choice(5, size=jobs, p=(0.67, 0.12, 0.12, 0.07, 0.02))
    cpus = np.array([6, 1, 16, 40, 80])[kind]
    memory = np.array([32_000.0, 2000.0, 60_000.0, 120_000.0, 240_000.0])[kind]
    gpus = np.where(rng.random(jobs) < 0.01, 1.0, 0.0)
    requests = ResourceRequests.of_totals(
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
        requests=requests,
    )


def on_nodes() -> Values:
    """Jobs per second on nodes by policy and backfilling.

    The load is the week of UB-HPC if SLURM_RL_TRACES has `ubhpc`, else one drawn for its nodes.
    """
    week = Path(os.environ.get("SLURM_RL_TRACES", ""), "ubhpc", "workload_week.events.gz")
    if week.exists():
        machine = read_machine(week.with_name("slurm.conf"))
        prepared = prepare_log(read_log(week)[0], machine=machine)
    else:
        machine = drawn_machine()
        prepared = prepare_log(drawn_log(JOBS), machine=machine)
    workload, nodes, found = (
        prepared.workload(RequestedLimit()),
        node_machine(prepared.log, machine),
        {},
    )
    for policy in POLICIES:
        if policy in STATIC_RULES:
            order = static_order(policy, prepared, workload)
        elif policy == "multifactor":
            order = QueueOrder(site=site_priority(prepared, machine))
        else:
            order = QueueOrder(network=candidate_of(policy).network)
        for backfilling in ("easy", "slurm"):
            settings = SimulationSettings(capacity=prepared.capacity, backfilling=backfilling)

            def work(o: QueueOrder = order, s: SimulationSettings = settings) -> object:
                return simulate_on_nodes(workload, nodes, o, s)

            work()  # compiles
            seconds = seconds_of(work, 3)
            found[f"{policy}, {backfilling}"] = len(prepared.log) / seconds
    return found
