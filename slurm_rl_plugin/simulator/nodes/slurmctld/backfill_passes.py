"""How a pass of backfill looks at the queue, and space for it."""

from __future__ import annotations

from typing import NamedTuple

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.fitting_ends import FittingEnds
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits
from slurm_rl_plugin.simulator.nodes.slurmctld.time_slots import TimeSlots
from slurm_rl_plugin.units import FloatArray, IntArray


class BackfillPasses(NamedTuple):
    """How backfill looks at the queue, and space for it.

    Attributes:
        window, resolution: seconds.
        most_jobs, most_of_user: jobs looked at in a pass; 0 users' jobs for no bound.
        user: of each job, shape [n]; -1 where unknown.
        seen: jobs of each user that were looked at, shape [users + 1].
        slots: what is planned.
        earliest: when a job of a template (its shape and request) was planned last in this pass,
            and the number of that pass, shape [templates, 2]; another of them starts no earlier.
        template: of each job, shape [n].
        passes: number of the pass, shape [1].
        changes: starts, plans and begins of passes, shape [1].
        unplanned: `changes` when a job of a template last found no place in the plan, shape
            [templates]; until something changes, no other of them finds one.
        looked_at: space for places of the queue, shape [n].
        hopeless: number of the pass in which no job of a template can start, shape [templates].
        fitting: after whose end nodes hold jobs of one node.
        late: space for nodes of running jobs past their limit, as a set.
        open: space for nodes on which the last job that may start now could, as a set.
    """

    window: float
    resolution: float
    most_jobs: int
    most_of_user: int
    user: IntArray
    seen: IntArray
    slots: TimeSlots
    earliest: FloatArray
    template: IntArray
    passes: IntArray
    changes: IntArray
    unplanned: IntArray
    looked_at: IntArray
    hopeless: IntArray
    fitting: FittingEnds
    late: NodeBits
    open: NodeBits


@compiled_inline
def is_looked_at(passes: BackfillPasses, job: int) -> bool:
    """Whether the user of a job has not had as many looked at as he may."""
    if passes.most_of_user == 0:
        return True
    user = passes.user[job]
    passes.seen[user] += 1
    return passes.seen[user] <= passes.most_of_user


@compiled_borrowing
def forget_users(passes: BackfillPasses) -> None:
    """No job of any user has been looked at yet."""
    for user in range(len(passes.seen)):
        passes.seen[user] = 0
