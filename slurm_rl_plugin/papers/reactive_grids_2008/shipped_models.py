"""The models that come with the package on the papers' goal: J = U/2 + F/2, and waits within 2 min.

Three loads: a segment of LPC-EGEE on which 81 processors are crowded, a generated load of 2011, and
ten thousand jobs of a parallel machine behind the first 60 % of its log. Every model runs as it
does live: with the run times that it was trained to believe, with class medians or time limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, candidate_of_model, evaluate
from slurm_rl_plugin.learning.load_windows import log_window
from slurm_rl_plugin.papers.study.archived_logs import archived_log
from slurm_rl_plugin.papers.study.claim_tables import Report, TextTable
from slurm_rl_plugin.papers.study.effort import Effort
from slurm_rl_plugin.papers.study.lpc_segments import PROCESSORS_OF_2011
from slurm_rl_plugin.papers.study.parallel_machines import LOGS
from slurm_rl_plugin.policies.registry import SHIPPED_MODELS
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

#: The crowded segment, and the processors that it is simulated on.
LPC_D = "LPC-D_190257-199831"
#: Seed and load of the generated log.
_SEED, _LOAD = 9, 0.9
#: Jobs of SDSC-SP2: behind the first 60 %, on which models may have learned.
_FIRST, _JOBS = 36_000, 10_000
_RULES = ("fifo", "multifactor", "sjf")

#: Load -> policy -> J, and part of the interactive jobs that wait at most 120 s.
ShippedFigures = Mapping[str, Mapping[str, Mapping[str, float]]]


def crowded_segment(traces: Path, effort: Effort) -> PreparedLog:
    """LPC-D on the 81 processors of 2011, or its first jobs.

    Raises:
        ConfigurationError: the folder of traces lacks it.
        AccountingLogError: it cannot be read.
    """
    where = "where it is jobs 190257 to 199831 of LPC-EGEE"
    log = read_log(archived_log(traces, LPC_D, where))[0]
    jobs = effort.jobs_of(len(log))
    return prepare_log(log.select(np.arange(jobs)), capacity=PROCESSORS_OF_2011)


def loads_of(traces: Path | None, effort: Effort) -> Iterator[tuple[str, PreparedLog, str]]:
    """Name, log and backfilling of each load; without traces the generated one alone.

    Raises:
        ConfigurationError: the folder of traces lacks a log.
        AccountingLogError: one cannot be read.
    """
    jobs = effort.jobs_of(9500)
    log = egee_log(np.random.default_rng(_SEED), load=_LOAD, jobs=jobs)
    yield f"egee:load={_LOAD:g},seed={_SEED}", prepare_log(log, capacity=PROCESSORS_OF_2011), "none"
    if traces is not None:
        yield "LPC-D", crowded_segment(traces, effort), "none"
        machine = prepare_log(read_log(archived_log(traces, LOGS["SDSC-SP2"]))[0])
        yield "SDSC-SP2", log_window(machine, _FIRST, effort.jobs_of(_JOBS)), "easy"


def shipped_figures(
    traces: Path | None, effort: Effort, shipped: Callable[[str], Path]
) -> ShippedFigures:
    """Simulate rules and shipped models on every load.

    Args:
        traces: folder of LPC-D and SDSC-SP2; None for the generated load alone.
        effort: how many jobs.
        shipped: gives the file of a shipped model by its name.

    Raises:
        ConfigurationError: the folder of traces lacks a log.
        AccountingLogError: one cannot be read.
        PolicyError: a model cannot be used.
    """
    candidates = [Candidate(name=rule) for rule in _RULES]
    candidates += [candidate_of_model(name, shipped(name)) for name in SHIPPED_MODELS]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, prepared, backfilling in loads_of(traces, effort):
        settings = SimulationSettings(capacity=prepared.capacity, backfilling=backfilling)
        found[name] = {}
        for candidate in candidates:
            entry = evaluate(candidate, prepared, RequestedLimit(), settings)
            found[name][candidate.name] = {
                "J": entry["objective"],
                "within_120s": entry["classes"]["interactive"]["within_120s"],
            }
    return found


def shipped_report(found: ShippedFigures) -> Report:
    """A row for each policy, two columns for each load."""
    header = [f"{load}, {figure}" for load in found for figure in ("J", "<= 120 S")]
    rows = [
        [policy, *(f"{value:.3f}" for each in found.values() for value in each[policy].values())]
        for policy in next(iter(found.values()))
    ]
    title = "\nShipped models, J = U/2 + F/2 and interactive jobs within 120 s:"
    return [title, TextTable(["POLICY", *header], rows)]
