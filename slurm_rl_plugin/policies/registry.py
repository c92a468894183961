"""Every named policy: what it is, and which commands may use it.

The daemon, `evaluate`, `shadow-report`, `train`, `benchmark` and the documents use the same names.
A name that some of them cannot use has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from inspect import signature
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import Decision, JobTable, Memory, QueueSnapshot
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.policies.ordering_rules import PREDICTED_RULES, STATIC_RULES, Rule
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.waiting_rules import WAITING_RULES, reads_users
from slurm_rl_plugin.units import FloatArray

#: Scores, shape [n], of the pending jobs of a snapshot: (snapshot, jobs, estimated seconds). The
#: submit time of a job is the time from which its wait counts, as in the simulator.
QueueRule = Callable[[QueueSnapshot, JobTable, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePolicy:
    """A rule as a policy for the hook."""

    name: str  #: in a configuration
    rule: QueueRule
    estimates: RunTimeEstimate  #: of run times
    reserve: int | None = None  #: processors to keep free of batch work

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Score the pending jobs by the rule."""
        del memory
        jobs = snapshot.weighed(snapshot.pending.jobs)
        pending = snapshot.pending
        waits = (pending.accrued, pending.wait_counts, pending.last_start)
        if any(each is not None for each in waits):
            jobs = replace(jobs, submit=snapshot.now - snapshot.counted_wait)
        estimate = self.estimates.estimate(jobs.time_limit, jobs.interactive) * snapshot.each_runs
        scores = np.asarray(self.rule(snapshot, jobs, estimate), dtype=np.float64)
        return Decision(scores=scores, reserve=self.reserve)


def static_rule(rule: Rule) -> QueueRule:
    """A rule of STATIC_RULES on a snapshot, independent of time and usage."""
    return lambda _, jobs, estimate: rule(jobs, estimate)


def waiting_rule(rule: Callable[..., Any]) -> QueueRule:
    """A rule of WAITING_RULES on a snapshot; its parameters name the columns that it gets.

    These are wait, estimate, size, processors, interactive, capacity, usage, share and in_use; see
    `multifactor`, `utility_greedy` and `drf`.
    """
    names, by_user = tuple(signature(rule).parameters), reads_users(rule)

    def scores(snapshot: QueueSnapshot, jobs: JobTable, estimate: FloatArray) -> FloatArray:
        in_use: Any = 0.0
        if by_user:  # resources of the running jobs of each job's user; -1 is the unknown user
            running = snapshot.weighed(snapshot.running.jobs)
            of_user = np.bincount(running.user + 1, running.size, len(snapshot.users) + 1)
            in_use = of_user[jobs.user + 1] / max(snapshot.capacity, 1)
        columns = {
            "wait": snapshot.counted_wait,
            "estimate": estimate,
            "size": np.maximum(jobs.size, 1.0),
            "processors": np.maximum(jobs.processors, 1).astype(np.float64),
            "interactive": jobs.interactive,
            "capacity": float(max(snapshot.capacity, 1)),
            "usage": snapshot.usage[jobs.account],
            "share": snapshot.shares[jobs.account],
            "in_use": in_use,
        }
        return np.asarray(rule(*(columns[name] for name in names)), dtype=np.float64)

    return scores


#: Names the model that is installed with the package.
SHIPPED_MODEL = "default"
#: Models that come with the package, by name.
_OTHER_MODELS = ("q-network", "responsive-reserve", "reactive-grids", "non-markovian")
SHIPPED_MODELS = (SHIPPED_MODEL, *_OTHER_MODELS)
#: Prefix of a number of processors to keep free of batch work; interactive jobs go first.
RESERVE_RULE = "reserve:"
#: Takes the starts that a log recorded.
NATIVE = "native"


