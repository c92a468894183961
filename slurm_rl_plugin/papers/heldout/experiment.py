"""Whether a learned order beats the best simple rule on parts of logs that it was not trained on.

For each log and seed: networks trained on the past of the other logs, by policy search and by
fitted Q; fine-tuned on the past of this one; and with a part of the machine kept free of batch
work. The last 40 % of each log is measured once, after every choice.
docs/research/definitions.md: held-out protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.learning import fitted_q, heldout_training
from slurm_rl_plugin.learning.algorithms import Settings
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
from slurm_rl_plugin.learning.fitted_q import FittedQSettings
from slurm_rl_plugin.learning.policy_search import (
    SLOWDOWN,
    PolicySearchSettings,
    unsearched_network,
)
from slurm_rl_plugin.learning.training_load import TrainingLoads, class_known_at_submission
from slurm_rl_plugin.measure import intervals
from slurm_rl_plugin.papers.study.claims import Declared, Measurement, Row, row_of
from slurm_rl_plugin.papers.study.figures import interval_panels
from slurm_rl_plugin.papers.study.result_store import Learned, LearningTask, ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.papers.study.trials import StudyLog, read_study_logs
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import HOUR, FloatArray

WITHOUT, TUNED, HOLDING = "trained without the log", "fine-tuned", "fine-tuned, holding"
FITTED = "fitted Q, without the log"
UNSEARCHED, TAIL_SAFE = "live WSPT, nothing searched", "fine-tuned, tail-safe"
TO_BEST, TO_MULTIFACTOR = "slowdown / best rule's", "slowdown / multifactor's"
SHORT_GAIN = "short jobs within 120 s less multifactor's (points)"
LONGEST = "longest wait / multifactor's"
MISDELIVERED = "service to the wrong account (misdelivered)"


DECLARED = Declared(__package__)
COLUMNS = (TO_BEST, TO_MULTIFACTOR, SHORT_GAIN, LONGEST, MISDELIVERED)


def over_seeds(rows: FloatArray, block: int) -> Measurement:
    """Median over the seeds of the mean; the interval is that of the mean over seeds, by blocks.

    Args:
        rows: shape [seeds, windows], windows in time order.
        block: consecutive windows that depend on each other.
    """
    rng = np.random.default_rng(0)
    _, interval = intervals.mean_over_windows(rows.mean(axis=0), rng, block=block)
    return Measurement(value=float(np.median(rows.mean(axis=1))), ci95=interval)


def ratio_over_seeds(rows: FloatArray, block: int) -> Measurement:
    """`over_seeds` for logarithms of ratios, as a ratio: geometric means over the windows."""
    found = over_seeds(rows, block)
    ends = found.ci95
    return Measurement(
        value=float(np.exp(found.value)),
        ci95=None if ends is None else (float(np.exp(ends[0])), float(np.exp(ends[1]))),
    )


def ratio_over_logs(logs: Iterable[tuple[FloatArray, int]]) -> Measurement:
    """Geometric mean over several logs, with a bootstrap over the blocks of each log.

    Each log has logarithms of ratios, shape [seeds, windows], and its block.
    """
    rng = np.random.default_rng(0)
    values, draws = [], []
    for rows, block in logs:
        means = rows.mean(axis=0)
        values.append(float(np.median(rows.mean(axis=1))))
        draws.append(intervals.block_means(means, rng, min(block, len(means))))
    interval = intervals.interval_of(np.exp(np.mean(draws, axis=0)))
    return Measurement(value=float(np.exp(np.mean(values))), ci95=interval)


MULTIFACTOR = "multifactor"
#: Fewest logs, since training leaves one out.
FEWEST_LOGS = 2
#: Starvation bounds of the tail-safe setting to choose from, hours.
STARVATION_BOUNDS = (240.0, 168.0, 120.0, 96.0, 72.0, 48.0, 36.0, 24.0, 12.0, 6.0)
#: Effects of the hook on scores: label -> changes of the protocol.
EFFECTS: Mapping[str, Mapping[str, float]] = {
    "as it decides": {},
    **{f"influence {hours:g} h": {"influence": hours} for hours in (6.0, 24.0, 72.0, 168.0)},
    **{f"cycle {seconds:g} s": {"cycle": seconds} for seconds in (30.0, 60.0, 300.0)},
    **{f"scores {seconds:g} s old": {"refresh": seconds} for seconds in (30.0, 60.0, 300.0)},
}


#: Parts of the machine that may be kept free of batch work.
RESERVES = (0.0, 0.02, 0.04, 0.08)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySize:
    """Sizes of trainings and windows."""

    settings: PolicySearchSettings = SLOWDOWN  #: of the search on several logs
    fitted: FittedQSettings = fitted_q.SLOWDOWN  #: of fitted Q iteration on the same logs
    tuning: int = 10  #: generations of fine-tuning, which takes smaller steps
    training: HeldoutProtocol = heldout_training.TRAINING  #: windows to train on
    validation: HeldoutProtocol = heldout_training.VALIDATION  #: windows to choose on
    test: HeldoutProtocol = field(default_factory=HeldoutProtocol)  #: windows to measure on


#: Step of fine-tuning.
_TUNING_STEP = 0.1
_SMALL = HeldoutProtocol(windows=4, warm_up=100, counted=200, further=50)
#: For a smoke test; its figures are no study.
QUICK_STUDY = StudySize(
    settings=replace(SLOWDOWN, generations=2, population=4, batch=2),
    fitted=replace(fitted_q.SLOWDOWN, iterations=2, batch=2, passes=2),
    tuning=2,
    training=_SMALL,
    validation=_SMALL,
    test=replace(_SMALL, windows=8),
)


class HeldoutPlan(NamedTuple):
    """Logs, seeds and sizes of a study."""

    logs: Mapping[str, StudyLog]  #: by name
    seeds: int  #: trainings of each kind
    size: StudySize

    @classmethod
    def of(cls, asked: Asked) -> HeldoutPlan:
        """The plan of the options."""
        seeds = asked.number_of_seeds(fewest=1, why="give at least 1")
        size = QUICK_STUDY if asked.quick else StudySize()
        return cls(read_study_logs(asked.logs, FEWEST_LOGS), seeds, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStudy:
    """Results on one log."""

    known: PreparedLog  #: with classes known at submission
    training_slowdown: dict[str, float]  #: of each rule, geometric mean over training windows
    rules: dict[str, WindowFigures]  #: rule -> figures on the test windows
    learned: dict[str, list[WindowFigures]]  #: policy -> figures of each seed on the same windows
    block: int  #: consecutive windows that depend on each other
    reserves: Sequence[float] = ()  #: part of the machine kept free, of each seed
    starvation: float = 0.0  #: bound of the tail-safe setting, hours
    #: Label of EFFECTS -> figures of one fine-tuned network.
    effects: dict[str, WindowFigures] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The best rule of the training part."""
        return best_heuristic(self.training_slowdown)


