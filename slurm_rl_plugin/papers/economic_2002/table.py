"""All combinations of machine and user functions, a row a machine function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002.experiment import TABULATED, Economic
from slurm_rl_plugin.papers.economic_2002.markets import EASY, EXACT, RESCHEDULED, Market


def combination_rows(found: Economic) -> Iterator[dict[str, Any]]:
    """Average weighted response time over that of EASY with user estimates, by user function."""
    for workload, results in found.logs.items():
        easy = results.conventional[EASY]
        for machines in TABULATED:
            for way in (EXACT, RESCHEDULED):
                for owner in MACHINE_FUNCTIONS:
                    ratios = {
                        user: results.response(
                            Market(configuration=machines, owner=owner, user=user, way=way)
                        )
                        / easy
                        for user in USER_FUNCTIONS
                    }
                    row = {"workload": workload, "machines": machines, "way": way, "owner": owner}
                    yield {**row, **ratios}
