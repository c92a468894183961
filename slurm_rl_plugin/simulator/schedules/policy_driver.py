"""Any policy drives the simulated cluster, decision by decision, through the kernel's functions."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.domain import (
    EndedJobs,
    JobTable,
    Memory,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import ResourcesNow
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.simulator.kernel.class_limit import (
    order_by_rail,
    rail_orders,
    reserve_in_force,
)
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, decision_time, next_event
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING, anything_fits, dispatch_in_order
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    finished_schedule,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import IntArray


def snapshot_of(
    prepared: PreparedLog,
    jobs: JobTable,
    cluster: Cluster,
    pending: PendingJobs,
    started: IntArray | None = None,
    ended: IntArray | None = None,
) -> QueueSnapshot:
    """What a policy sees of a simulated cluster now, with these started and ended jobs."""
    running = np.sort(cluster.running.end_job[: cluster.state[0].running])
    nothing = empty_job_table()
    report = StartedJobs(jobs=nothing, start=nothing.submit)
    if started is not None:
        report = StartedJobs(jobs=jobs.select(started), start=cluster.start[started])
    over = EndedJobs.none()
    if ended is not None:
        start = cluster.start[ended]
        end = start + prepared.log.run_time[ended]
        over = EndedJobs(jobs=jobs.select(ended), start=start, end=end)
    return QueueSnapshot(
        now=float(cluster.state[0].now),
        pending=pending,
        running=RunningJobs(jobs=jobs.select(running), start=cluster.start[running]),
        started=report,
        capacity=int(cluster.state[0].capacity),
        accounts=prepared.accounts,
        partitions=prepared.log.partitions,
        shares=prepared.shares,
        usage=current_usage(cluster),
        ended=over,
        users=prepared.log.users,
        resources=None if prepared.machine is None else _resources(prepared.machine, jobs, running),
    )


def _resources(machine: Machine, jobs: JobTable, running: IntArray) -> ResourcesNow:
    used = np.zeros(len(machine.resources))
    if jobs.requests is not None:
        # after the columns of nodes come licences
        used = jobs.requests.total[running].sum(axis=0)[: len(used)]
    whole = machine.capacity
    return ResourcesNow(
        names=machine.resources, capacity=whole, free=whole - used, beside=machine.beside
    )


def simulate_policy(
    prepared: PreparedLog, workload: Workload, policy: Policy, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate any policy object; its reserve holds from each decision to the next.

    It makes thousands of decisions a second, the compiled loop hundreds of thousands; for models
    that only onnxruntime can run, and for policies in Python. The reserve
    is the larger of the settings' and the policy's.
    """
    jobs = prepared.jobs()
    cluster = settings.empty_cluster(workload)
    backfilling = BACKFILLING[settings.backfilling]
    memory: Memory | None = None
    known_ends, known_starts = 0, 0  # that the policy knows
    while not np.isinf(event := next_event(cluster)):
        advance(cluster, decision_time(event, settings.cycle))
        if cluster.state[0].idle == 0 or not anything_fits(cluster):
            continue
        waiting = cluster.waiting
        pending = PendingJobs.untouched(jobs.select(waiting))
        ended = cluster.ended[known_ends : cluster.state[0].ended]
        started = cluster.started[known_starts : cluster.state[0].started]
        known_ends, known_starts = known_ends + len(ended), known_starts + len(started)
        snapshot = snapshot_of(prepared, jobs, cluster, pending, started, ended)
        decision = policy.decide(snapshot, memory)
        memory = decision.memory
        cluster.state[0].decisions += 1
        order = waiting[np.argsort(-decision.scores, kind="stable")]
        reserve = min(max(decision.reserve or 0, settings.reserve), settings.capacity)
        in_force = reserve_in_force(cluster, reserve)
        if rail_orders(cluster):
            order_by_rail(cluster, order, len(order), cluster.ordered)
            order = cluster.ordered
        dispatch_in_order(cluster, order, len(waiting), backfilling, in_force)
    return finished_schedule(cluster)
