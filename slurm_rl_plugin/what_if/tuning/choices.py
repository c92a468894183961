"""What is chosen on the past of a log: tuned settings, a rule by our hook, a reserve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.side_by_side import side_by_side
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
    tuned: TunedCluster,
    short: TuningTask,
    checks: TuningTask,
    processors: int,
) -> dict[str, Choice]:
    """Name -> what was chosen; the cluster as it is among them.

    Args:
        tuned: what the search found.
        short: stretches of the past on which rules and reserves are compared.
        checks: more of them, which tell what each choice is worth.
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
    rules: Sequence[str],
    objective: Callable[[TuningTask, Candidate], float],
    task: TuningTask,
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
