"""The 2008 paper, "Utility-based Reinforcement Learning for Reactive Grids", run again.

The network is trained by SARSA on generated logs of seeds 1000 and above and measured on seeds 0
to N - 1, beside FIFO and rules that need no learning, all on the same logs. The log of the LAL site
is not public; segments of LPC-EGEE stand in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, candidate_of_model, evaluate
from slurm_rl_plugin.learning.load_windows import log_window
from slurm_rl_plugin.learning.sarsa import PAPER, SarsaSettings
from slurm_rl_plugin.papers.reactive_grids_2008.claims import (
    LITERAL,
    MEASURED_SEGMENTS,
    PRINTED,
    Curves,
    curve_tasks,
    learning_curves,
    rows_of_calibration,
    rows_of_holding,
    rows_of_literal_reward,
    rows_of_segment,
    rows_of_shares,
    rows_of_table_1,
    rows_of_waits,
    segments_task,
)
from slurm_rl_plugin.papers.reactive_grids_2008.load import (
    DECLARED,
    DROP,
    FEASIBLE,
    FRACTIONS,
    INFEASIBLE,
    NATIVE,
    RL,
    TRAINING_SEED,
    contenders,
    generated,
    learning_task,
    medians_of,
)
from slurm_rl_plugin.papers.reactive_grids_2008.on_line import (
    OnLine,
    learn_on_line,
    on_line_steps,
    rows_on_line,
)
from slurm_rl_plugin.papers.study.claims import Claim, Report, Row, TextTable
from slurm_rl_plugin.papers.study.logs import (
    LOGS,
    PROCESSORS_OF_2011,
    PROCESSORS_OF_LPC,
    SEGMENT_DROP,
    archived_log,
    prepared_segments,
    read_lpc,
)
from slurm_rl_plugin.papers.study.result_store import LearningTask, ResultStore
from slurm_rl_plugin.papers.study.study import Effort, Plan
from slurm_rl_plugin.papers.study.trials import Contender, PairedTrial, run_trial
from slurm_rl_plugin.policies.network import QNetwork
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
    """LPC-D on the 81 processors of 2011, or its first jobs."""
    where = "where it is jobs 190257 to 199831 of LPC-EGEE"
    log = read_log(archived_log(traces, LPC_D, where))[0]
    jobs = effort.jobs_of(len(log))
    return prepare_log(log.select(np.arange(jobs)), capacity=PROCESSORS_OF_2011)


def loads_of(traces: Path | None, effort: Effort) -> Iterator[tuple[str, PreparedLog, str]]:
    """Name, log and backfilling of each load; without traces the generated one alone."""
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


#: Fraction of interactive jobs where the paper shows but one.
SHOWN = 0.2
#: Files of the networks that show what fails.
_FILES = {LITERAL: "literal-reward", PRINTED: "all-as-printed"}
#: Processors -> what the native starts are worth beside simulated ones, for the verdicts.
_MACHINES = {
    PROCESSORS_OF_2011: "the native starts were made on LPC's 140 processors, the others on 81",
    PROCESSORS_OF_LPC: "LPC's own machine of 140 processors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveGrids:
    """Claims, and what they rest on.

    Attributes:
        claims: of every table, figure and sentence.
        feasible: p -> policies on the generated load.
        infeasible: the same logs with p = .2 and targets that the work cannot meet.
        segments: segment and processors -> policies on LPC-EGEE; empty without traces.
        literal, printed, learned: networks of the reward as printed, of all settings as printed,
            and of the difference reward.
        on_line: the experiment as the paper ran it.
    """

    claims: list[Claim]
    feasible: Mapping[float, PairedTrial]
    infeasible: PairedTrial
    segments: Mapping[tuple[int, int], PairedTrial]
    literal: QNetwork
    printed: QNetwork
    learned: QNetwork
    curves: Curves
    on_line: OnLine


def steps(plan: Plan) -> int:
    """Simulated logs and sweeps, for a progress bar."""
    effort, on_lpc = plan.effort, plan.traces is not None
    networks = 0 if plan.network else len(FRACTIONS) + 1 + on_lpc
    curves = sum(task.steps for tasks in curve_tasks(effort).values() for task in tasks)
    segments = len(MEASURED_SEGMENTS) * len(_MACHINES) * on_lpc
    logs = (len(FRACTIONS) + 1) * plan.seeds + segments + on_line_steps(plan)
    return logs + (networks + 2) * effort.sweeps + curves


def reproduce(plan: Plan, store: ResultStore, after_log: Callable[[], None]) -> ReactiveGrids:
    """Train, simulate and judge.

    Args:
        store: of trained networks.
        after_log: called after each simulated log.
    """
    log = None if plan.traces is None else read_lpc(plan.traces)  # may fail: before the trainings
    return _Reproduction(plan, store, after_log).run(log)


class _Reproduction:
    def __init__(self, plan: Plan, store: ResultStore, after_log: Callable[[], None]) -> None:
        self._plan, self._store, self._after_log = plan, store, after_log

    def run(self, log: JobLog | None) -> ReactiveGrids:
        literal = self._literal(LITERAL, SarsaSettings(reward="literal", keep="last"))
        printed = self._literal(PRINTED, PAPER)
        as_printed = {LITERAL: literal, PRINTED: printed}
        learned = {p: self._network(self._task("reactive-grids", p)) for p in FRACTIONS}
        feasible = {p: self._feasible(p, learned[p], as_printed) for p in FRACTIONS}
        infeasible = self._infeasible()
        segments = {} if log is None else self._segments(log)
        curves = learning_curves(self._plan.effort, self._store)
        on_line = learn_on_line(self._plan, log, self._store, self._after_log)
        rows = [
            *rows_of_table_1(),
            *(row for p in FRACTIONS for row in rows_of_waits(p, feasible[p])),
            *(row for p in FRACTIONS for row in rows_of_holding(p, feasible[p])),
            *rows_of_shares(feasible[SHOWN], infeasible),
            *_rows_of_segments(segments),
            *rows_of_literal_reward(feasible[SHOWN], {**as_printed, RL: learned[SHOWN]}),
            *rows_of_calibration(curves),
            *rows_on_line(on_line),
        ]
        return ReactiveGrids(
            claims=DECLARED.claims(rows),
            feasible=feasible,
            infeasible=infeasible,
            segments=segments,
            literal=literal,
            printed=printed,
            learned=learned[SHOWN],
            curves=curves,
            on_line=on_line,
        )

    def _task(
        self, name: str, interactive: float, shares: Mapping[str, float] = FEASIBLE
    ) -> LearningTask:
        return learning_task(name, interactive, self._plan.effort, SarsaSettings(), shares=shares)

    def _literal(self, name: str, settings: SarsaSettings) -> QNetwork:
        task = learning_task(_FILES[name], SHOWN, self._plan.effort, settings)
        return self._store.network(task).q_network

    def _network(self, task: LearningTask) -> QNetwork:
        return self._plan.network or self._store.network(task).q_network

    def _contenders(
        self, interactive: float, network: QNetwork, shares: Mapping[str, float]
    ) -> dict[str, Contender]:
        [training_log] = generated(interactive, [TRAINING_SEED], self._plan.effort, shares)
        return contenders(network, medians_of(training_log))

    def _feasible(
        self, interactive: float, learned: QNetwork, as_printed: Mapping[str, QNetwork]
    ) -> PairedTrial:
        logs = generated(interactive, range(self._plan.seeds), self._plan.effort, FEASIBLE)
        policies = self._contenders(interactive, learned, FEASIBLE)
        if interactive == SHOWN:
            policies |= {name: Contender(network=each) for name, each in as_printed.items()}
        return run_trial(logs, policies, self._plan.effort.drop_of(DROP), self._after_log)

    def _infeasible(self) -> PairedTrial:
        network = self._network(self._task("infeasible", SHOWN, INFEASIBLE))
        logs = generated(SHOWN, range(self._plan.seeds), self._plan.effort, INFEASIBLE)
        policies = self._contenders(SHOWN, network, INFEASIBLE)
        return run_trial(logs, policies, self._plan.effort.drop_of(DROP), self._after_log)

    def _segments(self, log: JobLog) -> dict[tuple[int, int], PairedTrial]:
        effort = self._plan.effort
        network = self._network(segments_task(log, effort, SarsaSettings()))
        before = {number: number - 1 for number in MEASURED_SEGMENTS}
        found = {}
        for capacity in _MACHINES:
            logs = prepared_segments(log, MEASURED_SEGMENTS, capacity, effort.jobs)
            earlier = prepared_segments(log, before.values(), capacity)
            for number, prepared in logs.items():
                medians = medians_of(earlier[before[number]])
                policies = {
                    NATIVE: Contender(rule="native"),
                    **contenders(network, medians),
                }
                drop = effort.drop_of(SEGMENT_DROP)
                found[number, capacity] = run_trial([prepared], policies, drop, self._after_log)
        return found


def _rows_of_segments(
    segments: Mapping[tuple[int, int], PairedTrial],
) -> Iterator[Row]:
    for (number, capacity), trial in segments.items():
        group = f"LPC-EGEE segment {number}, {capacity} processors"
        yield from rows_of_segment(group, trial, _MACHINES[capacity])
