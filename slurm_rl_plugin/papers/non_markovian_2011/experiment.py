"""The 2011 paper, "Non-Markovian Reinforcement Learning for Reactive Grid scheduling", run again.

Fitted Q iteration with a feed-forward and with an echo state network, run times known (ORA) or the
median of their class (EST), trained on generated logs of seeds 1000 and above and measured on seeds
0 to N - 1 and on segments of LPC-EGEE, which stand in for the log of the LAL site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.papers.non_markovian_2011.claims import (
    AS_PRINTED,
    DECLARED,
    FORGETFUL,
    LEARNED,
    LOADS,
    contenders,
    generated,
    learn,
    rows_of_sentences,
    rows_of_table_1,
    rows_of_tables,
    rows_on_native,
    training_logs,
)
from slurm_rl_plugin.papers.reactive_grids_2008.experiment import crowded_segment
from slurm_rl_plugin.papers.reactive_grids_2008.load import medians_of
from slurm_rl_plugin.papers.study.claims import Claim, Report, TextTable
from slurm_rl_plugin.papers.study.logs import (
    PROCESSORS_OF_2011,
    PROCESSORS_OF_LPC,
    SEGMENT_DROP,
    prepared_segments,
    read_lpc,
)
from slurm_rl_plugin.papers.study.result_store import LearnedNetwork, ResultStore
from slurm_rl_plugin.papers.study.study import Plan
from slurm_rl_plugin.papers.study.trials import (
    Contender,
    PairedTrial,
    measures_of,
    run_trial,
    with_averages,
)
from slurm_rl_plugin.simulator.workloads.recorded_runs import quantiles_at_start
from slurm_rl_plugin.units import BoolArray, FloatArray

_SHIPPED = ("reactive-grids", "non-markovian")
_RULES = {"FIFO": "fifo", "SJF": "sjf", "min(run + wait)": "min-run-wait"}
#: Place of the quantile that is the prediction.
_MEDIAN = PARTS.index(0.5)

#: Policy -> estimate -> J, mean over the policy's learners.
EstimateFigures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predicted:
    """Run times of one log's jobs as they were predicted, seconds, shape [n]."""

    seconds: FloatArray
    kind: str = "prediction"

    def estimate(self, time_limit: FloatArray, interactive: BoolArray) -> FloatArray:
        """The prediction of each job, seconds, shape [n]."""
        del time_limit, interactive
        return self.seconds


def estimate_figures(
    plan: Plan,
    learned: Mapping[str, Sequence[LearnedNetwork]],
    shipped: Callable[[str], Path],
    medians: ClassMedian,
) -> EstimateFigures:
    """J of rules, learned networks and shipped models under every estimate.

    Args:
        learned: name -> its networks, one a learner.
    """
    if plan.traces is None:
        return {}
    prepared = crowded_segment(plan.traces, plan.effort)
    predicted = np.maximum(quantiles_at_start(prepared)[:, _MEDIAN], 1.0)
    estimates: dict[str, RunTimeEstimate | None] = {
        "oracle": None,
        "EST": medians,
        "prediction": _Predicted(seconds=predicted),
        "limits": RequestedLimit(),
    }
    networks = {**learned}
    networks |= {f"shipped {name}": [import_model(shipped(name))] for name in _SHIPPED}

    def figures(rule: str, nets: Sequence[LearnedNetwork | None]) -> dict[str, float]:
        return {
            name: float(
                np.mean(
                    [
                        measures_of(
                            Contender(rule=rule, network=each, estimates=kind).schedule(prepared),
                            (0, 0),
                        )["J"]
                        for each in nets
                    ]
                )
            )
            for name, kind in estimates.items()
        }

    rules = {name: figures(rule, [None]) for name, rule in _RULES.items()}
    return rules | {name: figures("", nets) for name, nets in networks.items()}


def estimate_report(found: EstimateFigures) -> Report:
    """A row for each policy, a column for each estimate."""
    if not found:
        return []
    columns = list(next(iter(found.values())))
    rows = [[name, *(f"{each[kind]:.3f}" for kind in columns)] for name, each in found.items()]
    title = "\nJ = U/2 + F/2 on LPC-D, 81 processors, by what is believed of run times:"
    return [title, TextTable(["POLICY", *(kind.upper() for kind in columns)], rows)]