def measured(
    log: StudyLog,
    networks: Mapping[str, Sequence[QNetwork]],
    protocol: HeldoutProtocol,
    rules: Sequence[str] = (),
) -> LogStudy:
    """Choose a rule on the past of a log; measure it, some rules and networks on the later part."""
    known = class_known_at_submission(log.prepared)
    training, test = training_and_test_windows(known, protocol)
    slowdown = heuristics_on_training_part(known, training, protocol)
    rules = rules or [best_heuristic(slowdown)]
    learned = [
        Candidate(name=f"{kind} {place}", network=network)
        for kind, each in networks.items()
        for place, network in enumerate(each)
    ]
    candidates = [*(Candidate(name=rule) for rule in rules), *learned]
    figures = figures_of_windows(candidates, known, test, protocol)
    return LogStudy(
        known=known,
        training_slowdown=slowdown,
        rules={rule: figures[rule] for rule in rules},
        learned={
            kind: [figures[f"{kind} {place}"] for place in range(len(each))]
            for kind, each in networks.items()
        },
        block=intervals.overlapping_windows(test, protocol.jobs),
    )


def study_log(name: str, plan: HeldoutPlan, store: ResultStore) -> LogStudy:
    """Train, choose on the past of a log, then measure on its later part."""
    networks: dict[str, list[QNetwork]] = {kind: [] for kind in (WITHOUT, FITTED, TUNED, HOLDING)}
    reserves, validated = [], []
    for seed in range(plan.seeds):
        training = HeldoutTraining(plan, seed, store)
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
    networks[UNSEARCHED] = [unsearched_network(plan.size.settings)]
    chosen = Candidate(name=TUNED, network=networks[TUNED][int(np.argmax(validated))])
    protocol = plan.size.test
    study = measured(plan.logs[name], networks, protocol, [*HEURISTICS, MULTIFACTOR])
    training_windows, test = training_and_test_windows(study.known, protocol)
    bound = _starvation_bound(chosen, study.known, training_windows, protocol)

    def under(changes: Mapping[str, Any]) -> WindowFigures:
        return figures_of_windows([chosen], study.known, test, replace(protocol, **changes))[TUNED]

    return replace(
        study,
        learned={**study.learned, TAIL_SAFE: [under({"starvation": bound * HOUR})]},
        reserves=reserves,
        starvation=bound,
        effects={label: under(changes) for label, changes in EFFECTS.items()},
    )


