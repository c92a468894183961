"""Simulations that record every start, for learners.

A rollout explores: one action is one job start, and the next is chosen as long as a job fits. Jobs
that do not fit are no actions, so there is no backfilling. Under EASY a queue is ordered, and the
batch system decides which jobs start: `site_experience` replays the starts of a finished simulation
with a probe as the scorer, a network whose hidden units, before activation, are the features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import reserve_in_force
from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    advance,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_copy
from slurm_rl_plugin.simulator.kernel.compiled_features import fairness
from slurm_rl_plugin.simulator.kernel.dispatch import processors_needed
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.echo_state import (
    CompiledEchoState,
    compile_echo_state,
    job_score,
    queue_state,
    shared_inner,
    shared_score,
    step_memory,
)
from slurm_rl_plugin.simulator.scoring.network import (
    CompiledNetwork,
    bring_up_to_now,
    compile_network,
    count_longest,
    job_part,
    queue_part,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility import time_utility

#: The most actions kept of one decision; of a longer queue, evenly spaced ones.
MOST_ACTIONS = 128

_responsiveness = compiled_copy(time_utility.responsiveness)


class Experience(NamedTuple):
    """The starts of one simulation in the order in which they happened; shape [n] each."""

    queue: FloatArray  #: queue features when the job was chosen, shape [n, Fq]
    #: Reservoir after the job was chosen, shape [n, H]; the memory of the next start.
    state: FloatArray
    job: IntArray  #: that was started
    responsiveness: FloatArray  #: of the job, known when it completes (2011)
    #: Mean responsiveness that the jobs left waiting lose while the job holds its processors, each
    #: delayed by its work over the capacity; 0 where none waits.
    lost: FloatArray
    fairness: FloatArray  #: eq. 4 at the start.
    first_action: IntArray  #: where the actions of each start begin in `actions`, shape [n + 1]
    #: Numbers of the jobs that could have been started, the chosen one mostly included.
    actions: IntArray


@compiled
def _lost(cluster: Cluster, chosen: int) -> float:
    waiting = cluster.state[0].pending - 1
    if waiting <= 0:
        return 0.0
    work = cluster.jobs[chosen].run_time * cluster.jobs[chosen].processors
    delay, lost = work / cluster.state[0].capacity, 0.0
    for place in range(waiting + 1):
        job = cluster.pending[place]
        if job != chosen:
            wait = cluster.state[0].now - cluster.jobs[job].submit
            run_time = cluster.jobs[job].run_time
            lost += _responsiveness(wait, run_time) - _responsiveness(wait + delay, run_time)
    return lost / waiting


@compiled
def keep_start(
    cluster: Cluster, experience: Experience, start: int, job: int, jobs: IntArray, count: int
) -> None:
    """Record a pending job that starts now, without features, of the first `count` of `jobs`."""
    wait = cluster.state[0].now - cluster.jobs[job].submit
    experience.job[start] = job
    experience.responsiveness[start] = _responsiveness(wait, cluster.jobs[job].run_time)
    experience.lost[start] = _lost(cluster, job)
    experience.fairness[start] = fairness(cluster.shares, current_usage(cluster))
    kept, first = min(count, MOST_ACTIONS), experience.first_action[start]
    for place in range(kept):
        experience.actions[first + place] = jobs[place * count // kept]
    experience.first_action[start + 1] = first + kept


@compiled
def best_action_values(network: CompiledEchoState, experience: Experience) -> FloatArray:
    """max_b Q(s, b) at every start, float64[n], of any readout of this network's reservoir."""
    starts = len(experience.job)
    values = np.empty(starts)
    memory = np.zeros(len(network.bias))
    for start in range(starts):
        state = experience.queue[start]
        seen_inner = shared_inner(network, state, memory)[network.seen]
        common = shared_score(network, state, memory)
        best = -np.inf
        for place in range(experience.first_action[start], experience.first_action[start + 1]):
            job = experience.actions[place]
            best = max(best, job_score(network, seen_inner, common, job))
        values[start] = best
        memory = experience.state[start]
    return values


@compiled
def _startable(cluster: Cluster, reserve: int, jobs: IntArray) -> int:
    count, idle = 0, cluster.state[0].idle
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        if processors_needed(cluster, job, reserve) <= idle:
            jobs[count] = job
            count += 1
    return count


