"""The simulator on whole logs, jobs a second.

Logs come from SLURM_RL_TRACES where it is set, and are generated elsewhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.network import (
    QNetwork,
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_scores,
)
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    prepare_log,
)
from tests.bench.speed.figures.figure import LOGS


def logs() -> Iterator[tuple[str, PreparedLog]]:
    """Real logs where they are, otherwise a generated parallel load."""
    folder = os.environ.get("SLURM_RL_TRACES")
    for name, file in LOGS.items():
        if folder and Path(folder, file).exists():
            yield name, prepare_log(read_log(Path(folder, file))[0])
    if not folder:
        rng = np.random.default_rng(1)
        log = egee_log(rng, jobs=50_000, processors=128, load=0.2)
        wide = 2 ** rng.integers(0, 4, len(log))
        yield "generated", prepare_log(replace(log, processors=wide))


def workload_of(prepared: PreparedLog) -> Workload:
    from slurm_rl_plugin.features.estimates import RequestedLimit  # noqa: PLC0415

    return prepared.workload(RequestedLimit())


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Median duration after a first run that compiles."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def scores_of(name: str, prepared: PreparedLog, workload: Workload) -> np.ndarray:
    return np.asarray(STATIC_RULES[name](prepared.jobs(), workload.estimate), dtype=np.float64)


def network(hidden: int, *, past_runs: bool = False) -> QNetwork:
    """A scorer of random weights; those of past runs are 0 unless asked for."""
    parameters = np.random.default_rng(1).normal(size=parameter_count(SITE, hidden)) * 0.1
    parameters[-len(SITE.jobs) + SITE.jobs.index("log_time_limit")] = -1.0
    scorer = network_from_parameters(SITE, parameters, hidden=hidden, scaler=fixed_scaler(SITE))
    if past_runs:
        return scorer
    job_weights, linear = scorer.job_weights.copy(), scorer.linear.copy()
    first = len(SITE.jobs) - len(SITE.history_jobs)
    job_weights[first:], linear[first:] = 0.0, 0.0
    return replace(scorer, job_weights=job_weights, linear=linear)


def on_whole_logs(prepared: PreparedLog) -> dict[str, float]:
    """Jobs a second on the whole log under EASY."""
    workload = workload_of(prepared)
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
    jobs = len(workload.submit)
    rates = {}
    for policy in ("fifo", "saf"):
        scores = scores_of(policy, prepared, workload)
        rates[policy] = jobs / seconds(lambda s=scores: simulate_scores(workload, s, settings))
    scorers = {
        "linear scorer": network(0),
        "16 hidden units": network(16),
        "16 hidden units, past runs": network(16, past_runs=True),
    }
    for name, scorer in scorers.items():
        rates[name] = jobs / seconds(lambda n=scorer: simulate_network(workload, n, settings))
    return rates


def events_alone(prepared: PreparedLog) -> float:
    """Jobs a second where the machine is so large that every job starts as it comes."""
    workload = workload_of(prepared)
    endless = SimulationSettings(capacity=int(workload.processors.sum()), backfilling="easy")
    come = -workload.submit
    return len(come) / seconds(lambda: simulate_scores(workload, come, endless))
