"""The 2008 paper, "Utility-based Reinforcement Learning for Reactive Grids", run again.

The network is trained by SARSA on generated logs of seeds 1000 and above and measured on seeds 0
to N - 1, beside FIFO and rules that need no learning, all on the same logs. The log of the LAL site
is not public; segments of LPC-EGEE stand in for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.learning.sarsa.settings import PAPER, SarsaSettings
from slurm_rl_plugin.papers.reactive_grids_2008.hold_action import claims_of_holding
from slurm_rl_plugin.papers.reactive_grids_2008.learning_curves import (
    CALIBRATION,
    Curves,
    claims_of_calibration,
    curve_tasks,
    learning_curves,
)
from slurm_rl_plugin.papers.reactive_grids_2008.literal_reward import (
    LITERAL,
    PRINTED,
    claims_of_literal_reward,
)
from slurm_rl_plugin.papers.reactive_grids_2008.load import (
    DROP,
    FEASIBLE,
    INFEASIBLE,
    TRAINING_SEED,
    claims_of_table_1,
    contenders,
    generated,
    learning_task,
    medians_of,
)
from slurm_rl_plugin.papers.reactive_grids_2008.on_line import (
    OnLine,
    claims_on_line,
    learn_on_line,
    on_line_steps,
)
from slurm_rl_plugin.papers.reactive_grids_2008.shares import claims_of_shares
from slurm_rl_plugin.papers.reactive_grids_2008.tables import FRACTIONS, NATIVE, RL
from slurm_rl_plugin.papers.reactive_grids_2008.trace import (
    MEASURED_SEGMENTS,
    claims_of_segment,
    segments_task,
)
from slurm_rl_plugin.papers.reactive_grids_2008.waits import claims_of_waits
from slurm_rl_plugin.papers.study.claims import GOAL, Claim
from slurm_rl_plugin.papers.study.effort import Plan
from slurm_rl_plugin.papers.study.lpc_segments import (
    PROCESSORS_OF_2011,
    PROCESSORS_OF_LPC,
    SEGMENT_DROP,
    prepared_segments,
    read_lpc,
)
from slurm_rl_plugin.papers.study.paired_trials import Contender, PairedTrial, run_trial
from slurm_rl_plugin.papers.study.result_store import LearningTask, ResultStore
from slurm_rl_plugin.policies.network import QNetwork

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
        curves: of the calibrations.
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
        plan: what to run.
        store: of trained networks.
        after_log: called after each simulated log.

    Raises:
        ConfigurationError: the folder of traces does not hold LPC-EGEE.
        AccountingLogError: LPC-EGEE cannot be read.
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
        claims = [
            *claims_of_table_1(),
            *(claim for p in FRACTIONS for claim in claims_of_waits(p, feasible[p])),
            *(claim for p in FRACTIONS for claim in claims_of_holding(p, feasible[p])),
            *claims_of_shares(feasible[SHOWN], infeasible),
            *_claims_of_segments(segments),
            *claims_of_literal_reward(feasible[SHOWN], {**as_printed, RL: learned[SHOWN]}),
            *claims_of_calibration(curves),
            *claims_on_line(on_line),
        ]
        return ReactiveGrids(
            claims=[_credited(claim) for claim in claims],
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


def _claims_of_segments(
    segments: Mapping[tuple[int, int], PairedTrial],
) -> Iterator[Claim]:
    for (number, capacity), trial in segments.items():
        group = f"LPC-EGEE segment {number}, {capacity} processors"
        yield from claims_of_segment(group, trial, _MACHINES[capacity])


def _credited(claim: Claim) -> Claim:
    """Mark the claim as "ours" if its network learned by this project's reward.

    RL and the calibrated networks learn by the difference reward, which no paper has; our goals
    are for policies of this project.
    """
    of_ours = claim.cell.group == CALIBRATION or claim.source == GOAL
    ours = of_ours or RL in re.split(" [/-] ", claim.cell.policy)
    return replace(claim, algorithm="ours") if ours else claim