@compiled
def _by_mix(cluster: Cluster, jobs: IntArray, count: int, draws: FloatArray) -> int:
    """First come, anything or shortest estimate, each a third of the time."""
    if draws[1] < 1.0 / 3.0:
        return jobs[0]
    if draws[1] < 2.0 / 3.0:
        return jobs[int(draws[2] * count)]
    return jobs[np.argmin(cluster.jobs.estimate[jobs[:count]])]


@compiled
def _by_network(network: CompiledEchoState, inner: FloatArray, jobs: IntArray) -> int:
    seen_inner = inner[network.seen]
    best, highest = jobs[0], -np.inf
    for job in jobs:
        score = job_score(network, seen_inner, 0.0, job)
        if score > highest:
            best, highest = job, score
    return best


@compiled
def _collect(
    cluster: Cluster,
    network: CompiledEchoState,
    epsilon: float,
    draws: FloatArray,
    cycle: float,
    reserve: int,
    experience: Experience,
) -> None:
    jobs = np.empty(len(cluster.jobs) + 1, dtype=np.int64)
    memory, start = network.memory, 0
    while True:
        event = next_event(cluster)
        if np.isinf(event):
            return
        advance(cluster, decision_time(event, cycle))
        in_force = reserve_in_force(cluster, reserve)
        count = _startable(cluster, in_force, jobs)
        while count > 0:
            state = queue_state(cluster, network)
            inner = shared_inner(network, state, memory)
            if epsilon < 0.0:
                job = _by_mix(cluster, jobs, count, draws[start])
            elif draws[start, 0] < epsilon:
                job = jobs[int(draws[start, 2] * count)]
            else:
                job = _by_network(network, inner, jobs[:count])
            step_memory(network, inner, job, memory)
            experience.queue[start] = state
            experience.state[start] = memory
            keep_start(cluster, experience, start, job, jobs, count)
            start_job(cluster, job)
            forget_started(cluster)
            start += 1
            count = _startable(cluster, in_force, jobs)


def collect_experience(
    workload: Workload,
    network: EchoStateNetwork,
    settings: SimulationSettings,
    *,
    epsilon: float | None,
    rng: np.random.Generator,
) -> Experience:
    """Simulate a workload from an empty memory and record every start.

    Args:
        network: whose reservoir is driven, and which acts unless epsilon is None.
        settings: the batch system; backfilling is left out.
        epsilon: probability of a random start; None lets a mix of simple orders act instead,
            for the first experience.
    """
    jobs = len(workload.submit)
    experience = Experience(
        queue=np.empty((jobs, len(network.schema.queue))),
        state=np.empty((jobs, network.memory_size)),
        job=np.empty(jobs, dtype=np.int64),
        responsiveness=np.empty(jobs),
        lost=np.zeros(jobs),
        fairness=np.empty(jobs),
        first_action=np.zeros(jobs + 1, dtype=np.int64),
        actions=np.empty(jobs * MOST_ACTIONS, dtype=np.int64),
    )
    _collect(
        settings.empty_cluster(workload),
        compile_echo_state(network, workload),
        -1.0 if epsilon is None else epsilon,
        rng.random((jobs, 3)),
        settings.cycle,
        settings.reserve,
        experience,
    )
    kept = experience.first_action[-1]
    return experience._replace(actions=experience.actions[:kept].copy())


#: The most jobs left waiting that are recorded at a start; of more, evenly spaced ones.
MOST_OTHERS = 16
NO_JOB = -1
#: Run time below which bounded slowdown counts none shorter, seconds.
_BOUND = 10.0


class SiteExperience(NamedTuple):
    """The starts of one simulation that left jobs waiting, in their order.

    Columns of a start: the job that started, then up to MOST_OTHERS jobs that this decision left
    waiting. Features are those before the decision.
    """

    now: FloatArray  #: when, seconds, shape [n]
    queue: FloatArray  #: queue features, shape [n, Fq]
    job: IntArray  #: numbers of the jobs, NO_JOB where there are fewer, shape [n, 1 + MOST_OTHERS]
    features: FloatArray  #: of these jobs, shape [n, 1 + MOST_OTHERS, Fx]
    #: Slowdown that each would lose if the jobs left waiting went first, one by one.
    spared: FloatArray
    lost: FloatArray  #: slowdown that the jobs left waiting lose if it goes first; as `job`