def _starvation_bound(
    chosen: Candidate, known: PreparedLog, firsts: Sequence[int], protocol: HeldoutProtocol
) -> float:
    """The longest bound that keeps waits in the training part within multifactor's.

    The shortest of STARVATION_BOUNDS if none does.
    """
    rule = [Candidate(name=MULTIFACTOR)]
    allowed = figures_of_windows(rule, known, firsts, protocol)[MULTIFACTOR].max_wait.mean()
    for bound in STARVATION_BOUNDS:
        safe = replace(protocol, starvation=bound * HOUR)
        if figures_of_windows([chosen], known, firsts, safe)[TUNED].max_wait.mean() <= allowed:
            return bound
    return STARVATION_BOUNDS[-1]


def figure_of(study: LogStudy, policy: str, column: str) -> Measurement:
    """A figure over the seeds; see `over_seeds`."""
    found = ratio_over_seeds if column in (TO_BEST, TO_MULTIFACTOR) else over_seeds
    return found(_by_seed(study, policy, column), study.block)


def _by_seed(study: LogStudy, policy: str, column: str) -> FloatArray:
    """The figure of each seed and window, shape [seeds, windows]; ratios as logarithms."""
    figures = study.learned.get(policy) or [study.rules[policy]]
    return np.array([_per_window(study, each, column) for each in figures])


def _per_window(study: LogStudy, figures: WindowFigures, column: str) -> FloatArray:
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
    return figures.misdelivered


def rows_of(studies: Mapping[str, LogStudy]) -> Iterator[Row]:
    """Every figure of each log, then all logs together."""
    for name, study in studies.items():
        rules = [study.best, *(rule for rule in study.rules if rule != study.best)]
        for policy in [*study.learned, *rules]:
            for column in COLUMNS:
                yield row_of(name, policy, column, figure_of(study, policy, column))
    for policy in (WITHOUT, FITTED, TUNED, HOLDING):
        logs = ((_by_seed(each, policy, TO_BEST), each.block) for each in studies.values())
        yield row_of("all logs", policy, TO_BEST, ratio_over_logs(logs))


def run(asked: Asked) -> Outcome:
    """Train, choose on the past of each log, and measure on its later part."""
    plan = HeldoutPlan.of(asked)
    size, studies = plan.size, dict[str, LogStudy]()
    trained = size.settings.generations + size.fitted.iterations + size.tuning
    with asked.bar("training and measuring", len(plan.logs) * (plan.seeds * trained + 1)) as add:
        store = ResultStore(asked.models, add)
        for name in plan.logs:
            studies[name] = study_log(name, plan, store)
            add(1)
    claims = DECLARED.claims(rows_of(studies))
    ratios = [each for each in claims if each.cell.column == TO_BEST and each.cell.group in studies]
    return Outcome(
        claims=claims,
        seeds=range(plan.seeds),
        facts={"logs": {name: _facts(study) for name, study in studies.items()}},
        drawings={"heldout-ratios.png": partial(interval_panels, ratios, TO_BEST, at=1.0)},
    )


