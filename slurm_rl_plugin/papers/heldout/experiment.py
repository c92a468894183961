"""Whether a learned order beats the best simple rule on parts of logs that it has never seen.

For each log: networks trained on the past of the other logs, by policy search and by fitted Q;
fine-tuned on the past of this one, and with a part of the machine kept free of batch work; several
seeds each. The later 40 % of each log is looked at once, when everything has been chosen.
docs/definitions.md: held-out protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.learning.evaluation.heldout import (
    HEURISTICS,
    HeldoutProtocol,
    WindowFigures,
    best_heuristic,
    figures_of_windows,
    heuristics_on_training_part,
    training_and_test_windows,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.evaluation.paired_windows import overlapping_windows
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.papers.heldout.goals import (
    COLUMNS,
    FITTED,
    GOALS,
    HOLDING,
    LONGEST,
    MISDELIVERED,
    SHORT_GAIN,
    TAIL_SAFE,
    TO_BEST,
    TO_MULTIFACTOR,
    TUNED,
    UNSEARCHED,
    WITHOUT,
)
from slurm_rl_plugin.papers.heldout.networks import QUICK_STUDY, HeldoutTraining, StudySize
from slurm_rl_plugin.papers.heldout.seed_ratios import over_seeds, ratio_over_logs, ratio_over_seeds
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Measurement
from slurm_rl_plugin.papers.study.parallel_machines import StudyLog, read_study_logs
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked
from slurm_rl_plugin.papers.study.verdicts import bounded
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.workloads.log_shares import PAST_WORK
from slurm_rl_plugin.units import HOUR, FloatArray

MULTIFACTOR = "multifactor"
#: Fewer logs than this leave nothing to train on where one is left out.
FEWEST_LOGS = 2
#: Starvation bounds tried for the tail-safe setting, hours.
STARVATION_BOUNDS = (240.0, 168.0, 120.0, 96.0, 72.0, 48.0, 36.0, 24.0, 12.0, 6.0)
#: What the hook does to scores: label -> changes of the protocol.
EFFECTS: Mapping[str, Mapping[str, float]] = {
    "as it decides": {},
    **{f"influence {hours:g} h": {"influence": hours} for hours in (6.0, 24.0, 72.0, 168.0)},
    **{f"cycle {seconds:g} s": {"cycle": seconds} for seconds in (30.0, 60.0, 300.0)},
    **{f"scores {seconds:g} s old": {"refresh": seconds} for seconds in (30.0, 60.0, 300.0)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldoutPlan:
    """What is studied.

    Attributes:
        logs: name -> log.
        seeds: trainings of each kind.
        size: how much is trained.
    """

    logs: Mapping[str, StudyLog]
    seeds: int
    size: StudySize

    @classmethod
    def of(cls, asked: Asked) -> HeldoutPlan:
        """What is asked of a study on the logs of parallel machines.

        Raises:
            ConfigurationError: no logs, no seeds, or a network.
            AccountingLogError: a log cannot be read.
        """
        seeds = asked.number_of_seeds(fewest=1, why="give at least 1")
        no_traces = f"{asked.paper} needs logs: give the directory of the traces."
        traces = asked.traces_or_refuse(no_traces)
        asked.refuse_policy("it trains its networks itself")
        size = QUICK_STUDY if asked.quick else StudySize()
        return cls(logs=read_study_logs(traces, FEWEST_LOGS), seeds=seeds, size=size)

    @property
    def steps(self) -> int:
        """For the progress bar: generations and iterations of all trainings, one for each log."""
        size = self.size
        each = size.settings.generations + size.fitted.iterations + size.tuning
        return len(self.logs) * (self.seeds * each + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStudy:
    """What came out on one log.

    Attributes:
        best: the best rule of the training part.
        training_slowdown: of each rule there, geometric mean over windows.
        rules: rule -> figures on the test windows.
        learned: policy -> figures of each seed on the same windows.
        block: consecutive windows that depend on each other.
        reserves: part of the machine kept free, of each seed.
        starvation: bound of the tail-safe setting, hours.
        effects: what the hook does to scores -> figures of one fine-tuned network.
        shares: of each account, sum 1.
        shares_from: one of `log_shares.SHARES_WORDS`.
    """

    best: str
    training_slowdown: dict[str, float]
    rules: dict[str, WindowFigures]
    learned: dict[str, list[WindowFigures]]
    block: int
    reserves: list[float]
    starvation: float
    effects: dict[str, WindowFigures] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    shares_from: str = PAST_WORK


def study_log(name: str, plan: HeldoutPlan, store: ResultStore) -> LogStudy:
    """Train, choose on the past of a log, then measure on what came after.

    Args:
        name: of the log.
        plan: what is studied.
        store: keeps the networks.
    """
    networks: dict[str, list[QNetwork]] = {kind: [] for kind in (WITHOUT, FITTED, TUNED, HOLDING)}
    reserves, validated = [], []
    for seed in range(plan.seeds):
        training = HeldoutTraining(plan.logs, plan.size, seed, store)
        others = [each for each in plan.logs if each != name]
        without = training.pooled(others)
        tuned = training.fine_tuned(name, without)
        holding, part = training.holding(name, tuned.q_network)
        networks[WITHOUT].append(without.q_network)
        networks[FITTED].append(training.fitted(others).q_network)
        networks[TUNED].append(tuned.q_network)
        networks[HOLDING].append(holding)
        reserves.append(part)
        validated.append(max(value for _, _, value in tuned.curve))
        if seed == 0:
            networks[UNSEARCHED] = [training.start()]
    chosen = networks[TUNED][int(np.argmax(validated))]
    return _measured(plan.logs[name].prepared, networks, chosen, plan.size.test, reserves)


def _measured(
    log: Any,
    networks: Mapping[str, Sequence[QNetwork]],
    chosen: QNetwork,
    protocol: HeldoutProtocol,
    reserves: list[float],
) -> LogStudy:
    known = class_known_at_submission(log)
    training, test = training_and_test_windows(known, protocol)
    slowdown = heuristics_on_training_part(known, training, protocol)
    bound = _starvation_bound(chosen, known, training, protocol)
    rules, learned = figures_by_kind([*HEURISTICS, MULTIFACTOR], networks, known, test, protocol)
    one = [Candidate(name=TUNED, network=chosen)]

    def under(changes: Mapping[str, Any]) -> WindowFigures:
        return figures_of_windows(one, known, test, replace(protocol, **changes))[TUNED]

    learned[TAIL_SAFE] = [under({"starvation": bound * HOUR})]
    return LogStudy(
        best=best_heuristic(slowdown),
        training_slowdown=slowdown,
        rules=rules,
        learned=learned,
        block=overlapping_windows(test, protocol.jobs),
        reserves=reserves,
        starvation=bound,
        effects={label: under(changes) for label, changes in EFFECTS.items()},
        shares=dict(zip(known.accounts, known.shares.tolist(), strict=True)),
        shares_from=known.shares_from,
    )


def figures_by_kind(
    rules: Sequence[str],
    networks: Mapping[str, Sequence[QNetwork]],
    known: Any,
    firsts: Sequence[int],
    protocol: HeldoutProtocol,
) -> tuple[dict[str, WindowFigures], dict[str, list[WindowFigures]]]:
    """Rules and networks on the same windows: rule -> figures, and kind -> figures of each network.

    Args:
        rules: by name.
        networks: kind -> its networks.
        known: the log.
        firsts: first job of each window.
        protocol: how windows are run.
    """
    learned = [
        Candidate(name=f"{kind} {place}", network=network)
        for kind, each in networks.items()
        for place, network in enumerate(each)
    ]
    candidates = [*(Candidate(name=rule) for rule in rules), *learned]
    figures = figures_of_windows(candidates, known, firsts, protocol)
    return {rule: figures[rule] for rule in rules}, {
        kind: [figures[f"{kind} {place}"] for place in range(len(each))]
        for kind, each in networks.items()
    }


def _starvation_bound(
    network: QNetwork, known: Any, firsts: Sequence[int], protocol: HeldoutProtocol
) -> float:
    """The longest bound under which the training part has no longer waits than multifactor.

    The shortest of STARVATION_BOUNDS where none keeps that promise.
    """
    rule = [Candidate(name=MULTIFACTOR)]
    allowed = figures_of_windows(rule, known, firsts, protocol)[MULTIFACTOR].max_wait.mean()
    one = [Candidate(name=TUNED, network=network)]
    for bound in STARVATION_BOUNDS:
        safe = replace(protocol, starvation=bound * HOUR)
        if figures_of_windows(one, known, firsts, safe)[TUNED].max_wait.mean() <= allowed:
            return bound
    return STARVATION_BOUNDS[-1]


def figure_of(study: LogStudy, policy: str, column: str) -> Measurement:
    """Median over the seeds of a figure, its interval that of the mean over seeds by blocks.

    Args:
        study: of one log.
        policy: a kind of network, or a rule.
        column: one of COLUMNS.
    """
    figures = study.learned.get(policy) or [study.rules[policy]]
    rows = np.array([_per_window(study, each, column) for each in figures])
    found = ratio_over_seeds if column in (TO_BEST, TO_MULTIFACTOR) else over_seeds
    return found(rows, study.block)


def _per_window(study: LogStudy, figures: WindowFigures, column: str) -> FloatArray:
    """The figure of each window of which the mean is told; logarithms of ratios."""
    multifactor = study.rules[MULTIFACTOR]
    if column == TO_BEST:
        return np.log(figures.bounded_slowdown / study.rules[study.best].bounded_slowdown)
    if column == TO_MULTIFACTOR:
        return np.log(figures.bounded_slowdown / multifactor.bounded_slowdown)
    if column == SHORT_GAIN:
        gained = figures.short_within_120s - multifactor.short_within_120s
        return 100.0 * gained / np.maximum(figures.short_jobs.mean(), 1.0)
    if column == LONGEST:
        return figures.max_wait / multifactor.max_wait.mean()
    if column == MISDELIVERED:
        return figures.misdelivered
    raise KeyError(column)


def pooled_ratio(studies: Mapping[str, LogStudy], policy: str) -> Measurement:
    """Slowdown over the best rule's on all logs: geometric mean of the logs, blocks in each."""
    logs = []
    for study in studies.values():
        rows = np.array([_per_window(study, each, TO_BEST) for each in study.learned[policy]])
        logs.append((rows, study.block))
    return ratio_over_logs(logs)


def study_claims(studies: Mapping[str, LogStudy]) -> Iterator[Claim]:
    """Every goal with its verdict, then the figures without one, then all logs together."""
    for name, study in studies.items():
        goals = {(goal.policy, goal.column): goal for goal in GOALS.get(name, ())}
        rules = [study.best, *(rule for rule in study.rules if rule != study.best)]
        for policy in [*study.learned, *rules]:
            for column in COLUMNS:
                found = figure_of(study, policy, column)
                goal = goals.get((policy, column))
                cell = Cell(name, policy, column)
                if goal is None:
                    yield Claim(cell=cell, measured=found)
                else:
                    yield bounded(cell, found, goal.bound, least=goal.least, source="goal")
    for policy in (WITHOUT, FITTED, TUNED, HOLDING):
        yield Claim(cell=Cell("all logs", policy, TO_BEST), measured=pooled_ratio(studies, policy))
