"""Evaluate several policies on the same jobs, measured as docs/research/definitions.md says."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.ordering_rules import PREDICTED_RULES, STATIC_RULES
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.q_network import load_q_network, with_goals
from slurm_rl_plugin.policies.registry import (
    NATIVE,
    NamedPolicy,
    PolicyKind,
    named_policy,
    unknown_policy,
)
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.run import simulate_in_partitions, simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.recorded_runs import recent_runs
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A policy to evaluate: a rule, a network, or a policy that is called at each decision."""

    name: str  #: of a rule in the registry, or the name of the network or policy in reports
    network: QNetwork | EchoStateNetwork | None = None  #: simulated in the compiled loop
    policy: Policy | None = None  #: called at each decision, if the compiled loop cannot run it
    reserve: int = 0  #: processors that are always kept free of batch work
    #: The policy's own estimates, as live; None takes those of the workload. With backfilling the
    #: policy is called at each decision, because the plan uses requests.
    estimates: RunTimeEstimate | None = None


def candidate_of_model(name: str, path: Path) -> Candidate:
    """A model of this package as it runs live, with the estimates of its training."""
    from slurm_rl_plugin.learning.onnx_file import import_model  # noqa: PLC0415 - extra

    network, policy = import_model(path), load_q_network(path)
    if not isinstance(policy.estimates, ClassMedian):
        return Candidate(name=name, network=network)
    return Candidate(name=name, network=network, policy=policy, estimates=policy.estimates)


def estimates_of(kind: str, training_log: PreparedLog) -> RunTimeEstimate | None:
    """The estimate "oracle" (None), "requested", or "class-median" with medians of the log."""
    if kind == "oracle":
        return None
    if kind == "requested":
        return RequestedLimit()
    return medians_of(training_log)


def medians_of(*logs: PreparedLog) -> ClassMedian:
    """Median run time of each class over logs that are not measured."""
    return ClassMedian.of(
        np.concatenate([each.log.run_time for each in logs]),
        np.concatenate([each.interactive for each in logs]),
    )


def starts_under(
    candidate: Candidate, prepared: PreparedLog, workload: Workload, settings: SimulationSettings
) -> FloatArray:
    """When each job starts under the candidate, seconds, shape [n]."""
    settings = replace(
        settings,
        goals=prepared.goals(settings.goals),
        reserve=max(settings.reserve, candidate.reserve),
    )
    if candidate.estimates is not None:
        shared = prepared.machine is None and not prepared.partition_capacities
        if shared and settings.backfilling == "none":  # only the policy uses estimates
            workload = prepared.workload(candidate.estimates)
        else:
            candidate = replace(candidate, network=None)
    if goes_by_predictions(candidate):
        prepared = knowing_recent_runs(prepared, workload, settings)
    if prepared.machine is not None and candidate.name != NATIVE:
        return _starts_on_nodes(candidate, prepared, workload, settings, prepared.machine)
    if prepared.partition_capacities and candidate.name != NATIVE:
        order = _order_in_partitions(candidate, prepared, workload)
        parts, capacities = prepared.log.partition, prepared.partition_capacities
        return simulate_in_partitions(workload, parts, capacities, order, settings).start
    if candidate.network is not None:
        return simulate_network(workload, candidate.network, settings).start
    if candidate.policy is not None:
        policy = with_goals(candidate.policy, settings.goals)
        return simulate_policy(prepared, workload, policy, settings).start
    return _starts_by_rule(_rule(candidate), prepared, workload, settings)


def _starts_by_rule(
    named: NamedPolicy, prepared: PreparedLog, workload: Workload, settings: SimulationSettings
) -> FloatArray:
    if named.kind is PolicyKind.RECORDED:
        if missing := int(np.isnan(prepared.log.start).sum()):
            raise ConfigurationError(
                f"policy native needs recorded starts, which {missing} jobs of this log lack."
            )
        return prepared.log.start
    if named.kind is PolicyKind.RESERVE:
        return simulate_policy(prepared, workload, named.live(), settings).start
    return simulate_order(workload, _order_by_rule(named, prepared, workload), settings).start


def _order_by_rule(named: NamedPolicy, prepared: PreparedLog, workload: Workload) -> QueueOrder:
    if named.kind is PolicyKind.WAITING:
        return QueueOrder(rule=named.name)
    jobs = prepared.jobs()
    if named.kind is PolicyKind.PREDICTED:
        recent = prepared.recent_runs
        assert recent is not None, "starts_under looks them up"
        rule = PREDICTED_RULES[named.name]
        return QueueOrder(scores=rule(jobs.size, recent.predicted, recent.rate))
    since_begin = replace(jobs, submit=jobs.submit - prepared.begin)  # matters for f1 only
    scores = STATIC_RULES[named.name](since_begin, workload.estimate)
    return QueueOrder(scores=np.asarray(scores, dtype=np.float64))


