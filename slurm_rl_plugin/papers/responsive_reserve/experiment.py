"""Beyond both papers: networks that hold processors for interactive jobs, against their goals.

On the load of 2008 the networks are trained in the run, on logs of seeds 1000 and above, one for
all three fractions of interactive jobs. On LPC-EGEE it is the shipped one, which has seen nothing
of the four segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.policy_search.search import search_policy
from slurm_rl_plugin.learning.policy_search.settings import PolicySearchSettings
from slurm_rl_plugin.learning.sarsa.settings import SarsaSettings
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.papers.reactive_grids_2008.load import (
    DROP,
    FEASIBLE,
    TRAINING_SEED,
    VALIDATION_SEED,
    generated,
    learning_task,
    medians_of,
    training_loads,
)
from slurm_rl_plugin.papers.reactive_grids_2008.tables import FIFO, FRACTIONS, NATIVE, SJF
from slurm_rl_plugin.papers.responsive_reserve.block_figures import measured_on_one_log
from slurm_rl_plugin.papers.responsive_reserve.compared_figures import measured
from slurm_rl_plugin.papers.responsive_reserve.goals import (
    BASELINES,
    GREEDY,
    GREEDY_EST,
    HOLD,
    HOLD_EST,
    INTERACTIVE_FIRST,
    SEGMENT_COLUMNS,
    SEGMENT_GOALS,
    SYNTHETIC_COLUMNS,
    SYNTHETIC_GOALS,
    TAIL_SAFE,
)
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Measurement
from slurm_rl_plugin.papers.study.effort import Effort, Plan
from slurm_rl_plugin.papers.study.lpc_segments import (
    PROCESSORS_OF_2011,
    SEGMENT_DROP,
    prepared_segments,
    read_lpc,
)
from slurm_rl_plugin.papers.study.paired_trials import Contender, PairedTrial, run_trial
from slurm_rl_plugin.papers.study.result_store import (
    LearnedNetwork,
    LearningTask,
    Loads,
    ResultStore,
)
from slurm_rl_plugin.papers.study.verdicts import Goal, bounded
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.utility.reward import RewardWeights

#: A figure of a policy in a trial, by the name of its column.
Figure = Callable[[PairedTrial, str, str], Measurement]
#: Reserves of SJF that stand beside the networks.
_FIXED = (1, 2, 4)
#: Logs of each fraction that a network learns on, and that choose among its steps.
_LOGS = 2
_J = {"time_utility": 0.5, "responsiveness": 0.0, "fairness": 0.5}
#: Longest waits hardly count, or count so much that four times FIFO's is the price they are worth.
_LOOSE, _TAIL_SAFE = RewardWeights(**_J, tail=0.001), RewardWeights(**_J, tail=0.05)
#: Network -> settings of its search, and whether it knows run times.
SEARCHES: Mapping[str, tuple[PolicySearchSettings, bool]] = {
    HOLD: (
        PolicySearchSettings(
            hidden=1, hold=True, searched="reserve", start="sjf", generations=30, weights=_LOOSE
        ),
        True,
    ),
    TAIL_SAFE: (
        PolicySearchSettings(
            hidden=1,
            hold=True,
            searched="reserve",
            start="expansion-factor",
            generations=15,
            weights=_TAIL_SAFE,
        ),
        True,
    ),
    GREEDY_EST: (
        PolicySearchSettings(hidden=2, generations=20, weights=_LOOSE),
        False,
    ),
    HOLD_EST: (
        PolicySearchSettings(
            hidden=1, hold=True, searched="reserve", generations=15, weights=_LOOSE
        ),
        False,
    ),
}


#: The network with its reserve scaled: what a little more or less of it gives and costs.
SCALED = {
    f"hold, reserve times {factor:g}": factor for factor in (0, 0.25, 0.5, 0.75, 1.25, 1.5, 2)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsiveReserve:
    """Claims, and the trials that they rest on.

    Attributes:
        claims: a goal each, then every policy's figures.
        synthetic: fraction of interactive jobs -> policies on the 2008 load.
        segments: segment -> policies on LPC-EGEE; empty without traces.
    """

    claims: list[Claim]
    synthetic: Mapping[float, PairedTrial]
    segments: Mapping[int, PairedTrial]


def _generations(settings: PolicySearchSettings, effort: Effort) -> int:
    return min(settings.generations, effort.sweeps) if effort.jobs else settings.generations


def steps(plan: Plan) -> int:
    """Simulated logs and training steps, for a progress bar."""
    searched = sum(_generations(each, plan.effort) for each, _ in SEARCHES.values())
    learned = len(FRACTIONS) * plan.effort.sweeps + searched
    segments = len(SEGMENT_GOALS) * (plan.traces is not None)
    return learned + len(FRACTIONS) * plan.seeds + segments


def reproduce(
    plan: Plan, reserve: QNetwork, store: ResultStore, after_log: Callable[[], None]
) -> ResponsiveReserve:
    """Train, simulate and judge.

    Args:
        plan: what to run.
        reserve: the network that is tried on LPC-EGEE.
        store: of trained networks.
        after_log: told after each simulated log.

    Raises:
        ConfigurationError: the folder of traces does not hold LPC-EGEE.
        AccountingLogError: LPC-EGEE cannot be read.
    """
    segments = {}
    if plan.traces is not None:
        segments = _on_segments(read_lpc(plan.traces), reserve, plan.effort, after_log)
    searched = {name: store.network(_task(name, plan.effort)).network for name in SEARCHES}
    synthetic = {p: _on_synthetic(p, plan, searched, store, after_log) for p in FRACTIONS}
    on_logs = [(f"2008 load, p = {p}", each, SYNTHETIC_GOALS[p]) for p, each in synthetic.items()]
    on_segments = [
        (f"LPC-EGEE segment {k}", each, SEGMENT_GOALS[k]) for k, each in segments.items()
    ]
    claims = [
        *(claim for each in on_logs for claim in _claims(*each, measured)),
        *(claim for each in on_segments for claim in _claims(*each, measured_on_one_log)),
    ]
    for group, trial, _ in on_logs:
        claims += _figures(group, trial, measured, SYNTHETIC_COLUMNS)
    for group, trial, _ in on_segments:
        claims += _figures(group, trial, measured_on_one_log, SEGMENT_COLUMNS)
    return ResponsiveReserve(claims=claims, synthetic=synthetic, segments=segments)


def _scaled(network: QNetwork, factor: float) -> QNetwork:
    """The same network holding `factor` times as many processors."""
    if network.reserve_weights is None:
        return network
    weights = network.reserve_weights * factor
    return replace(network, reserve_weights=weights, reserve_bias=network.reserve_bias * factor)


def _task(name: str, effort: Effort) -> LearningTask:
    settings, oracle = SEARCHES[name]
    settings = replace(settings, generations=_generations(settings, effort))

    def loads() -> Loads:
        return _loads(TRAINING_SEED, effort, oracle), _loads(VALIDATION_SEED, effort, oracle)

    return LearningTask(
        name=name.replace(" ", "-").lower(),
        settings=settings,
        train=search_policy,
        sources=[f"mmn p={FRACTIONS} logs={_LOGS} jobs={effort.jobs} oracle={oracle}"],
        loads=loads,
        steps=settings.generations,
    )


def _loads(first: int, effort: Effort, oracle: bool) -> list[TrainingLoad]:
    found: list[TrainingLoad] = []
    for interactive in FRACTIONS:
        logs = generated(interactive, range(first, first + _LOGS), effort, FEASIBLE)
        found += training_loads(logs, None if oracle else _medians(interactive, effort))
    return found


def _medians(interactive: float, effort: Effort) -> ClassMedian:
    [training_log] = generated(interactive, [TRAINING_SEED], effort, FEASIBLE)
    return medians_of(training_log)


def _rules() -> dict[str, Contender]:
    return {
        FIFO: Contender(rule="fifo"),
        INTERACTIVE_FIRST: Contender(rule="interactive-first"),
        SJF: Contender(rule="sjf"),
        **{f"{SJF}, {held} held": Contender(rule="sjf", reserve=held) for held in _FIXED},
    }


def _on_synthetic(
    interactive: float,
    plan: Plan,
    searched: Mapping[str, LearnedNetwork],
    store: ResultStore,
    after_log: Callable[[], None],
) -> PairedTrial:
    greedy = store.network(
        learning_task("reactive-grids", interactive, plan.effort, SarsaSettings())
    )
    medians = _medians(interactive, plan.effort)
    policies = {**_rules(), GREEDY: Contender(network=greedy.network)}
    policies["min(run + wait) EST"] = Contender(rule="min-run-wait", estimates=medians)
    for name, (_, oracle) in SEARCHES.items():
        policies[name] = Contender(network=searched[name], estimates=None if oracle else medians)
    logs = generated(interactive, range(plan.seeds), plan.effort, FEASIBLE)
    return run_trial(logs, policies, plan.effort.drop_of(DROP), after_log)


def _on_segments(
    log: JobLog, reserve: QNetwork, effort: Effort, after_log: Callable[[], None]
) -> dict[int, PairedTrial]:
    logs = prepared_segments(log, SEGMENT_GOALS, PROCESSORS_OF_2011, effort.jobs)
    found = {}
    for number, segment in logs.items():
        policies = {
            NATIVE: Contender(rule="native"),
            **_rules(),
            HOLD: Contender(network=reserve),
            HOLD_EST: Contender(network=reserve, estimates=medians_of(segment)),
            **{
                name: Contender(network=_scaled(reserve, factor)) for name, factor in SCALED.items()
            },
        }
        found[number] = run_trial([segment], policies, effort.drop_of(SEGMENT_DROP), after_log)
    return found


def _claims(
    group: str, trial: PairedTrial, goals: Sequence[Goal], figure: Figure
) -> Iterator[Claim]:
    for goal in goals:
        found = figure(trial, goal.policy, goal.column)
        yield bounded(
            Cell(group, goal.policy, goal.column),
            found,
            goal.bound,
            least=goal.least,
            source="goal",
            baselines={name: figure(trial, name, goal.column).value for name in BASELINES},
        )


def _figures(
    group: str, trial: PairedTrial, figure: Figure, columns: Sequence[str]
) -> Iterator[Claim]:
    """Every policy's figures without a goal, so that the table is whole."""
    for policy in trial.measures:
        for column in columns:
            yield Claim(cell=Cell(group, policy, column), measured=figure(trial, policy, column))
