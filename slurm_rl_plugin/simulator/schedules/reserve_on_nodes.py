"""The reserve on nodes: a limit on what batch jobs may have together of each resource.

As a live batch system keeps it (Slurm: GrpTRES of a QOS; PBS: max_run_res): one more group of the
machine, whose limits follow the wanted reserve. `kernel.class_limit` says when and how far for
processors; the limits of other resources go with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.nodes.machine_now import GroupLimits, MachineNow, NodeMachine
from slurm_rl_plugin.simulator.nodes.requests import CPU
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class LimitOnBatch(NamedTuple):
    """What the limit of batch jobs is made of, and what stands."""

    #: Its place among the groups of the machine, behind it that of interactive jobs, which nothing
    #: limits; -1 where nothing is kept free; shape [1].
    group: IntArray
    #: What the machine has of each kind, shape [kinds]; 0 for what is not kept free.
    whole: FloatArray
    kept: FloatArray  #: of each kind where as many processors are as may be, shape [kinds]
    widest: FloatArray  #: of each kind, what always fits, shape [kinds]
    in_force: FloatArray  #: limit of each kind but CPUs that stands, inf for none, shape [kinds]


def batch_limit(rule: ClassLimit | None, machine: NodeMachine) -> LimitOnBatch:
    """Before the first decision.

    Args:
        rule: how the reserve is kept; None for none.
    """
    kinds = len(machine.kinds)
    whole, kept, widest = np.zeros(kinds), np.zeros(kinds), np.ones(kinds)
    for name, most in {} if rule is None else rule.most_resources.items():
        if rule is not None and name in machine.kinds[1:]:
            place = machine.kinds.index(name)
            whole[place] = np.floor(machine.together.get(name, 0.0))
            kept[place] = most
            widest[place] = max(rule.widest_batch_resources.get(name, 1.0), 1.0)
    group = -1 if rule is None else len(machine.limits.most)
    return LimitOnBatch(np.array([group]), whole, kept, widest, np.full(kinds, np.inf))


def with_batch_group(limits: GroupLimits, interactive: BoolArray) -> GroupLimits:
    """The groups of a machine, behind them that of batch jobs and that of interactive ones.

    Raises:
        SimulationError: what jobs count against limits is not known.
    """
    if len(limits.amounts) != len(interactive):
        raise SimulationError("a reserve on nodes needs to know what each job counts.")
    first, kinds = limits.most.shape
    column = np.where(interactive, first + 1, first).astype(np.int64)
    return limits._replace(
        groups=np.column_stack([limits.groups, column]),
        most=np.vstack([limits.most, np.full((2, kinds), np.inf)]),
        used=np.zeros((first + 2, kinds)),
    )


def asks_for_much(rule: ClassLimit, machine: NodeMachine) -> BoolArray:
    """Which jobs narrower ones may starve below a limit of another resource, shape [n]."""
    much = np.zeros(len(machine.limits.amounts), dtype=np.bool_)
    for name in rule.most_resources:
        if name in machine.kinds:
            fits = 1.0
            if name == MEMORY:
                fits = rule.widest_batch_resources.get(name, np.inf)
            much |= machine.limits.amounts[:, machine.kinds.index(name)] > fits
    return much


@compiled_borrowing
def leave_out_batch_limit(machine: MachineNow, limit: LimitOnBatch) -> None:
    """Let batch jobs have all: whether any job has room is asked before the limit is made."""
    group = limit.group[0]
    if group >= 0:
        for kind in range(len(limit.in_force)):
            machine.limits.most[group, kind] = np.inf


@compiled_borrowing
def set_batch_limit(cluster: Cluster, machine: MachineNow, limit: LimitOnBatch) -> None:
    """Limit batch jobs as `reserve_in_force` has just decided.

    Args:
        cluster: when its limit changed, and when to look again, is changed in place.
        machine: the limits of its batch group are changed.
        limit: what stands of other resources is changed.
    """
    group = limit.group[0]
    if group < 0:
        return
    _change_others(cluster, machine, limit)
    most = machine.limits.most
    for kind in range(len(limit.in_force)):
        most[group, kind] = limit.in_force[kind]
    if cluster.state[0].in_force > 0.0:
        most[group, CPU] = cluster.state[0].capacity - cluster.state[0].in_force


@compiled_borrowing
def _wanted_limit(cluster: Cluster, machine: MachineNow, limit: LimitOnBatch, kind: int) -> float:
    """What batch jobs should have of a kind at most now; inf for no limit."""
    wanted, whole = cluster.state[0].wanted, limit.whole[kind]
    if wanted == 0.0 or limit.kept[kind] == 0.0:
        return np.inf
    kept = np.ceil(limit.kept[kind] * wanted / cluster.state[0].most)
    in_use = np.ceil(machine.limits.used[limit.group[0] + 1, kind])
    most = max(whole - in_use - kept, limit.widest[kind])
    return most if most < whole else np.inf


@compiled_borrowing
def _change_others(cluster: Cluster, machine: MachineNow, limit: LimitOnBatch) -> None:
    """Change the limits of other resources than CPUs where that may be; all change together."""
    now, state, differs = cluster.state[0].now, cluster.state[0], False
    for kind in range(len(limit.in_force)):
        differs |= _wanted_limit(cluster, machine, limit, kind) != limit.in_force[kind]
    if not differs:
        return
    may_change = state.set_at + state.change_interval
    if state.set_at != now and state.starving == 0.0 and now < may_change:
        state.wake = min(state.wake, may_change)
        return
    for kind in range(len(limit.in_force)):
        limit.in_force[kind] = _wanted_limit(cluster, machine, limit, kind)
    state.set_at = now
