"""Experience on the `site` schema: the starts of a finished simulation, walked through again.

Under EASY a queue is ordered, and who starts is up to the batch system. So a load is simulated
first, and then its starts are walked through with a probe in the scorer's place: a network whose
hidden units, before activation, are the features themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    advance,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.history import bring_up_to_now
from slurm_rl_plugin.simulator.scoring.network import (
    CompiledNetwork,
    compile_network,
    count_longest,
    job_part,
    queue_part,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray

#: Jobs left waiting that are written down at a start; of more, evenly spaced ones stand for all.
MOST_OTHERS = 16
#: No job.
NO_JOB = -1
#: Run time below which bounded slowdown counts none shorter, seconds.
_BOUND = 10.0


class SiteExperience(NamedTuple):
    """The starts of one simulation that left a job waiting, in their order.

    Columns of one start: the job that started, then up to MOST_OTHERS of those left waiting by
    this decision. Features are those of the decision, before anything started.
    """

    now: FloatArray  #: when, seconds, shape [n]
    queue: FloatArray  #: queue features, shape [n, Fq]
    job: IntArray  #: numbers of the jobs, NO_JOB for none, shape [n, 1 + MOST_OTHERS]
    features: FloatArray  #: of these jobs, shape [n, 1 + MOST_OTHERS, Fx]
    #: Slowdown that each would lose if those left waiting went first, one by one.
    spared: FloatArray
    lost: FloatArray  #: slowdown that those left waiting lose if it goes first; shape as `job`


def feature_probe(*, past: bool) -> QNetwork:
    """A network of the `site` schema whose hidden units are the features before activation.

    Args:
        past: whether it looks at past runs; otherwise the history features are 0.
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


def _empty_experience(starts: int) -> SiteExperience:
    columns = (starts, 1 + MOST_OTHERS)
    return SiteExperience(
        now=np.empty(starts),
        queue=np.empty((starts, len(SITE.queue))),
        job=np.full(columns, NO_JOB, dtype=np.int64),
        features=np.zeros((*columns, len(SITE.jobs))),
        spared=np.zeros(columns),
        lost=np.zeros(columns),
    )


@compiled
def _starting_first(cluster: Cluster, start: FloatArray, jobs: IntArray) -> int:
    """Fill `jobs` with the pending jobs, those that start now first; how many of these."""
    count, now = cluster.state[0].pending, cluster.state[0].now
    place = 0
    for starting in (True, False):
        if not starting:
            first_left = place
        for each in range(count):
            job = cluster.pending[each]
            if (start[job] <= now) == starting:
                jobs[place] = job
                place += 1
    return first_left


@compiled
def _interchange(
    workload: Workload, capacity: int, job: int, left: IntArray
) -> tuple[float, float]:
    """Slowdown that a job is spared and that the others lose if it goes before those left.

    The first job holds the machine for its work over the capacity, and a delay costs a job
    the more slowdown the shorter it is (Smith 1956).
    """
    weight = 1.0 / max(workload.jobs[job].run_time, _BOUND)
    delay = workload.jobs[job].run_time * workload.jobs[job].processors / capacity
    spared, lost = 0.0, 0.0
    for other in left:
        if other != job:
            run_time = workload.jobs[other].run_time
            spared += weight * run_time * workload.jobs[other].processors / capacity
            lost += delay / max(run_time, _BOUND)
    return spared, lost


@compiled
def _write_down(
    workload: Workload,
    cluster: Cluster,
    probe: CompiledNetwork,
    experience: SiteExperience,
    first: int,
    starting: IntArray,
    left: IntArray,
) -> None:
    """Write down the starts of one decision from the row `first` on; none has happened yet."""
    usage = current_usage(cluster)
    now, capacity = cluster.state[0].now, cluster.state[0].capacity
    from_queue = np.zeros(len(probe.output))
    queue_part(workload, cluster, probe, usage, from_queue)
    if len(probe.history.stamp) > 0:
        bring_up_to_now(workload, cluster, probe.history)
    inner = np.empty_like(from_queue)
    seen = experience.queue.shape[1]
    kept = min(len(left), MOST_OTHERS)
    for row in range(first, first + len(starting)):
        experience.now[row] = now
        experience.queue[row] = from_queue[:seen]
        for column in range(1 + kept):
            job = starting[row - first]
            if column > 0:
                job = left[(column - 1) * len(left) // kept]
            job_part(workload, cluster, probe, job, usage, from_queue, inner)
            experience.job[row, column] = job
            experience.features[row, column] = inner[seen:]
            spared, lost = _interchange(workload, capacity, job, left)
            experience.spared[row, column] = spared
            experience.lost[row, column] = lost


@compiled
def _wake_for_next(cluster: Cluster, start: FloatArray) -> None:
    """A changed limit lets jobs start though nothing arrives or ends."""
    if cluster.state[0].limited == 0.0:
        return
    for place in range(cluster.state[0].pending):
        cluster.state[0].wake = min(cluster.state[0].wake, start[cluster.pending[place]])


@compiled
def _walk(
    workload: Workload,
    cluster: Cluster,
    probe: CompiledNetwork,
    start: FloatArray,
    cycle: float,
    experience: SiteExperience,
) -> int:
    """Fill `experience`; how many starts were written down."""
    no_rank = np.empty(0, dtype=np.int64)
    jobs = np.empty(len(start) + 1, dtype=np.int64)
    row = 0
    while True:
        event = next_event(workload.jobs, cluster)
        if np.isinf(event):
            return row
        advance(workload.jobs, cluster, decision_time(event, cycle), no_rank)
        count_longest(workload, cluster, probe)
        count = cluster.state[0].pending
        starting = _starting_first(cluster, start, jobs)
        if starting == 0:
            _wake_for_next(cluster, start)
            continue
        if starting < count:
            left = jobs[starting:count]
            _write_down(workload, cluster, probe, experience, row, jobs[:starting], left)
            row += starting
        for place in range(starting):
            start_job(workload.jobs, cluster, jobs[place])
        forget_started(cluster)
        _wake_for_next(cluster, start)


def site_experience(
    workload: Workload,
    start: FloatArray,
    settings: SimulationSettings,
) -> SiteExperience:
    """The starts of a simulation with the features that a scorer saw when it chose.

    History features are 0 if users are unknown.

    Args:
        start: of each job, as a simulation with these settings gave it, seconds, shape [n].
    """
    experience = _empty_experience(len(start))
    starts = _walk(
        workload,
        settings.empty_cluster(workload),
        compile_network(feature_probe(past=workload.knows_users), workload, settings.goals),
        start,
        settings.cycle,
        experience,
    )
    columns = experience._asdict().items()
    return experience._replace(**{name: column[:starts].copy() for name, column in columns})