class PolicyKind(Enum):
    """How a named policy orders jobs."""

    STATIC = "an order that never changes while jobs wait"
    PREDICTED = "a static order by run times that a log's own schedule predicts"
    WAITING = "an order that changes while jobs wait"
    RESERVE = "interactive jobs first, and processors kept free of batch work"
    RECORDED = "the starts that a log recorded"
    MODEL = "a learned network that is shipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPolicy:
    """A policy that has a name."""

    name: str  #: in configurations and on command lines
    kind: PolicyKind
    needs_log: str = ""  #: why it orders no live queue, the end of a sentence; "" if it does
    reserve: int = 0  #: processors that it keeps free of batch work

    @property
    def is_rule(self) -> bool:
        """Whether it needs no model file."""
        return self.kind is not PolicyKind.MODEL

    def live(self) -> Policy:
        """The rule as a policy of a live queue; its estimates are the requested time limits.

        Raises:
            ConfigurationError: it is no rule for a live queue.
        """
        if self.needs_log:
            raise ConfigurationError(
                f"policy {self.name} orders no live queue: {self.needs_log}. Give one of "
                f"{', '.join(known_names(live=True))}, or the path of an .onnx model."
            )
        if self.kind is PolicyKind.WAITING:
            rule = waiting_rule(WAITING_RULES[self.name])
        elif self.kind in (PolicyKind.STATIC, PolicyKind.RESERVE):
            ordered = self.name if self.kind is PolicyKind.STATIC else "interactive-first"
            rule = static_rule(STATIC_RULES[ordered])
        else:
            raise ConfigurationError(f"policy {self.name} is a model and no rule.")
        return RulePolicy(
            name=self.name, rule=rule, estimates=RequestedLimit(), reserve=self.reserve or None
        )


#: Rules for logs only, and why.
_NEEDS_LOG = {
    "f1": "it counts submit times from the start of a log",
    **dict.fromkeys(
        PREDICTED_RULES,
        "it uses each user's last runs in the log when a job is submitted (models with "
        "history=true learn from them on a live queue)",
    ),
    NATIVE: "its starts are those that a log recorded",
}
_KINDS: Mapping[PolicyKind, Iterable[str]] = {
    PolicyKind.STATIC: STATIC_RULES,
    PolicyKind.PREDICTED: PREDICTED_RULES,
    PolicyKind.WAITING: WAITING_RULES,
    PolicyKind.RECORDED: (NATIVE,),
    PolicyKind.MODEL: SHIPPED_MODELS,
}
#: Every name except those of RESERVE_RULE.
NAMED_POLICIES: Mapping[str, NamedPolicy] = {
    name: NamedPolicy(name=name, kind=kind, needs_log=_NEEDS_LOG.get(name, ""))
    for kind, names in _KINDS.items()
    for name in names
}


def named_policy(name: str) -> NamedPolicy | None:
    """The policy of a name such as `sjf` or `reserve:4`; None for other text, such as a path."""
    number = name.removeprefix(RESERVE_RULE)
    if name.startswith(RESERVE_RULE) and number.isdecimal():
        return NamedPolicy(name=name, kind=PolicyKind.RESERVE, reserve=int(number))
    return NAMED_POLICIES.get(name)


def known_names(*, live: bool) -> list[str]:
    """The names of rules, sorted, then those of shipped models; with `live` for a live queue."""
    known = [each for each in NAMED_POLICIES.values() if not (live and each.needs_log)]
    rules = [each.name for each in known if each.is_rule and each.name != NATIVE]
    recorded = [] if live else [NATIVE]
    return [*sorted([*rules, f"{RESERVE_RULE}N"]), *recorded, *SHIPPED_MODELS]


def rule_policy(name: str) -> Policy:
    """The rule of that name for a live queue; see `NamedPolicy.live`."""
    named = named_policy(name)
    if named is None:
        raise unknown_policy(name, live=True)
    return named.live()


def unknown_policy(name: str, *, live: bool) -> ConfigurationError:
    """The error for an unknown name."""
    return ConfigurationError(
        f"unknown policy {name!r}: give one of {', '.join(known_names(live=live))}, or the path "
        "of an .onnx model."
    )
