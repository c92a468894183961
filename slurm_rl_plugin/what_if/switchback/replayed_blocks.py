"""Each block played again from the queue that it met, by the site's order and by ours.

How much users wait in a block is nearly all a matter of who came and what ran. A replay of the
block under each order, of the same jobs from the same queue, takes that away, so that weeks suffice
where raw waits would ask for years. Nothing hangs on the replay being right: it knows no coin, so
what it says of a block is the same whoever held it, and a wrong one makes intervals wider, not
wrong (control variates; Lin 2013 for the average of both).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, SITE, TurnBlock
from slurm_rl_plugin.forecasts.replays.queue_now import QueueNow
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf
from slurm_rl_plugin.forecasts.replays.resumed_queue import resumed_queue
from slurm_rl_plugin.simulator.kernel.workload_history import WorkloadHistory
from slurm_rl_plugin.simulator.nodes.node_machine import NodeMachine
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.fair_share import FairShare
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.what_if.switchback.costs import GOALS, JobTimes, costs


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCosts:
    """What blocks cost by each of GOALS, shape [blocks, goals].

    Attributes:
        measured: on the cluster.
        by_site: in a replay of the same block under the site's order.
        by_ours: in one under ours.
    """

    measured: FloatArray
    by_site: FloatArray
    by_ours: FloatArray

    def __len__(self) -> int:
        return len(self.measured)

    @classmethod
    def none(cls) -> BlockCosts:
        """Of no block."""
        nothing = np.empty((0, len(GOALS)))
        return cls(measured=nothing, by_site=nothing, by_ours=nothing)

    def joined(self, later: BlockCosts) -> BlockCosts:
        """These and those of later blocks."""
        return BlockCosts(
            measured=np.vstack([self.measured, later.measured]),
            by_site=np.vstack([self.by_site, later.by_site]),
            by_ours=np.vstack([self.by_ours, later.by_ours]),
        )

    def first(self, blocks: int) -> BlockCosts:
        """Those of the first blocks alone."""
        return BlockCosts(
            measured=self.measured[:blocks],
            by_site=self.by_site[:blocks],
            by_ours=self.by_ours[:blocks],
        )

    def as_json(self) -> dict[str, list[list[float]]]:
        """What `of_json` reads."""
        return {each.name: getattr(self, each.name).tolist() for each in fields(self)}

    @classmethod
    def of_json(cls, document: Any) -> BlockCosts:
        """What `as_json` made.

        Raises:
            KeyError, TypeError, ValueError: it is no such document.
        """
        names = [each.name for each in fields(cls)]
        tables = [np.array(document[name], dtype=np.float64) for name in names]
        shaped = [table.reshape(-1, len(GOALS)) for table in tables]
        if len({len(each) for each in shaped}) != 1:
            raise ValueError("costs of as many blocks on the cluster as in replays")
        return cls(**dict(zip(names, shaped, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCluster:
    """A cluster whose blocks are played again.

    Attributes:
        times: every known job, with its real start.
        orders: SITE and OURS -> how it orders the queue.
        settings: of its batch system.
        machine: its nodes, for these jobs; None for a pool of processors.
        usage: what each account was charged until a time, decayed; None where no order asks.
        fair: the same of accounts and users; see QueueNow.
        past: what runs had told until a time; None where no order asks, or `times` says it.
    """

    times: JobTimes
    orders: dict[str, OrderOf]
    settings: SimulationSettings
    machine: NodeMachine | None = None
    usage: Callable[[float], FloatArray] | None = None
    fair: Callable[[float], FairShare | None] | None = None
    past: Callable[[float], WorkloadHistory] | None = None

    def costs(self, block: TurnBlock) -> BlockCosts:
        """What a block cost, and would have cost under either order."""
        begin, end = block.counted_from, block.end
        measured = costs(self.times, begin, end)
        by = {arm: costs(self.played(block, arm), begin, end) for arm in (SITE, OURS)}
        return BlockCosts(measured=measured[None], by_site=by[SITE][None], by_ours=by[OURS][None])

    def played(self, block: TurnBlock, arm: str) -> JobTimes:
        """The jobs of a block as they would have started under an order, from its begin on.

        Args:
            block: that is over.
            arm: whose order, SITE or OURS.
        """
        now, start, submit = block.begin, self.times.start, self.times.jobs.submit
        has_started = start <= now
        runs = np.flatnonzero(has_started & (start + self.times.jobs.run_time > now))
        waits = np.flatnonzero((submit <= now) & ~has_started)
        comes = np.flatnonzero((submit > now) & (submit < block.end))
        jobs = np.concatenate([np.sort(np.concatenate([runs, waits])), comes])
        known = self.times.jobs
        if self.past is not None:  # no order may know what came of runs only later
            known = known._replace(past=self.past(now))
        chosen = known.select(jobs)
        running = runs[np.lexsort((runs, start[runs]))]
        queue = QueueNow(
            now=now,
            running=running,
            start=start[running],
            pending=waits,
            usage=np.empty(0) if self.usage is None else self.usage(now),
            fair=None if self.fair is None else self.fair(now),
        )
        order = self.orders[arm](chosen, jobs)
        run = resumed_queue(queue, chosen, jobs, order, self.settings, self.machine)
        run.run_until(block.end)
        return JobTimes(jobs=chosen, start=run.cluster.start, capacity=self.times.capacity)


def costs_of_blocks(
    cluster: ReplayedCluster,
    blocks: tuple[TurnBlock, ...],
    progress: Callable[[int], None] | None = None,
) -> BlockCosts:
    """What blocks that are over cost.

    Args:
        cluster: on which they were held.
        blocks: in order of time.
        progress: called with 1 for each that is done.
    """
    found = BlockCosts.none()
    for block in blocks:
        found = found.joined(cluster.costs(block))
        if progress is not None:
            progress(1)
    return found