def _rule(candidate: Candidate) -> NamedPolicy:
    named = named_policy(candidate.name)
    if named is None or not named.is_rule:
        raise unknown_policy(candidate.name, live=False)
    return named


def _starts_on_nodes(
    candidate: Candidate,
    prepared: PreparedLog,
    workload: Workload,
    settings: SimulationSettings,
    machine: Machine,
) -> FloatArray:
    named = named_policy(candidate.name)
    settings = replace(settings, half_life=machine.weights.half_life)
    if candidate.name == SITES_OWN:
        order = QueueOrder(rule=SITES_OWN)
    elif named is not None and named.kind is PolicyKind.RESERVE:
        scores = STATIC_RULES["interactive-first"](prepared.jobs(), workload.estimate)
        order = QueueOrder(scores=np.asarray(scores, np.float64))
        settings = replace(settings, reserve=max(settings.reserve, named.reserve))
    else:
        order = _order_in_partitions(candidate, prepared, workload)
    if candidate.name == SITES_OWN or math.isfinite(settings.influence):
        order = replace(order, site=site_priority(prepared, machine))
    return starts_of_order(order, prepared, workload, settings)


def starts_of_order(
    order: QueueOrder, prepared: PreparedLog, workload: Workload, settings: SimulationSettings
) -> FloatArray:
    """When each job starts under an order of the queue, on the log's nodes if any, seconds, [n]."""
    settings = replace(settings, goals=prepared.goals(settings.goals))
    if prepared.machine is None:
        return simulate_order(workload, order, settings).start
    nodes = node_machine(prepared.log, prepared.machine)
    return simulate_on_nodes(workload, nodes, order, settings).start


def goes_by_predictions(candidate: Candidate) -> bool:
    """Whether a candidate is a rule by predicted run times."""
    named = named_policy(candidate.name)
    return named is not None and named.kind is PolicyKind.PREDICTED


def knowing_recent_runs(
    prepared: PreparedLog, workload: Workload, settings: SimulationSettings
) -> PreparedLog:
    """The log with users' last runs at each submission, for rules by predicted run times.

    Without recorded starts those of first come, first served are used, so that no run is known
    before its end.
    """
    if prepared.recent_runs is not None:
        return prepared
    seen = prepared
    if np.isnan(prepared.log.start).any():
        start = starts_under(Candidate(name="fifo"), prepared, workload, settings.without_hook)
        known = np.where(np.isnan(prepared.log.start), start, prepared.log.start)
        seen = replace(prepared, log=replace(prepared.log, start=known))
    return replace(prepared, recent_runs=recent_runs(seen))


def _order_in_partitions(
    candidate: Candidate, prepared: PreparedLog, workload: Workload
) -> QueueOrder:
    driven = candidate.policy is not None or isinstance(candidate.network, EchoStateNetwork)
    if isinstance(candidate.network, QNetwork) and not driven:
        return QueueOrder(network=candidate.network)
    named = None if driven else _rule(candidate)
    if named is None or named.kind is PolicyKind.RESERVE:
        raise ConfigurationError(
            f"{candidate.name} can only run on processors that all jobs share: leave out "
            "--partitions and --cluster."
        )
    return _order_by_rule(named, prepared, workload)


def schedule_of(
    prepared: PreparedLog, start: FloatArray, settings: SimulationSettings
) -> ScheduledJobs:
    """The jobs of a log with the starts that a policy gave them."""
    return ScheduledJobs(
        submit=prepared.log.submit,
        start=start,
        run_time=prepared.log.run_time,
        processors=prepared.log.processors,
        account=prepared.account,
        interactive=prepared.interactive,
        shares=prepared.shares,
        capacity=settings.capacity,
        billed=prepared.billed,
        utilities=prepared.utilities,
    )


def evaluate(
    candidate: Candidate,
    prepared: PreparedLog,
    estimates: RunTimeEstimate | None,
    settings: SimulationSettings,
    *,
    drop: tuple[int, int] = (0, 0),
) -> dict[str, Any]:
    """One policy's entry of `evaluate --json`; see `summarise` for its fields."""
    start = starts_under(candidate, prepared, prepared.workload(estimates), settings)
    return summarise(
        schedule_of(prepared, start, settings),
        drop=drop,
        accounts=prepared.accounts,
    )
