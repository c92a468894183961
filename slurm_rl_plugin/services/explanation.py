"""Why one pending job is where it is: the document of `slurm-rl explain`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.kind import JobRecord
from slurm_rl_plugin.brokers.live.offer_worth import UNKNOWN_RUN_TIME
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.domain.nodes import NodeNow, most_free
from slurm_rl_plugin.domain.resources import LICENCE_PREFIX
from slurm_rl_plugin.errors import (
    BatchSystemError,
    ConfigurationError,
    JobNotPending,
    PolicyError,
    SlurmRLError,
)
from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.hook.audit.reader import AuditFilter, tail_of
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from slurm_rl_plugin.hook.order.queue_plan import ConsideredJobs, QueuePlan, orderable_by_score
from slurm_rl_plugin.hook.order.said_order import own_jobs
from slurm_rl_plugin.hook.rails.guard_rails import rail_name
from slurm_rl_plugin.hook.rails.reserve import ACCOUNT, AS_BATCH, AS_CLASSED, OVERRUN, USER
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.q_network import QNetworkPolicy, feature_effects
from slurm_rl_plugin.policies.rule_policy import RulePolicy
from slurm_rl_plugin.services.configured_site import chosen_batch_system
from slurm_rl_plugin.services.forecast_client import foretold_start
from slurm_rl_plugin.services.queue_reading import (
    QueueLook,
    experiment_sentence,
    limit_sentence,
    look_at_queue,
)
from slurm_rl_plugin.simulator.workloads.node_constraints import kinds_that_meet
from slurm_rl_plugin.units import HOUR, FloatArray
from slurm_rl_plugin.utility.time_utility import time_utility

NONE_TOLD: Mapping[str, float] = MappingProxyType({})
#: Bytes at the end of the audit log that are searched, and lines shown.
AUDIT_TAIL, AUDIT_LINES = 20_000_000, 3
#: Jobs shown on either side of the explained one.
NEIGHBOURS = 2


def explained(configuration: Configuration, job: int, record: JobRecord) -> dict[str, Any]:
    """The document of one job."""
    number = job if record.number is None else record.number
    if record.number is not None and not record.is_pending:
        raise JobNotPending(
            f"job {job} is {record.state} and waits no more: see `slurm-rl audit -j "
            f"{number}` for what was written to it."
        )
    look = look_at_queue(configuration)
    places = look.considered.plan.snapshot.pending.jobs.job_id.tolist()
    if number not in places:
        raise JobNotPending(
            f"job {job} is not in the queue: `slurm-rl queue` lists those that are."
        )
    explanation = Explanation(
        cycle=look.cycle, considered=look.considered, place=places.index(number)
    )
    document = {**explanation.document(), **_decision(look), **_record(configuration, record)}
    document |= _utility(configuration, look, document, record)
    document["writes"] = _writes(configuration)
    document["experiment"] = experiment_sentence(configuration) or None
    document["room"], unread = _room(configuration, document, record)
    if document["features"] is not None:
        _add_linear_part(look, document)
    document["start"] = foretold_start(configuration, number)
    document["audit"] = _audit(configuration, number)
    document["not_read"] = [
        *record.unread,
        *unread,
        *_not_read(configuration, look, document),
    ]
    return document


def _decision(look: QueueLook) -> dict[str, Any]:
    return {
        "policy": look.cycle.policy.name,
        "model": look.cycle.model_sha256 or None,
        "fallback": look.considered.plan.fallback_reason,
        "reserve": look.considered.plan.decision.reserve or 0,
        "batch_limit": _batch_limit(look),
    }


def _batch_limit(look: QueueLook) -> dict[str, Any]:
    limit = look.considered.plan.limit
    return {
        "processors": limit.processors,
        "resources": limit.others,
        "reason": limit.reason,
        "words": limit_sentence(limit),
    }


def _writes(configuration: Configuration) -> dict[str, Any]:
    """Whether anything is written at present: the mode, and what has switched it off."""
    path = configuration.disable_file
    found = None if path is None else read_disable_file(path)
    counts = found is not None and found.counts(time.time())  # noqa: TID251 - composition root
    return {
        "mode": configuration.sections.hook.mode,
        "disabled": found.words if found is not None and counts else None,
    }


def _room(
    configuration: Configuration, document: dict[str, Any], record: JobRecord
) -> tuple[dict[str, Any] | None, list[str]]:
    """What nodes of now have for the job, and why that is not known."""
    kind, asked = chosen_batch_system(configuration).kind, document["requests"]
    if asked is None or kind.nodes is None:
        return None, []
    timeout = float(configuration.sections.batch_system.timeout)
    wants_licences = any(name.startswith(LICENCE_PREFIX) for name in asked["amounts"])
    try:
        nodes = kind.nodes(timeout)
        licences = kind.licences(timeout) if wants_licences and kind.licences else {}
    except BatchSystemError as error:
        return None, [f"what of nodes is free: {error}."]
    told = record.description.partition if record.description else document["partition"]
    room = room_of(
        nodes,
        told.split(","),
        asked["amounts"],
        asked["nodes"],
        exclusive=asked["exclusive"],
        constraint=asked["constraint"],
        licences=licences,
    )
    return room, []


def _record(configuration: Configuration, record: JobRecord) -> dict[str, Any]:
    """Words of the record, and the class rule that they match."""
    if not record.is_pending or record.description is None:
        names = ("name", "qos", "reason", "meaning", "class_rule")
        return {**dict.fromkeys(names), "terms": {}}
    rule = configuration.classifier.matching_rule(record.description)
    return {
        "name": record.name,
        "qos": record.qos or None,
        "reason": record.reason,
        "meaning": record.meaning or None,
        "tasks": record.tasks or None,
        "class_rule": str(rule) if rule else "no rule matches, so batch",
        "terms": record.terms,
    }


def _utility(
    configuration: Configuration, look: QueueLook, document: dict[str, Any], record: JobRecord
) -> dict[str, Any]:
    """What the job's class makes of its wait.

    No entry where the site has no classes of its own. The run time is the one predicted, else the
    estimate, else the limit.
    """
    classifier = configuration.classifier
    if not classifier.own or record.description is None:
        return {}
    name, own = classifier.class_of(record.description), classifier.utility_of(record.description)
    since = document["eligible"] if math.isfinite(document["eligible"]) else document["submit"]
    asked = classifier.asked_by_user(record.description.words, since)
    if isinstance(asked, tuple):
        name, own = asked
    times = document["run_time"]
    runs = [(times["predicted"] or {}).get("median"), times["estimate"], document["time_limit"]]
    run = next((each for each in runs if each and math.isfinite(each)), UNKNOWN_RUN_TIME)
    wait = max(look.considered.plan.snapshot.now - since, 0.0)
    now, later = time_utility(np.array([wait, wait + HOUR]) + run, run, own.row).tolist()
    entry = {
        "class": name,
        "by_user": isinstance(asked, tuple),
        "ignored": asked if isinstance(asked, str) else None,
        "deadline": None if own.hours is None else since + own.hours * HOUR,
        "now": now,
        "further_hour": now - later,
    }
    return {"utility": entry}


def _add_linear_part(look: QueueLook, document: dict[str, Any]) -> None:
    """Add weight * (value - mean) / scale of each feature, where the graph is one of ours.

    And the points of its value: weight * value / scale.
    """
    weights = _linear_weights(look)
    for feature in document["features"]:
        weight, mean, scale = weights.get(feature["name"], (math.nan, 0.0, 1.0))
        linear = weight * (feature["value"] - mean) / scale
        feature["linear"] = None if math.isnan(linear) else linear
        points = weight * feature["value"] / scale
        feature["points"] = None if math.isnan(points) else points


def _linear_weights(look: QueueLook) -> dict[str, tuple[float, float, float]]:
    """Feature -> weight, mean and scale; {} where they cannot be read: onnx is not needed here."""
    policy = look.cycle.policy
    if not isinstance(policy, QNetworkPolicy):
        return {}
    try:
        from slurm_rl_plugin.learning.onnx_file import import_model  # noqa: PLC0415 - extra

        network = import_model(policy.card.path)
    except (ModuleNotFoundError, SlurmRLError):
        return {}
    if not isinstance(network, QNetwork):
        return {}
    columns = (network.linear.tolist(), network.job_mean.tolist(), network.job_scale.tolist())
    return dict(zip(policy.schema.jobs, zip(*columns, strict=True), strict=True))


def _audit(configuration: Configuration, number: int) -> list[dict[str, Any]]:
    path = configuration.sections.hook.audit_file
    if not path:
        return []
    wanted = AuditFilter(jobs=frozenset({number}))
    lines = [line for line in tail_of(Path(path), AUDIT_TAIL) if wanted.takes(line)]
    return lines[-AUDIT_LINES:]


def _not_read(configuration: Configuration, look: QueueLook, document: dict[str, Any]) -> list[str]:
    """What is unknown, said rather than guessed."""
    missing = []
    system = look.cycle.batch_system
    if system.hidden_factors and document["untouched"] in ("held", "not_eligible"):
        missing.append(f"its factor and the terms of its priority: {system.hidden_factors}")
    if not document["account"]["any_usage"]:
        missing.append(
            "usage: none at all is reported; Slurm keeps none where PriorityWeightFairshare is 0."
        )
    if not math.isfinite(document["time_limit"]):
        missing.append("a time limit: the job has none.")
    if look.asked_accounting and not configuration.sections.batch_system.history_days:
        missing.append("past runs: history_days is 0 and no daemon remembers any.")
    features = document["features"] or []
    if any(feature["linear"] is None for feature in features):
        missing.append(
            "the linear part of the score: that needs the onnx package and a model of ours."
        )
    path = configuration.sections.hook.audit_file
    if not path or not Path(path).exists():
        missing.append("the audit log: there is none yet.")
    return missing


def room_of(
    nodes: Sequence[NodeNow],
    partitions: Sequence[str],
    asked: Mapping[str, float],
    count: int,
    *,
    exclusive: bool = False,
    constraint: str | None = None,
    licences: Mapping[str, float] = NONE_TOLD,
) -> dict[str, Any]:
    """What of the request is free where; how often nodes alone could start it.

    Args:
        nodes: all of the machine.
        partitions: that the job may start in.
        asked: of the whole job, by resource; what is 0 is not looked for.
        count: nodes that it is spread over; 0 counts as one.
        exclusive: it wants them for itself.
        constraint: over features of nodes; None for any node.
        licences: that are free, by resource.
    """
    of_job = [each for each in nodes if each.partitions & set(partitions)]
    of_job = of_job or [each for each in nodes if not each.partitions]
    if constraint:
        of_job = [node for node in of_job if _meets(constraint, node)]
    could_be = [node for node in of_job if node.is_idle] if exclusive else of_job
    count = max(count, 1)
    each_node = {
        name: math.ceil(amount / count)
        for name, amount in asked.items()
        if amount > 0 and not name.startswith(LICENCE_PREFIX)
    }
    return {
        "nodes": count,
        "nodes_with_room": sum(_fits(node, each_node) for node in could_be),
        "exclusive": exclusive,
        "constraint": constraint,
        "nodes_that_may": len(of_job),
        "idle_nodes": sum(node.is_idle for node in of_job),
        "resources": {
            name: {
                "asked": asked[name],
                "on_each_node": amount,
                "most_free": most_free(of_job, name),
                "free": sum(node.free(name) for node in of_job),
                "nodes_with_room": sum(node.free(name) >= amount for node in of_job),
            }
            for name, amount in each_node.items()
        },
        "licences": {
            name: {"asked": asked[name], "free": licences[name]}
            for name in sorted(asked.keys() & licences.keys())
        },
    }


def _meets(constraint: str, node: NodeNow) -> bool:
    """Whether a node has the features; so has any, where a constraint is not understood."""
    try:
        return kinds_that_meet(constraint, [node.features])[0]
    except ConfigurationError:
        return True


def _fits(node: NodeNow, amounts: Mapping[str, float]) -> bool:
    return all(node.free(name) >= amount for name, amount in amounts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explains the job at one place of a plan.

    Attributes:
        cycle: whose settings, policy and guard rails decided.
        considered: the pending jobs of the plan.
        place: of the job in the snapshot.
    """

    cycle: Cycle
    considered: ConsideredJobs
    place: int

    def document(self) -> dict[str, Any]:
        """Everything, in the units of the snapshot; None for what does not apply.

        Raises:
            PolicyError: the model fails when it is asked about single features.
        """
        return {
            **self._facts(),
            "ranks": self._ranks(),
            "score": self._score(),
            "run_time": self._run_time(),
            "features": self._features(),
            "account": self._account(),
            "guard_rails": self._guard_rails(),
            "own_order": self._own_order(),
            "priority": self._priority(),
            "write": self._write(),
            "neighbours": self._neighbours(),
        }

    @property
    def _plan(self) -> QueuePlan:
        return self.considered.plan

    @property
    def _snapshot(self) -> QueueSnapshot:
        return self.considered.plan.snapshot

    def _facts(self) -> dict[str, Any]:
        snapshot, place = self._snapshot, self.place
        jobs = snapshot.pending.jobs
        counts = self._plan.seen.pending.wait_counts
        user = int(jobs.user[place])
        starts = snapshot.pending.last_start
        return {
            "job": int(jobs.job_id[place]),
            "user": snapshot.users[user] if 0 <= user < len(snapshot.users) else "",
            "partition": snapshot.partitions[jobs.partition[place]],
            "class": "interactive" if jobs.interactive[place] else "batch",
            "as_batch": self._as_batch(),
            "processors": int(jobs.processors[place]),
            "time_limit": float(jobs.time_limit[place]),
            "submit": float(jobs.submit[place]),
            "eligible": float(jobs.eligible[place]),
            "wait": float(self.considered.wait[place]),
            "accrued": float(self.considered.accrued[place]),
            "started_tasks": starts is not None and math.isfinite(starts[place]),
            "runs": float(snapshot.each_runs[place]),
            "wait_counts": 1.0 if counts is None else float(counts[place]),
            "for_processors": bool(snapshot.pending.each_for_processors[place]),
            "passed_over": bool(self.considered.passed_over[place]),
            "untouched": self.considered.untouched[place] or None,
            "requests": self._requests(),
        }

    def _as_batch(self) -> dict[str, Any] | None:
        """Why it counts as batch, and what says so; None where it counts as classed."""
        as_batch, rail = self._snapshot.pending.as_batch, self.cycle.limit.rail
        if as_batch is None or as_batch[self.place] == AS_CLASSED:
            return None
        reason = AS_BATCH[int(as_batch[self.place])]
        if rail is None:
            return {"reason": reason}
        if reason == OVERRUN:
            user = int(self._snapshot.pending.jobs.user[self.place])
            return {"reason": reason, **self._plan.overruns[user]._asdict()}
        most = {ACCOUNT: rail.settings.account_most, USER: rail.settings.user_most}
        return {"reason": reason, "most": int(most[reason])}

    def _requests(self) -> dict[str, Any] | None:
        """What it asks of nodes, memory in MiB; None where the system tells of processors alone."""
        requests = self._snapshot.pending.jobs.requests
        if requests is None:
            return None
        amounts = zip(requests.names, requests.total[self.place].tolist(), strict=True)
        return {
            "amounts": {name: amount for name, amount in amounts if amount},
            "nodes": int(requests.nodes[self.place]),
            "exclusive": bool(requests.exclusive[self.place]),
            "constraint": requests.constraints[int(requests.constraint[self.place])] or None,
        }

    def _ranks(self) -> dict[str, Any]:
        considered, place = self.considered, self.place
        return {
            "decided": int(considered.rank[place]) or None,
            "site": int(considered.site_rank[place]) or None,
            "now": int(considered.current_rank[place]) or None,
            "of": considered.ranked,
            **self._ranks_in_account(),
        }

    def _ranks_in_account(self) -> dict[str, Any]:
        """Its place among the ranked jobs of its account."""
        rank, account = self.considered.rank, self._snapshot.pending.jobs.account
        own = rank[(account == account[self.place]) & (rank > 0)]
        mine = int(rank[self.place])
        place = int((own <= mine).sum()) if mine else None
        return {"in_account": place, "of_account": len(own)}

    def _score(self) -> float | None:
        """None for a job that we do not order: its score counts nowhere. FIFO's in a fallback."""
        ordered = not self.considered.untouched[self.place] and not self._plan.releases
        return float(self._plan.decision.scores[self.place]) if ordered else None

    def _run_time(self) -> dict[str, Any]:
        """What the policy believes, seconds; a prediction only of a model that makes one."""
        policy, jobs = self.cycle.policy, self._snapshot.pending.jobs
        if not isinstance(policy, QNetworkPolicy | RulePolicy):
            return {"estimate": None, "kind": None, "predicted": None}
        one = jobs.select(np.array([self.place]))
        estimate = float(policy.estimates.estimate(one.time_limit, one.interactive)[0])
        document: dict[str, Any] = {"estimate": estimate, "kind": policy.estimates.kind}
        document["predicted"] = None
        if isinstance(policy, QNetworkPolicy) and policy.knows_past:
            document["predicted"] = self._predicted(policy, self._plan.memory)
        return document

    def _predicted(self, policy: QNetworkPolicy, memory: Memory | None) -> dict[str, Any]:
        """Read back from the features, quantiles from the decision; seconds."""
        row = policy.job_features(self._plan.seen, memory)[self.place].tolist()
        told = dict(zip(policy.schema.jobs, row, strict=True))
        quantiles = self._quantiles()
        goal = policy.goals.short_jobs
        length = told["log_run_time"] / goal if goal else None
        return {
            "median": quantiles.get("0.5"),
            "quantiles": quantiles,
            "counts_as": None if length is None else math.exp(length),
        }

    def _quantiles(self) -> dict[str, float]:
        """Part of the runs -> seconds below which they end; {} where none are told."""
        ask = self._plan.decision.run_times
        if ask is None:
            return {}
        try:
            told = ask()
        except PolicyError:  # the page then shows no quantiles
            return {}
        return {str(part): float(told[self.place, at]) for at, part in enumerate(PARTS)}

    def _features(self) -> list[dict[str, Any]] | None:
        """Effects on the score; None for a rule, for a fallback and for a job not ordered."""
        policy, memory = self.cycle.policy, self._plan.memory
        used = isinstance(policy, QNetworkPolicy) and self._plan.fallback_reason is None
        if not used or self.considered.untouched[self.place]:
            return None
        assert isinstance(policy, QNetworkPolicy)
        found = feature_effects(policy, self._plan.seen, memory, self.place)
        return [asdict(each) for each in found]

    def _account(self) -> dict[str, Any]:
        snapshot = self._snapshot
        index = int(snapshot.pending.jobs.account[self.place])
        lifts, service = self._plan.lifts.accounts, self._plan.service
        ratio = math.nan if service is None else float(service.ratios[index])
        return {
            "name": snapshot.accounts[index],
            "share": float(snapshot.shares[index]),
            "usage": float(snapshot.usage[index]),
            "any_usage": bool(snapshot.usage.any()),
            "lift": float(lifts[index]) if len(lifts) else 0.0,
            "ratio": ratio if math.isfinite(ratio) else None,
            "weighs_share": self._weighs_share(),
        }

    def _weighs_share(self) -> bool | None:
        """Whether any score changes with the account's usage; None if the policy is not used."""
        if self._plan.fallback_reason is not None:
            return None
        snapshot, policy, memory = self._snapshot, self.cycle.policy, self._plan.memory
        account = int(snapshot.pending.jobs.account[self.place])
        unused = np.zeros_like(snapshot.usage)
        used = unused.copy()
        used[account] = 1.0
        without, with_usage = (
            policy.decide(replace(snapshot, usage=usage), memory).scores for usage in (unused, used)
        )
        return not np.array_equal(without, with_usage)

    def _guard_rails(self) -> list[dict[str, Any]]:
        """Rails that changed the scores, and the job's place among the ordered ones around it."""
        if self._plan.fallback_reason is not None or not len(self._plan.order):
            return []
        decision = self.cycle.policy.decide(self._plan.seen, self._plan.memory)
        acted = []
        for rail in self.cycle.guard_rails:
            after = rail.check(decision, self._snapshot)
            if after is not decision and after.scores is not decision.scores:
                places = (self._place_by(decision.scores), self._place_by(after.scores))
                names = ("rail", "place_before", "place_after")
                acted.append(dict(zip(names, (rail_name(rail), *places), strict=True)))
            decision = after
        return acted

    def _place_by(self, scores: FloatArray) -> int | None:
        order = orderable_by_score(self._snapshot, scores, self.cycle.untouched).tolist()
        return order.index(self.place) + 1 if self.place in order else None

    def _own_order(self) -> int:
        """Places by which its user's nice put it later among his jobs; below 0 for earlier."""
        own = own_jobs(self._snapshot.pending)
        scored = orderable_by_score(
            self._snapshot, self._plan.decision.scores, self.cycle.untouched
        ).tolist()
        before, after = (
            [place for place in order if own[place] == own[self.place]]
            for order in (scored, self._plan.order)
        )
        ordered = self.place in after and not self._plan.releases
        return after.index(self.place) - before.index(self.place) if ordered else 0

    def _priority(self) -> dict[str, Any]:
        pending = self._snapshot.pending
        native, factor = int(pending.native_priority[self.place]), int(pending.factor[self.place])
        return {
            "native": native,
            "factor": factor,
            "total": native + factor,
            "nice": int(pending.nice[self.place]),
        }

    def _write(self) -> dict[str, Any] | None:
        """What a cycle would write to the job; None where it would write nothing."""
        job = self._snapshot.pending.jobs.job_id[self.place]
        for place, change in enumerate(self._plan.changes):
            if change.job_id == job:
                in_time = place < self.cycle.settings.max_writes
                return {"old": change.old, "new": change.new, "this_cycle": in_time}
        factor = int(self._snapshot.pending.factor[self.place])
        if self._plan.releases and factor:
            return {"old": factor, "new": 0, "this_cycle": True}
        return None

    def _neighbours(self) -> list[dict[str, Any]]:
        """The job and those next to it in the decided order."""
        order = [place for place in self.considered.in_order if self.considered.rank[place]]
        if self.place not in order:
            return []
        middle = order.index(self.place)
        near = order[max(middle - NEIGHBOURS, 0) : middle + NEIGHBOURS + 1]
        return [self._at(place) for place in near]

    def _at(self, place: int) -> dict[str, Any]:
        other = Explanation(cycle=self.cycle, considered=self.considered, place=place)
        facts, ranks = other._facts(), other._ranks()
        kept = ("job", "user", "partition", "class", "wait", "untouched")
        return {
            "rank": ranks["decided"],
            "site_rank": ranks["site"],
            **{name: facts[name] for name in kept},
            "account": self._snapshot.accounts[int(self._snapshot.pending.jobs.account[place])],
            "score": other._score(),
        }