def feature_probe(*, past: bool) -> QNetwork:
    """A network of the `site` schema whose hidden units are the features before activation.

    The history features are 0 unless `past`.
    """
    queue, jobs = len(SITE.queue), len(SITE.jobs)
    itself = np.eye(queue + jobs)
    job_weights = itself[queue:].copy()
    if not past:
        job_weights[-len(SITE.history_jobs) :] = 0.0
    return QNetwork(
        schema=SITE,
        queue_mean=np.zeros(queue),
        queue_scale=np.ones(queue),
        job_mean=np.zeros(jobs),
        job_scale=np.ones(jobs),
        queue_weights=itself[:queue],
        job_weights=job_weights,
        bias=np.zeros(queue + jobs),
        output=np.ones(queue + jobs),  # so that the queue is looked at
        linear=np.zeros(jobs),
    )


@compiled
def _exchange(cluster: Cluster, job: int, left: IntArray) -> tuple[float, float]:
    """Slowdown that a job is spared and that the others lose if it goes before those left.

    The first job holds the machine for its work over the capacity, and a delay costs a shorter job
    more slowdown (Smith 1956).
    """
    capacity = cluster.state[0].capacity
    weight = 1.0 / max(cluster.jobs[job].run_time, _BOUND)
    delay = cluster.jobs[job].run_time * cluster.jobs[job].processors / capacity
    spared, lost = 0.0, 0.0
    for other in left:
        if other != job:
            run_time = cluster.jobs[other].run_time
            spared += weight * run_time * cluster.jobs[other].processors / capacity
            lost += delay / max(run_time, _BOUND)
    return spared, lost


@compiled
def _write_down(
    cluster: Cluster,
    probe: CompiledNetwork,
    experience: SiteExperience,
    first: int,
    starting: IntArray,
    left: IntArray,
) -> None:
    usage = current_usage(cluster)
    now = cluster.state[0].now
    from_queue = np.zeros(len(probe.output))
    queue_part(cluster, probe, usage, from_queue)
    if len(probe.history.stamp) > 0:
        bring_up_to_now(cluster, probe.history)
    inner, doublings = np.empty_like(from_queue), np.full(len(usage), np.nan)
    seen = experience.queue.shape[1]
    kept = min(len(left), MOST_OTHERS)
    for row in range(first, first + len(starting)):
        experience.now[row] = now
        experience.queue[row] = from_queue[:seen]
        for column in range(1 + kept):
            job = starting[row - first]
            if column > 0:
                job = left[(column - 1) * len(left) // kept]
            job_part(cluster, probe, job, usage, doublings, from_queue, inner)
            experience.job[row, column] = job
            experience.features[row, column] = inner[seen:]
            spared, lost = _exchange(cluster, job, left)
            experience.spared[row, column] = spared
            experience.lost[row, column] = lost


@compiled
def _wake_for_next(cluster: Cluster, start: FloatArray) -> None:
    """Wake at the next start: a changed limit starts jobs without an event."""
    if cluster.state[0].limited > 0.0:
        for job in cluster.pending[: cluster.state[0].pending]:
            cluster.state[0].wake = min(cluster.state[0].wake, start[job])


@compiled
def _walk(
    cluster: Cluster,
    probe: CompiledNetwork,
    start: FloatArray,
    cycle: float,
    experience: SiteExperience,
) -> int:
    row = 0
    while True:
        event = next_event(cluster)
        if np.isinf(event):
            return row
        advance(cluster, decision_time(event, cycle))
        count_longest(cluster, probe)
        waiting = cluster.pending[: cluster.state[0].pending]
        starts_now = start[waiting] <= cluster.state[0].now
        starting, left = waiting[starts_now], waiting[~starts_now]
        if len(starting) > 0 and len(left) > 0:
            _write_down(cluster, probe, experience, row, starting, left)
            row += len(starting)
        for job in starting:
            start_job(cluster, job)
        forget_started(cluster)
        _wake_for_next(cluster, start)


def site_experience(
    workload: Workload, start: FloatArray, settings: SimulationSettings
) -> SiteExperience:
    """The starts, seconds, [n], of a simulation with these settings, with features of decisions.

    History features are 0 where users are unknown.
    """
    columns = (len(start), 1 + MOST_OTHERS)
    experience = SiteExperience(
        now=np.empty(len(start)),
        queue=np.empty((len(start), len(SITE.queue))),
        job=np.full(columns, NO_JOB, dtype=np.int64),
        features=np.zeros((*columns, len(SITE.jobs))),
        spared=np.zeros(columns),
        lost=np.zeros(columns),
    )
    starts = _walk(
        settings.empty_cluster(workload),
        compile_network(feature_probe(past=workload.knows_users), workload, settings.goals),
        start,
        settings.cycle,
        experience,
    )
    return SiteExperience._make(column[:starts].copy() for column in experience)
