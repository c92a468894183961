"""Plan estimates inside the compiled loop: by requests, users' last runs, or a prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import (
    CONSISTENT,
    CORRECTIONS,
    PENDING_ONLY,
    Plan,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.published_cells import DOUBLED
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import ENDED, NEXT_ARRIVAL, NOW, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.compiled_features import longest_wait
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.history import bring_up_to_now, predicted_quantile
from slurm_rl_plugin.simulator.scoring.history_part import NO_HISTORY, HistoryPart, history_part
from slurm_rl_plugin.units import DAY, MINUTE, FloatArray, IntArray

#: Place of the quantile that is the estimate.
_MEDIAN = PARTS.index(0.5)
#: Seconds by which a candidate may push the head beyond its promise at least and at most.
_STRICTEST, _SLACKEST = MINUTE, DAY
#: Indices into `Estimates.site`.
_LOOKED_AT, _LONGEST = 0, 1
#: Indices into `LastRuns.seen`.
_ARRIVED, _ENDED = 0, 1


class LastRuns(NamedTuple):
    """The last two run times of each user, and what is counted.

    Attributes:
        seconds: the older and the newer, NaN where there is none, shape [users, 2].
        seen: jobs that have been predicted, and that have ended; shape [2].
    """

    seconds: FloatArray
    seen: IntArray


_NO_RUNS = LastRuns(seconds=np.empty((0, 2)), seen=np.zeros(2, dtype=np.int64))


class Estimates(NamedTuple):
    """The plan, and where its estimates come from.

    Attributes:
        plan: estimates and promises.
        history: past runs; NO_HISTORY where the estimates do not come from there.
        runs: last runs of users; empty where the estimates do not come from there.
        slack: of a promise, as a part of the longest recent wait.
        site: time of the last look, and the longest recent wait, seconds.
    """

    plan: Plan
    history: HistoryPart
    runs: LastRuns
    slack: float
    site: FloatArray


def by_requests(workload: Workload) -> Estimates:
    """The plan of plain EASY."""
    jobs = len(workload.submit)
    return Estimates(
        plan=Plan(
            kind=PENDING_ONLY,
            correction=CORRECTIONS[DOUBLED],
            seconds=np.full(jobs, np.inf),
            promise=np.full(jobs, np.nan),
            slack=np.zeros(1),
            ends=np.empty(jobs),
        ),
        history=NO_HISTORY,
        runs=_NO_RUNS,
        slack=0.0,
        site=np.array([-np.inf, 0.0]),
    )


def by_last_runs(workload: Workload, correction: str) -> Estimates:
    """A consistent plan by the mean of the user's last two runs when a job arrives (EASY++).

    Args:
        workload: the jobs, with their users.
        correction: one of CORRECTIONS.

    Raises:
        SimulationError: the workload does not tell users apart.
    """
    if len(workload.past.user) != len(workload.submit):
        raise SimulationError("a plan by users' last runs needs to know users.")
    users = len(workload.past.users)
    found = by_requests(workload)
    return found._replace(
        plan=found.plan._replace(kind=CONSISTENT, correction=CORRECTIONS[correction]),
        runs=LastRuns(seconds=np.full((users, 2), np.nan), seen=np.zeros(2, dtype=np.int64)),
    )


def by_prediction(workload: Workload, network: QNetwork, slack: float) -> Estimates:
    """A pending-only plan by the predicted median.

    Args:
        workload: the jobs, with their users.
        network: whose order it is.
        slack: of a promise, as a part of the longest recent wait.
    """
    features = len(network.schema.history_jobs)
    nothing = np.zeros((features, 0))
    history = history_part(workload, nothing, np.zeros(features), quantiles=True)
    return by_requests(workload)._replace(history=history, slack=slack)


@compiled_borrowing
def bring_plan_up_to_now(workload: Workload, cluster: Cluster, estimates: Estimates) -> None:
    """Estimate the pending jobs anew, and what heads may be pushed beyond their promise."""
    now, site, plan = cluster.clock[NOW], estimates.site, estimates.plan
    if len(estimates.runs.seconds) > 0:
        _predict_arrived(workload, cluster, estimates.runs, plan.seconds)
    wait = now - workload.submit[cluster.pending[0]]
    site[_LONGEST] = longest_wait(site[_LONGEST], now - site[_LOOKED_AT], wait)
    site[_LOOKED_AT] = now
    plan.slack[0] = min(max(estimates.slack * site[_LONGEST], _STRICTEST), _SLACKEST)
    if len(estimates.history.stamp) > 0:
        bring_up_to_now(workload, cluster, estimates.history)
        for place in range(cluster.counts[PENDING]):
            job = cluster.pending[place]
            median = predicted_quantile(workload, estimates.history, job, _MEDIAN)
            plan.seconds[job] = max(median, 1.0)


@compiled_borrowing
def _predict_arrived(
    workload: Workload, cluster: Cluster, runs: LastRuns, seconds: FloatArray
) -> None:
    """Fill `seconds` of the jobs that arrived since the last call, in whole seconds.

    The mean of the two runs that ended last before the arrival, at most the request; the request
    where the user has fewer than two.
    """
    while runs.seen[_ARRIVED] < cluster.counts[NEXT_ARRIVAL]:
        job = runs.seen[_ARRIVED]
        _note_ended(workload, cluster, runs, workload.submit[job])
        own = runs.seconds[workload.past.user[job]]
        mean = np.floor(0.5 * (own[0] + own[1]))
        request = workload.estimate[job]
        seconds[job] = request if np.isnan(mean) else min(mean, request)
        runs.seen[_ARRIVED] += 1


@compiled_borrowing
def _note_ended(workload: Workload, cluster: Cluster, runs: LastRuns, before: float) -> None:
    """Note the runs that ended before a time, seconds."""
    while runs.seen[_ENDED] < cluster.counts[ENDED]:
        job = cluster.ended[runs.seen[_ENDED]]
        if cluster.start[job] + workload.run_time[job] >= before:
            return
        own = runs.seconds[workload.past.user[job]]
        own[0], own[1] = own[1], workload.run_time[job]
        runs.seen[_ENDED] += 1
