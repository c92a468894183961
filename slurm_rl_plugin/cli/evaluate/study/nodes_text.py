"""What a study on nodes found, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.cli.tables import print_table, printable, span_text


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
