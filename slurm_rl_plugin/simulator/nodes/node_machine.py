"""The nodes that a workload runs on, what its jobs ask of them, and how slurmctld looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.domain.machine import BackfillSettings
from slurm_rl_plugin.simulator.nodes.group_limits import GroupLimits
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, no_outlook
from slurm_rl_plugin.simulator.nodes.node_state import idle_nodes
from slurm_rl_plugin.simulator.nodes.requests import NodeRequests
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQueues:
    """Of which partition each job is, and what counts in the order of partitions.

    Attributes:
        partition: of each job, shape [n].
        serves: whether a node is of a partition, shape [partitions, nodes].
        tier: of each job's partition, shape [n].
        user: of each job, shape [n]; -1 where unknown.
    """

    partition: IntArray
    serves: BoolArray
    tier: IntArray
    user: IntArray

    def of_jobs(self, jobs: IntArray) -> PartitionQueues:
        """The same for some of the jobs, of which some may come twice."""
        partition, tier, user = self.partition[jobs], self.tier[jobs], self.user[jobs]
        return replace(self, partition=partition, tier=tier, user=user)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMachine:
    """What a simulation on nodes needs beside the workload.

    Attributes:
        whole: what each node has, shape [nodes, resources], CPUs first.
        weight: nodes of less weight are taken first, shape [nodes].
        requests: of the jobs of the workload.
        limits: of groups of jobs; nothing used.
        queues: partitions of the jobs.
        kinds: names of the columns of `limits`, CPUs first.
        together: what all nodes have of each resource, by name.
        backfill: how slurmctld looks at its queue, where it is simulated as it does.
    """

    whole: FloatArray
    weight: IntArray
    requests: NodeRequests
    limits: GroupLimits
    queues: PartitionQueues
    kinds: tuple[str, ...]
    together: Mapping[str, float]
    backfill: BackfillSettings = field(default_factory=BackfillSettings)

    def of_jobs(self, jobs: IntArray) -> NodeMachine:
        """The same for some of the jobs, of which some may come twice."""
        return replace(
            self,
            requests=self.requests.of_jobs(jobs),
            limits=self.limits.of_jobs(jobs),
            queues=self.queues.of_jobs(jobs),
        )

    def idle(self) -> MachineNow:
        """The machine before the first submission."""
        nodes = idle_nodes(self.whole, self.weight, self.requests)
        limits = self.limits._replace(used=np.zeros_like(self.limits.most))
        return MachineNow(
            requests=self.requests,
            nodes=nodes,
            limits=limits,
            outlook=no_outlook(nodes),
            waiting=np.zeros(len(nodes.fails), dtype=np.int64),
        )
