"""Plan estimates inside the compiled loop: what past runs foretell, or what is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.features import scales
from slurm_rl_plugin.features.history.run_prediction import RunTimePrediction
from slurm_rl_plugin.features.history.run_spread import PARTS
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies import protection as plain
from slurm_rl_plugin.simulator.kernel.cluster import NOW, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_copy
from slurm_rl_plugin.simulator.kernel.plan import (
    BY_REQUEST,
    CONSISTENT,
    DOUBLED,
    DOUBLED_BEYOND,
    PENDING_ONLY,
    REQUESTED,
    STEPPED,
    ByRequest,
    Plan,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.history import (
    add_history,
    bring_up_to_now,
    predicted_quantile,
)
from slurm_rl_plugin.simulator.scoring.history_part import NO_HISTORY, HistoryPart, history_part
from slurm_rl_plugin.simulator.scoring.last_runs import (
    NO_RUNS,
    LastRuns,
    no_runs_yet,
    predict_arrived,
)
from slurm_rl_plugin.simulator.scoring.protection import longest_wait
from slurm_rl_plugin.units import MINUTE, FloatArray

_seconds_at = compiled_copy(scales.seconds_at)
_plan_slack = compiled_copy(plain.plan_slack)
_KINDS = {"pending": PENDING_ONLY, "consistent": CONSISTENT}
_CORRECTIONS = {
    "doubled": DOUBLED,
    "doubled-beyond": DOUBLED_BEYOND,
    "requested": REQUESTED,
    "stepped": STEPPED,
}
#: A cycle of the hook, and a minute for the batch system's own.
TOLD_DELAY = 1.5 * MINUTE
#: Indices into `PlannedQueue.site`.
_LOOKED_AT, _LONGEST = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRule:
    """What backfilling plans with.

    Attributes:
        kind: "pending": candidates by their estimates, running jobs by their requests, and heads
            have a promise; "consistent": both by their estimates.
        prediction: of run times; its quantile of `part` is the estimate, or without a spread the
            predicted run time. None where `seconds` are given.
        seconds: estimate of each job, shape [n]; None where it is predicted.
        last_runs: whether it is the mean of the user's last two runs at submission.
        slack: of the promise, as a part of the longest wait that the site has known lately.
        part: of the runs that are to end before the estimate, one of `run_spread.PARTS`.
        delay: seconds until a batch system may act on what it is told, on nodes alone.
        correction: of the estimate that a running job has outlived, as "consistent" plans:
            "doubled" up to the request, "doubled-beyond" it, "requested" at once, or "stepped"
            by a minute and more and more.

    Raises:
        ConfigurationError: another kind or correction, or not just one source of estimates.
    """

    kind: str
    prediction: RunTimePrediction | None = None
    seconds: FloatArray | None = None
    last_runs: bool = False
    slack: float = 0.1
    part: float = 0.5
    delay: float = TOLD_DELAY
    correction: str = "doubled"

    def __post_init__(self) -> None:
        if self.correction not in _CORRECTIONS:
            raise ConfigurationError(
                f"a plan's correction {self.correction!r}: give one of {', '.join(_CORRECTIONS)}."
            )
        sources = (self.prediction is not None) + (self.seconds is not None) + self.last_runs
        if self.kind not in _KINDS or sources != 1:
            raise ConfigurationError(
                f"a plan of kind {self.kind!r} needs one of {', '.join(_KINDS)}, and either "
                "predicted or given run times."
            )
        if self.part not in PARTS:
            raise ConfigurationError(f"a plan by the quantile of {self.part}: one of {PARTS}.")


class UnplannedQueue(NamedTuple):
    """A queue whose plan goes by requests: a type of its own, so that its loop carries nothing."""

    plan: ByRequest


class PlannedQueue(NamedTuple):
    """What a queue is planned with, and what makes the estimates.

    Attributes:
        plan: estimates and promises.
        history: past runs; NO_HISTORY where the estimates do not come from there.
        runs: last runs of users; NO_RUNS where the estimates do not come from there.
        slack: see `PlanRule`.
        part: place in `run_spread.PARTS` of the quantile that is the estimate.
        site: when was looked last, and the longest wait lately, seconds.
        nothing: hidden units of the history, of which there are none.
    """

    plan: Plan
    history: HistoryPart
    runs: LastRuns
    slack: float
    part: int
    site: FloatArray
    nothing: FloatArray


def planned_queue(
    rule: PlanRule | None, workload: Workload, places: int
) -> PlannedQueue | UnplannedQueue:
    """Before the first decision.

    Args:
        rule: None for a plan by requests.
        workload: the jobs.
        places: how many jobs there may ever be.

    Raises:
        SimulationError: estimates of other jobs, or users that are not told apart.
    """
    if rule is None:
        return UnplannedQueue(plan=BY_REQUEST)
    if rule.seconds is not None and len(rule.seconds) != len(workload.submit):
        raise SimulationError("a plan needs an estimate of each job.")
    seconds = np.full(places, np.inf) if rule.seconds is None else rule.seconds.copy()
    return PlannedQueue(
        plan=Plan(
            kind=_KINDS[rule.kind],
            correction=_CORRECTIONS[rule.correction],
            seconds=seconds,
            promise=np.full(places, np.nan),
            slack=np.zeros(1),
            ends=np.empty(places),
        ),
        history=NO_HISTORY if rule.prediction is None else _median_of(rule.prediction, workload),
        runs=no_runs_yet(workload) if rule.last_runs else NO_RUNS,
        slack=rule.slack,
        part=PARTS.index(rule.part),
        site=np.array([-np.inf, 0.0]),
        nothing=np.empty(0),
    )


def _median_of(prediction: RunTimePrediction, workload: Workload) -> HistoryPart:
    """A history that tells the median; without a spread its score is the predicted run time.

    Such a score is on the scale of `log_seconds`.
    """
    features = len(SITE.history_jobs)
    linear = np.zeros(features)
    linear[SITE.history_jobs.index("log_predicted_run_time")] = 1.0
    nothing = np.zeros((features, 0))
    return history_part(prediction, workload, nothing, linear, quantiles=True)


@compiled_borrowing
def _estimate(workload: Workload, planned: PlannedQueue, job: int) -> float:
    if len(planned.history.spread) > 0:
        return predicted_quantile(workload, planned.history, job, planned.part)
    return _seconds_at(add_history(workload, planned.history, job, planned.nothing))


@compiled_borrowing
def foretold(workload: Workload, planned: PlannedQueue, job: int) -> float:
    """The estimate of a pending job as the site is known now, seconds."""
    if len(planned.history.stamp) > 0:
        planned.plan.seconds[job] = _estimate(workload, planned, job)
    return max(planned.plan.seconds[job], 1.0)


@compiled_borrowing
def bring_site_up_to_now(
    workload: Workload, cluster: Cluster, planned: PlannedQueue, wait: float
) -> None:
    """What is known of past runs, and what heads may be pushed beyond their promise.

    Args:
        workload: the jobs.
        cluster: read only.
        planned: changed in place.
        wait: of the job that waits longest for the machine, seconds.
    """
    now = cluster.clock[NOW]
    if len(planned.history.stamp) > 0:
        bring_up_to_now(workload, cluster, planned.history)
    if len(planned.runs.seconds) > 0:
        predict_arrived(workload, cluster, planned.runs, planned.plan.seconds)
    site = planned.site
    site[_LONGEST] = longest_wait(site[_LONGEST], now - site[_LOOKED_AT], wait)
    site[_LOOKED_AT] = now
    planned.plan.slack[0] = _plan_slack(site[_LONGEST], planned.slack)


@compiled_borrowing
def bring_plan_up_to_now(workload: Workload, cluster: Cluster, planned: PlannedQueue) -> None:
    """Estimate the pending jobs anew, and what heads may be pushed beyond their promise."""
    wait = cluster.clock[NOW] - workload.submit[cluster.pending[0]]
    bring_site_up_to_now(workload, cluster, planned, wait)
    if len(planned.history.stamp) > 0:
        for place in range(cluster.counts[PENDING]):
            job = cluster.pending[place]
            planned.plan.seconds[job] = foretold(workload, planned, job)
