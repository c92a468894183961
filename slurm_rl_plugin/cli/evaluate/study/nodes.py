"""What a study on nodes finds beside: each resource, each partition, and what is not simulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.learning.evaluation.on_machine import machine_figures
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.utility.summary import ScheduledJobs


def machine_entry(machine: Machine) -> dict[str, Any]:
    """Its nodes, what it bills, and what of its configuration is not simulated."""
    weights = {each.name: dict(each.billing) for each in machine.partitions if each.billing}
    factors = {name: each for name, each in machine.billing.factors.items() if each != 1.0}
    return {
        "name": machine.name,
        "nodes": machine.nodes,
        "resources": dict(zip(machine.resources, machine.capacity.tolist(), strict=True)),
        "partitions": [each.name for each in machine.partitions],
        **({"billing_weights": weights} if weights else {}),
        **({"usage_factors": factors} if factors else {}),
        "not_simulated": list(machine.left_out),
    }


def figures_on_nodes(
    prepared: PreparedLog, schedule: ScheduledJobs, measured: slice
) -> dict[str, Any]:
    """`resources` and `partitions` of a policy; empty where jobs ran on a pool of processors.

    Args:
        prepared: the jobs.
        schedule: the same with the starts that a policy gave them.
        measured: places of the jobs that count for partitions.
    """
    if prepared.machine is None:
        return {}
    counted = np.zeros(len(schedule.submit), dtype=np.bool_)
    counted[measured] = True
    return machine_figures(prepared, schedule, prepared.machine, counted)
