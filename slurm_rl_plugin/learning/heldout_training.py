"""Training that leaves the last 40 % of each log untouched, for the held-out protocol.

Of the first 60 % three quarters are for training. The last quarter chooses among the steps of a
training, among its seeds, and between the model and the best simple rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.heldout import (
    HeldoutProtocol,
    best_heuristic,
    figures_of_windows,
    heuristics_on_training_part,
    windows_of,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.policy_search import RULE_WEIGHTS
from slurm_rl_plugin.learning.training_load import (
    TRAINING_FRACTION,
    TrainingLoad,
    TrainingLoads,
    class_known_at_submission,
    log_windows,
    mean_objective,
    training_jobs,
    training_part,
)
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights

#: Part of the first 60 % for training; the rest validates.
SEARCHED_PART = 0.75
#: Windows for training, shorter than those that measure, because a search needs many.
TRAINING = HeldoutProtocol(windows=100, warm_up=500, further=256)
#: Windows for validation.
VALIDATION = HeldoutProtocol(windows=48)
#: Name of the network in comparisons.
_NETWORK = "this model"


def searched_jobs(prepared: PreparedLog) -> int:
    """Number of jobs at the begin of a log for training."""
    return int(training_jobs(prepared) * SEARCHED_PART)


def heldout_loads(
    logs: Sequence[PreparedLog],
    *,
    classifier: JobClassifier | None = None,
    training: HeldoutProtocol = TRAINING,
    validation: HeldoutProtocol = VALIDATION,
    goals: Goals | None = None,
) -> TrainingLoads:
    """Loads from the first 60 % of each whole log, with job classes known at submission."""
    found = TrainingLoads([], [])
    for log in logs:
        prepared = class_known_at_submission(training_part(log), classifier)
        border = searched_jobs(log)
        later = windows_of(border, len(prepared.log), validation)
        own = AS_TRAINED if goals is None else prepared.goals(goals)
        found.training.extend(_loads(prepared, windows_of(0, border, training), training, own))
        found.validation.extend(_loads(prepared, later, validation, own))
    return found


def _loads(
    prepared: PreparedLog, firsts: Sequence[int], protocol: HeldoutProtocol, goals: Goals
) -> list[TrainingLoad]:
    settings = replace(protocol.settings(prepared.capacity), goals=goals)
    drop = (protocol.warm_up, protocol.further)
    windows = log_windows(prepared, firsts, protocol.jobs)
    return [TrainingLoad.of(each, RequestedLimit(), settings, drop) for each in windows]


def with_reserve(network: QNetwork, processors: float) -> QNetwork:
    """The network that keeps a fixed number of processors free of batch work."""
    if processors <= 0:
        return replace(network, reserve_weights=None, reserve_bias=0.0)
    nothing: FloatArray = np.zeros(len(network.schema.queue))
    return replace(network, reserve_weights=nothing, reserve_bias=float(processors))


def best_reserve(
    network: QNetwork,
    loads: Sequence[TrainingLoad],
    parts: Sequence[float],
    weights: RewardWeights,
) -> float:
    """The best part of the machine to keep free of batch work; on a tie the first."""
    capacity = loads[0].settings.capacity
    values = [
        mean_objective(with_reserve(network, part * capacity), loads, weights, together=True)
        for part in parts
    ]
    return parts[int(np.argmax(values))]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleComparison:
    """A network compared with the best simple rule of a log, in windows without training jobs."""

    best_heuristic: str  #: the rule, chosen on the training part
    slowdown: dict[str, float]  #: of each rule on the training part
    ratio: float  #: the network's bounded slowdown over the rule's, geometric mean over the windows
    ratio_to: dict[str, float]  #: the same over each rule that a network can stand for


def compare_with_rules(
    network: QNetwork,
    prepared: PreparedLog,
    classifier: JobClassifier | None = None,
    validation: HeldoutProtocol = VALIDATION,
) -> RuleComparison:
    """Compare a network with the best simple rule on the first 60 % of a log."""
    known = class_known_at_submission(training_part(prepared), classifier)
    jobs = len(known.log)
    slowdown = heuristics_on_training_part(known, windows_of(0, jobs, validation), validation)
    best = best_heuristic(slowdown)
    rules = dict.fromkeys((best, *RULE_WEIGHTS))
    compared = [Candidate(name=rule) for rule in rules]
    compared.append(Candidate(name=_NETWORK, network=network))
    firsts = windows_of(searched_jobs(prepared), jobs, validation)
    found = figures_of_windows(compared, known, firsts, validation)
    model = np.log(found[_NETWORK].bounded_slowdown)
    ratio = {
        rule: float(np.exp(np.mean(model - np.log(found[rule].bounded_slowdown)))) for rule in rules
    }
    return RuleComparison(
        best_heuristic=best,
        slowdown=slowdown,
        ratio=ratio[best],
        ratio_to={rule: ratio[rule] for rule in RULE_WEIGHTS},
    )


def shipped_rule(comparisons: Iterable[RuleComparison]) -> str | None:
    """The rule to ship instead of a network that does not win; None to ship the network.

    Of the rules that a network can represent, the best on the training parts; None if that rule is
    not better than the network.
    """
    found = list(comparisons)
    if _beat(each.ratio for each in found):
        return None
    logs = {rule: [np.log(each.slowdown[rule]) for each in found] for rule in RULE_WEIGHTS}
    best = min(logs, key=lambda rule: float(np.mean(logs[rule])))
    return None if _beat(each.ratio_to[best] for each in found) else best


def _beat(ratios: Iterable[float]) -> bool:
    """Whether the geometric mean of slowdown ratios is below 1; true without a log."""
    logs = np.log(list(ratios))
    return len(logs) == 0 or bool(logs.mean() < 0.0)


def heldout_entry(comparisons: Mapping[str, RuleComparison], shipped: str | None) -> dict[str, Any]:
    """The `heldout` part of a manifest."""
    return {
        "training_windows": asdict(TRAINING),
        "validation_windows": asdict(VALIDATION),
        "jobs_searched": TRAINING_FRACTION * SEARCHED_PART,
        "jobs_seen": TRAINING_FRACTION,
        "validation_ratio": {name: each.ratio for name, each in comparisons.items()},
        "best_heuristic": {name: each.best_heuristic for name, each in comparisons.items()},
        "validation_ratio_to": {name: each.ratio_to for name, each in comparisons.items()},
        "beats_best_rule": _beat(each.ratio for each in comparisons.values()),
        "shipped": shipped or "network",
    }
