"""Limits on what jobs of a QOS, an account, a user or a class may take together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.nodes.node_state import ROUNDING
from slurm_rl_plugin.units import FloatArray, IntArray


class GroupLimits(NamedTuple):
    """Groups of jobs and what each may have running at once.

    Attributes:
        groups: those that each job belongs to, shape [n, groups of a job]; -1 for none.
        most: of each group, shape [groups, kinds]: each resource, each licence, nodes, jobs; inf
            for no limit.
        used: of each group now, the same.
        amounts: what a job counts, shape [n, kinds].
    """

    groups: IntArray
    most: FloatArray
    used: FloatArray
    amounts: FloatArray

    def of_jobs(self, jobs: IntArray) -> GroupLimits:
        """The same for some of the jobs, of which some may come twice."""
        amounts = self.amounts[jobs] if len(self.amounts) else self.amounts
        return self._replace(groups=self.groups[jobs], amounts=amounts)


def no_limits(jobs: int, kinds: int) -> GroupLimits:
    """No group at all."""
    return GroupLimits(
        groups=np.zeros((jobs, 0), dtype=np.int64),
        most=np.zeros((0, kinds)),
        used=np.zeros((0, kinds)),
        amounts=np.zeros((0, kinds)),
    )


@compiled_borrowing
def within_limits(limits: GroupLimits, job: int) -> bool:
    """Whether the groups of a job have room for it."""
    for place in range(limits.groups.shape[1]):
        group = limits.groups[job, place]
        if group < 0:
            continue
        for kind in range(limits.most.shape[1]):
            wanted = limits.used[group, kind] + limits.amounts[job, kind]
            if limits.amounts[job, kind] > 0.0 and wanted > limits.most[group, kind] + ROUNDING:
                return False
    return True


@compiled_borrowing
def count_in_groups(limits: GroupLimits, job: int, sign: float) -> None:
    """Add a job to its groups (sign 1), or take it from them (-1)."""
    for place in range(limits.groups.shape[1]):
        group = limits.groups[job, place]
        if group < 0:
            continue
        for kind in range(limits.most.shape[1]):
            limits.used[group, kind] += sign * limits.amounts[job, kind]
