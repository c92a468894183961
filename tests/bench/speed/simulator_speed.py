"""`make bench`: the simulator against the readable reference, and on whole logs.

Ratios are taken in one run, on the same jobs; single absolute figures say little on a busy
machine. Logs come from SLURM_RL_TRACES where it is set, and are generated elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
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
    select_prepared,
)
from tests.bench.speed.figures.figure import LOGS
from tests.reference.loads import jobs_of
from tests.reference.readable_simulator import rule, simulate

#: The readable reference looks at every job again at every event: it gets the first jobs only.
REFERENCE_JOBS = 1500


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


def against_the_reference(prepared: PreparedLog) -> dict[str, float]:
    """How many times faster than the readable reference, on the log's first jobs."""
    part = select_prepared(prepared, np.arange(min(REFERENCE_JOBS, len(prepared.log))))
    workload = workload_of(part)
    ratios = {}
    for policy, backfilling in (("fifo", "none"), ("saf", "easy")):
        settings = SimulationSettings(capacity=part.capacity, backfilling=backfilling)
        scores = scores_of(policy, part, workload)
        ours = seconds(lambda s=scores, h=settings: simulate_scores(workload, s, h), 5)
        begin = time.perf_counter()
        theirs = simulate(
            jobs_of(workload), part.capacity, rule(policy), easy=backfilling == "easy"
        )
        taken = time.perf_counter() - begin
        assert theirs == simulate_scores(workload, scores, settings).start.tolist()
        ratios[f"{policy} {backfilling}"] = taken / ours
        ratios[f"{policy} {backfilling}, reference jobs/s"] = len(theirs) / taken
    return ratios


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


_MILLION = """
import json, resource, sys, time
import numpy as np
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
prepared = prepare_log(mmn_log(np.random.default_rng(1), jobs=int(sys.argv[1]), load=.9))
workload = prepared.workload(None)
begin = time.perf_counter()
simulate_scores(workload, -workload.submit, SimulationSettings(capacity=50, backfilling="easy"))
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "bytes": peak}))
"""


def in_a_process(jobs: int, cache: str) -> dict[str, float]:
    """Seconds of the first simulation and peak memory of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _MILLION, str(jobs)],
        env={**os.environ, "NUMBA_CACHE_DIR": cache, "SLURM_RL_COMPILED": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    report: dict[str, object] = {}
    for name, prepared in logs():
        ratios, rates = against_the_reference(prepared), on_whole_logs(prepared)
        report[name] = {"times faster than the reference": ratios, "jobs per second": rates}
        print(f"{name}, first {REFERENCE_JOBS} jobs against the readable reference:")
        for what, value in ratios.items():
            print(f"  {what:32s} {value:12,.0f}")
        print(f"{name}, whole log under EASY, jobs a second:")
        for what, value in rates.items():
            print(f"  {what:32s} {value:12,.0f}")
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = in_a_process(1000, cache), in_a_process(1000, cache)
        million = in_a_process(1_000_000, cache)
    report["compile_seconds"] = {"empty cache": cold["seconds"], "cached": warm["seconds"]}
    report["million_jobs"] = million
    print(f"first simulation: {cold['seconds']:.1f} s compiling, {warm['seconds']:.2f} s cached")
    print(f"1,000,000 jobs: {million['seconds']:.1f} s, {million['bytes'] / 2**20:.0f} MiB at most")
    (folder / "simulator-speed.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
