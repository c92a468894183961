"""Why one pending job is where it is: the document of `slurm-rl explain`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.kind import JobRecord
from slurm_rl_plugin.batch_systems.port import HidesFactors
from slurm_rl_plugin.brokers.live.offer_worth import UNKNOWN_RUN_TIME
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.nodes import NodeNow, most_free
from slurm_rl_plugin.domain.resources import LICENCE_PREFIX
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, JobNotPending, SlurmRLError
from slurm_rl_plugin.hook.audit.reader import AuditFilter, tail_of
from slurm_rl_plugin.hook.cycle.explanation import Explanation
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.services.configured_site import chosen_batch_system
from slurm_rl_plugin.services.forecast_client import foretold_start
from slurm_rl_plugin.services.queue_reading import (
    QueueLook,
    experiment_sentence,
    limit_sentence,
    look_at_queue,
)
from slurm_rl_plugin.simulator.workloads.node_constraints import kinds_that_meet
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.utility.time_utility import time_utility

NONE_TOLD: Mapping[str, float] = MappingProxyType({})
#: Bytes at the end of the audit log that are searched, and lines shown.
AUDIT_TAIL, AUDIT_LINES = 20_000_000, 3


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
        from slurm_rl_plugin.learning.export.model import import_model  # noqa: PLC0415 - extra

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
    if isinstance(system, HidesFactors) and document["untouched"] in ("held", "not_eligible"):
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
