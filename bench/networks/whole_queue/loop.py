"""Simulates a queue that a QueueNetwork orders, and keeps some of the looks for imitation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bench.networks.whole_queue.inputs import CONTEXT, JOB_INPUTS, QueueInputs, queue_inputs
from bench.networks.whole_queue.network import (
    CompiledQueueNetwork,
    QueueNetwork,
    compile_queue_network,
    score_whole_queue,
)
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import (
    DECISIONS,
    IDLE,
    PENDING,
    Cluster,
    advance,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import EASY, anything_fits, start_by_score
from slurm_rl_plugin.simulator.kernel.plan import BY_REQUEST
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    finished_schedule,
)
from slurm_rl_plugin.simulator.scoring.protection import ProtectedQueue, protect, protected_queue
from slurm_rl_plugin.units import FloatArray, IntArray

#: Pending jobs of a look that is kept, at most.
KEPT_JOBS = 8


class KeptLooks(NamedTuple):
    """Looks at the queue as they were, every so often.

    Attributes:
        every: decisions between two of them, shape [1]; 0 keeps none.
        filled: how many are kept, shape [1].
        context: shape [m, CONTEXT].
        inputs: of some pending jobs, shape [m, KEPT_JOBS, JOB_INPUTS].
        linear: their linear scores, shape [m, KEPT_JOBS].
        jobs: their numbers, -1 where fewer wait, shape [m, KEPT_JOBS].
    """

    every: IntArray
    filled: IntArray
    context: FloatArray
    inputs: FloatArray
    linear: FloatArray
    jobs: IntArray


def no_looks(most: int, every: int) -> KeptLooks:
    """Space for so many."""
    return KeptLooks(
        every=np.array([every]),
        filled=np.zeros(1, dtype=np.int64),
        context=np.zeros((most, CONTEXT)),
        inputs=np.zeros((most, KEPT_JOBS, JOB_INPUTS)),
        linear=np.zeros((most, KEPT_JOBS)),
        jobs=np.full((most, KEPT_JOBS), -1, dtype=np.int64),
    )


@compiled_borrowing
def _keep_look(cluster: Cluster, inputs: QueueInputs, jobs: IntArray, kept: KeptLooks) -> None:
    """Keep what was seen: of many jobs some, as far apart in the queue as can be."""
    number, count = kept.filled[0], cluster.counts[PENDING]
    if number == len(kept.context) or count < 2:
        return
    for each in range(CONTEXT):
        kept.context[number, each] = inputs.context[each]
    most = min(count, KEPT_JOBS)
    for slot in range(most):
        place = slot * count // most
        kept.jobs[number, slot] = jobs[place]
        kept.linear[number, slot] = inputs.linear[place]
        for each in range(JOB_INPUTS):
            kept.inputs[number, slot, each] = inputs.jobs[place, each]
    kept.filled[0] += 1


@compiled
def _run(
    workload: Workload,
    cluster: Cluster,
    network: CompiledQueueNetwork,
    inputs: QueueInputs,
    protection: ProtectedQueue,
    kept: KeptLooks,
) -> None:
    """Let everything happen, decided on at every event."""
    no_rank = np.empty(0, dtype=np.int64)
    scores, jobs = np.empty(len(inputs.jobs)), np.empty(len(inputs.jobs), dtype=np.int64)
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, event, no_rank)
        if cluster.counts[IDLE] == 0 or not anything_fits(workload, cluster):
            continue
        cluster.counts[DECISIONS] += 1
        score_whole_queue(workload, cluster, network, inputs, scores, jobs)
        if kept.every[0] > 0 and cluster.counts[DECISIONS] % kept.every[0] == 0:
            _keep_look(cluster, inputs, jobs, kept)
        protect(workload, cluster, protection, scores, jobs)
        start_by_score(workload, cluster, scores, jobs, EASY, 0, BY_REQUEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQueueOrder:
    """The order by a QueueNetwork, behind the protection of the linear network below it.

    Attributes:
        network: what the queue moves.
        linear: the network whose linear score it takes; it protects somebody.
    """

    network: QueueNetwork
    linear: QNetwork

    def __call__(self, workload: Workload, settings: SimulationSettings) -> SimulatedSchedule:
        """The schedule of a workload."""
        return self.watched(workload, settings, no_looks(0, 0))

    def watched(
        self, workload: Workload, settings: SimulationSettings, kept: KeptLooks
    ) -> SimulatedSchedule:
        """The same; looks are kept."""
        jobs = len(workload.submit)
        cluster = settings.empty_cluster(workload)
        compiled_network = compile_queue_network(self.network, self.linear, workload)
        protection = protected_queue(self.linear.protection, jobs)
        inputs = queue_inputs(jobs, settings.capacity)
        _run(workload, cluster, compiled_network, inputs, protection, kept)
        return finished_schedule(cluster)