MEASURED_SEGMENTS = (17, 18, 19)
#: Segment before them, from which a site would know the medians.
_EARLIER = 16
#: The first and last jobs are not counted (2011, section 4.1).
_DROP = (500, 500)
_CAPACITIES = (PROCESSORS_OF_2011, PROCESSORS_OF_LPC)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonMarkovian:
    """Claims, and the trials that they rest on.

    Attributes:
        claims: of every table, figure and sentence.
        generated: name of a generated load -> policies on it.
        segments: processors -> policies on the segments of LPC-EGEE; empty without traces.
        estimates: J of each policy under each estimate on LPC-D; empty without traces.
    """

    claims: list[Claim]
    generated: Mapping[str, PairedTrial]
    segments: Mapping[int, PairedTrial]
    estimates: EstimateFigures


def steps(plan: Plan) -> int:
    """Simulated logs and iterations of fitted Q, for a progress bar."""
    segments = len(MEASURED_SEGMENTS) * len(_CAPACITIES) * (plan.traces is not None)
    trainings = (len(LEARNED) + len(FORGETFUL)) * plan.effort.learners + len(AS_PRINTED)
    return len(LOADS) * plan.seeds + segments + trainings * plan.effort.iterations


def reproduce(
    plan: Plan,
    store: ResultStore,
    shipped: Callable[[str], Path],
    after_log: Callable[[], None],
) -> NonMarkovian:
    """Train, simulate and judge.

    Args:
        store: of trained networks.
        after_log: called after each simulated log.
    """
    log = None if plan.traces is None else read_lpc(plan.traces)  # may fail: before the trainings
    networks = learn(plan.effort, store)
    loads = {
        f"EGEE-like load {load}": _generated(plan, load, networks, after_log) for load in LOADS
    }
    segments = {} if log is None else _segments(plan, log, networks, after_log)
    groups = dict(loads)
    if segments:
        groups[_group(PROCESSORS_OF_2011)] = segments[PROCESSORS_OF_2011]
    rows = list(rows_of_table_1(generated(LOADS[0], range(plan.seeds), plan.effort)))
    for group, trial in groups.items():
        rows += [*rows_of_tables(group, trial), *rows_of_sentences(group, trial)]
    if segments:  # the native scheduler had its own machine: only there it is compared fairly
        machine = PROCESSORS_OF_LPC
        rows += rows_on_native(_group(machine), segments[machine])
    estimates: EstimateFigures = {}
    if log is not None and plan.traces is not None:
        past = prepared_segments(log, [_EARLIER], PROCESSORS_OF_2011)[_EARLIER]
        learned = {name: networks[name] for name in LEARNED}
        estimates = estimate_figures(plan, learned, shipped, medians_of(past))
    return NonMarkovian(
        claims=DECLARED.claims(rows),
        generated=loads,
        segments=segments,
        estimates=estimates,
    )


def _group(capacity: int) -> str:
    return f"LPC-EGEE segments 17 to 19, {capacity} processors"


def _generated(
    plan: Plan,
    load: float,
    networks: Mapping[str, Sequence[LearnedNetwork]],
    after_log: Callable[[], None],
) -> PairedTrial:
    medians = medians_of(*training_logs(plan.effort))
    trial = run_trial(
        generated(load, range(plan.seeds), plan.effort),
        contenders(networks, medians, native=False),
        plan.effort.drop_of(_DROP),
        after_log,
    )
    return with_averages(trial, networks)


def _segments(
    plan: Plan,
    log: JobLog,
    networks: Mapping[str, Sequence[LearnedNetwork]],
    after_log: Callable[[], None],
) -> dict[int, PairedTrial]:
    found = {}
    for capacity in _CAPACITIES:
        earlier = prepared_segments(log, [_EARLIER], capacity)[_EARLIER]
        logs = prepared_segments(log, MEASURED_SEGMENTS, capacity, plan.effort.jobs)
        policies = contenders(networks, medians_of(earlier), native=True)
        drop = plan.effort.drop_of(SEGMENT_DROP)
        found[capacity] = with_averages(
            run_trial(logs.values(), policies, drop, after_log), networks
        )
    return found
