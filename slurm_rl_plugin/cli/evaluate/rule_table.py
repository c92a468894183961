"""How a rule was chosen on the training part, for people."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.cli.tables import print_table


def print_rules(slowdowns: Mapping[str, float], how: str = "over runs") -> None:
    """The rules with their mean bounded slowdown on the training part, the best first."""
    print(f"mean bounded slowdown on the training part ({how}):")
    print_table(["RULE", "BSLD"], sorted(slowdowns.items(), key=lambda each: each[1]))