def _facts(study: LogStudy) -> dict[str, Any]:
    plain = study.effects["as it decides"]
    return {
        "best_heuristic": study.best,
        "shares": dict(zip(study.known.accounts, study.known.shares.tolist(), strict=True)),
        "shares_from": study.known.shares_from,
        "training_bounded_slowdown": study.training_slowdown,
        "reserves": study.reserves,
        "starvation_hours": study.starvation,
        "effects": {
            label: _effect(each, plain, study.block) for label, each in study.effects.items()
        },
    }


def _effect(figures: WindowFigures, plain: WindowFigures, block: int) -> dict[str, Any]:
    ratio = intervals.ratio_over_windows(
        figures.bounded_slowdown, plain.bounded_slowdown, np.random.default_rng(0), block=block
    )
    return {
        "mean_bounded_slowdown": float(figures.bounded_slowdown.mean()),
        "to_as_it_decides": ratio.geometric_mean,
        "ci95": None if ratio.ci95 is None else list(ratio.ci95),
        "mean_max_wait": float(figures.max_wait.mean()),
        "misdelivered": float(figures.misdelivered.mean()),
    }


class HeldoutTraining:
    """Trains the networks of one seed, or takes them from the store."""

    def __init__(self, plan: HeldoutPlan, seed: int, store: ResultStore) -> None:
        self._logs, self._size, self._store = plan.logs, plan.size, store
        self._seed = seed
        self._made: dict[tuple[str, ...], TrainingLoads] = {}

    def pooled(self, names: Sequence[str], changes: Mapping[str, Any] | None = None) -> Learned:
        """Search on the past of several logs at once, with changed settings."""
        settings = replace(self._size.settings, seed=self._seed, **(changes or {}))
        return self._take("pooled", names, settings)

    def fitted(self, names: Sequence[str]) -> Learned:
        """Fitted Q iteration on the same loads."""
        settings = replace(self._size.fitted, seed=self._seed)
        return self._take("fitted-q", names, settings)

    def fine_tuned(self, name: str, start: Learned) -> Learned:
        """A network of other logs, trained further on the past of this one."""
        settings = replace(self._size.settings, generations=self._size.tuning, step=_TUNING_STEP)
        settings = replace(settings, seed=self._seed)
        return self._take("fine-tuned", [name], settings, start.q_network)

    def holding(self, name: str, tuned: QNetwork) -> tuple[QNetwork, float]:
        """The network with the best reserve on the log's past, and that part of the machine."""
        loads = self._loads([name])
        both = [*loads.training, *loads.validation]
        part = heldout_training.best_reserve(tuned, both, RESERVES, self._size.settings.weights)
        return heldout_training.with_reserve(
            tuned, part * loads.training[0].settings.capacity
        ), part

    def _loads(self, names: Sequence[str]) -> TrainingLoads:
        """The loads of some logs; fine-tuning and the reserve share them."""
        key = tuple(names)
        if key not in self._made:
            self._made[key] = heldout_training.heldout_loads(
                [self._logs[name].prepared for name in names],
                training=self._size.training,
                validation=self._size.validation,
            )
        return self._made[key]

    def _take(
        self, kind: str, names: Sequence[str], settings: Settings, start: QNetwork | None = None
    ) -> Learned:
        sources = [f"{name} {self._logs[name].checksum}" for name in names]
        sources += [str(self._size.training), str(self._size.validation)]
        if start is not None:
            parts = (start.queue_weights, start.job_weights, start.bias, start.output, start.linear)
            sources.append(f"from {[part.tolist() for part in parts]}")
        task = LearningTask(
            name=f"{kind}-{'-'.join(names)}-{self._seed}".lower(),
            settings=settings,
            sources=sources,
            loads=lambda: self._loads(names),
            start=start,
        )
        return self._store.network(task)
