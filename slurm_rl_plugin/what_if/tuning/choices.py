"""What is chosen on the past of a log, what it gains on jobs that no search saw, and its lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.measure.blocks import Blocks
from slurm_rl_plugin.measure.intervals import verdict, widened
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.what_if.replay import ReplayedPair, ReplayedVariant
from slurm_rl_plugin.what_if.tuning.search import (
    WORTH,
    TunedCluster,
    TuningTask,
    bounded_objective,
    candidate_objective,
    objective_of,
)
from slurm_rl_plugin.what_if.tuning.space import words_of
from slurm_rl_plugin.what_if.variant import AS_IT_IS, HOOK, RESERVE

#: What the choices are called.
TUNED, BY_RULE, WITH_RESERVE = "tuned", "rule", "tuned with a reserve"
#: Simple rules that our hook can order by.
_RULES = tuple(rule for rule in NODE_HEURISTICS if rule != "fifo")
#: Parts of the cluster's CPUs that are tried as a reserve.
_RESERVES = (0.02, 0.05, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An order that the past speaks for.

    Attributes:
        words: of a variant; none for the cluster as it is.
        objective: on the stretches of the finalists.
        rule: of our hook; "" where the site's own order stays.
    """

    words: str
    objective: float
    rule: str = ""


def choices_of(
    tuned: TunedCluster, short: TuningTask, checks: TuningTask, processors: int
) -> dict[str, Choice]:
    """Name -> what was chosen; the cluster as it is among them.

    Args:
        tuned: what the search found.
        short: stretches of the past on which rules and reserves are compared.
        checks: more of them, on which each choice is valued.
        processors: of the cluster.
    """
    found = {AS_IT_IS: Choice(words="", objective=tuned.before)}
    words = words_of(tuned.changes)
    if words:
        found[TUNED] = Choice(words=words, objective=tuned.after)
    rule = _best(_RULES, bounded_objective, short)
    worth = bounded_objective(checks, Candidate(name=rule))
    found[BY_RULE] = Choice(words=f"{HOOK} {rule}", objective=worth, rule=rule)
    if reserve := _reserve(tuned, short, processors):
        both = "; ".join(filter(None, (words, f"{RESERVE} cpu={reserve}")))
        worth = objective_of(checks, dict(tuned.changes), reserve)
        found[WITH_RESERVE] = Choice(words=both, objective=worth)
    return found


def best_rule(task: TuningTask) -> str:
    """The simple rule that serves the goals best, whatever it misdelivers or lets wait.

    That is what a learned order is compared with; nobody is advised to take it.
    """
    return _best(NODE_HEURISTICS, candidate_objective, task)


def _best(
    rules: Sequence[str], objective: Callable[[TuningTask, Candidate], float], task: TuningTask
) -> str:
    values = side_by_side(lambda rule: objective(task, Candidate(name=rule)), rules)
    return rules[int(np.argmax(values))]


def _reserve(tuned: TunedCluster, short: TuningTask, processors: int) -> int:
    """CPUs that are best kept from batch jobs beside the tuned settings on the past; 0 for none."""
    sizes = sorted({max(round(part * processors), 1) for part in _RESERVES})
    changes = dict(tuned.changes)
    values = {size: objective_of(short, changes, size) for size in (0, *sizes)}
    best = max(values, key=values.__getitem__)
    worth = WORTH * abs(values[0] - objective_of(short, {}))
    return best if values[best] > values[0] + worth else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveGain:
    """What a variant gains over the cluster as it is.

    Attributes:
        gain: of the objective.
        ci95: its interval; None where there are too few stretches.
    """

    gain: float
    ci95: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """Better, worse or inconclusive."""
        return verdict(self.ci95, more_is_better=True)


def gain_of(pair: ReplayedPair, blocks: Blocks, weights: RewardWeights) -> ObjectiveGain:
    """Gain in time utility, responsiveness, fairness and slowdown, each by its weight.

    The terms of the longest wait and of what a reserve costs batch jobs are left out: draws of what
    happened know no longer wait, and both are shown beside. `blocks` are over the counted jobs.
    """
    every = np.arange(len(pair.counted))
    sides = [
        _columns(pair.base, pair.places_before, weights),
        _columns(pair.variant, pair.places_after, weights),
    ]
    means = [(float(value.mean()), float(slowdown.mean())) for value, slowdown in sides]
    drawn = [
        (blocks.means(value, every), blocks.means(slowdown, every)) for value, slowdown in sides
    ]
    gain = _gain(np.array(means[0]), np.array(means[1]), weights)
    draws = _gain(np.array(drawn[0]), np.array(drawn[1]), weights)
    bounds = widened(np.atleast_1d(draws), float(gain), blocks.count)
    return ObjectiveGain(gain=float(gain), ci95=bounds)


def _columns(
    replayed: ReplayedVariant, place: np.ndarray, weights: RewardWeights
) -> tuple[FloatArray, FloatArray]:
    found = replayed.measures
    value = (
        weights.time_utility * found.time_utility
        + weights.responsiveness * found.responsiveness
        + weights.fairness * found.fairness
    )
    return value[place], found.bounded_slowdown[place]


def _gain(before: FloatArray, after: FloatArray, weights: RewardWeights) -> FloatArray:
    found: FloatArray = (after[0] - before[0]) - weights.slowdown * np.log10(after[1] / before[1])
    return found


_PARAMETERS = "SchedulerParameters"


def conf_lines(cluster: DescribedCluster, changes: Mapping[str, str]) -> list[str]:
    """A comment for each key of slurm.conf that changes, with what it is now before it."""
    after = changed(cluster, words_of(changes)).said.settings
    lines: list[str] = []
    keys = [key for key in changes if not key.islower()]
    if len(keys) < len(changes):
        keys.append(_PARAMETERS)
    for key in keys:
        now = cluster.said.settings.get(key.lower())
        lines.append(f"# now: {key}={now.text}" if now is not None else f"# now: no {key}")
        lines.append(f"# {key}={after[key.lower()].text}")
    return lines


def policy_lines(rule: str) -> list[str]:
    """Comments with lines of our own file that let the hook order by a rule, or why it cannot."""
    named = named_policy(rule)
    if named is not None and named.needs_log:
        return [f"# The daemon cannot order by {rule}: {named.needs_log}."]
    return ["# [policy]", f'# model = "{rule}"']
