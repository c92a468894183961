"""Limits that an account takes over from those above it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from slurm_rl_plugin.domain.machine import ResourceLimit


def with_inherited(
    own: Mapping[str, ResourceLimit], parent_of: Mapping[str, str]
) -> dict[str, ResourceLimit]:
    """Limits of accounts by name, each with what it says nothing of itself as its parents say it.

    Limits of a group of jobs are not taken over: they hold for all accounts below together.

    Args:
        own: what each account says.
        parent_of: the account above each.
    """
    found: dict[str, ResourceLimit] = {}
    for name in own:
        limit, above, seen = own[name], parent_of.get(name), {name}
        while above is not None and above not in seen:
            limit = _over(limit, own.get(above, ResourceLimit()))
            seen.add(above)
            above = parent_of.get(above)
        found[name] = limit
    return found


def _over(limit: ResourceLimit, above: ResourceLimit) -> ResourceLimit:
    return replace(
        limit,
        user={**above.user, **limit.user},
        job={**above.job, **limit.job},
        longest=limit.longest if limit.longest < math.inf else above.longest,
    )
