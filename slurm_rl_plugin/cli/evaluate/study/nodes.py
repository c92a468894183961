"""What a study on nodes tells beside: each resource, each partition, and what is not simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slurm_rl_plugin.cli.tables import print_table, printable, span_text
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.utility.summary import ScheduledJobs

if TYPE_CHECKING:  # it imports the simulator, which a head node need not have
    from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog


def machine_entry(machine: Machine) -> dict[str, Any]:
    """Its nodes, what it bills, and what of its configuration is not simulated."""
    weights = {each.name: dict(each.billing) for each in machine.partitions if each.billing}
    return {
        "name": machine.name,
        "nodes": machine.nodes,
        "resources": dict(zip(machine.resources, machine.capacity.tolist(), strict=True)),
        "partitions": [each.name for each in machine.partitions],
        **({"billing_weights": weights} if weights else {}),
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
    from slurm_rl_plugin.learning.evaluation.on_machine import (  # noqa: PLC0415 - the simulator
        machine_figures,
    )

    if prepared.machine is None:
        return {}
    counted = np.zeros(len(schedule.submit), dtype=np.bool_)
    counted[measured] = True
    return machine_figures(prepared, schedule, prepared.machine, counted)


def print_on_nodes(machine: Mapping[str, Any], policies: Mapping[str, Mapping[str, Any]]) -> None:
    """The machine's resources and partitions under each policy, and what is not simulated of it.

    Args:
        machine: as JSON has it.
        policies: policy -> its `resources` and `partitions`, as JSON has them.
    """
    some = next(iter(policies.values()))
    print(f"\nOn {machine['nodes']} nodes; part of each resource in use, and what was asked for:")
    rows = [
        [
            name,
            each["capacity"],
            each["load"],
            *(of["resources"][name]["utilization"] for of in policies.values()),
        ]
        for name, each in some["resources"].items()
    ]
    print_table(["RESOURCE", "THERE", "ASKED", *policies], rows)
    print("Mean wait, longest wait by partition:")
    waits = [
        [
            name,
            each["jobs"],
            *(
                f"{span_text(of['partitions'][name]['mean_wait'])}, "
                f"{span_text(of['partitions'][name]['max_wait'])}"
                for of in policies.values()
            ),
        ]
        for name, each in some["partitions"].items()
    ]
    print_table(["PARTITION", "JOBS", *policies], waits)
    for sentence in machine["not_simulated"]:
        print(printable(f"Not simulated: {sentence}"))
