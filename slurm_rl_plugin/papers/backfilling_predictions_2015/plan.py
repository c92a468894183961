"""EASY backfilling that plans with run times other than the time limits.

A *plan estimate* is the run time that the plan assumes. Pending-only: the plan uses the estimate of
a candidate and the request of a running job. Consistent: it uses the estimates of both.
Pending-only lets a candidate start before the head although its request does not fit, so the head
has a promise: no such candidate may outlive it, even at its own limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.history.run_history import PARTS, SHARES, nominal_shares
from slurm_rl_plugin.learning.training_load import class_known_at_submission
from slurm_rl_plugin.papers.study.trials import StudyLog, archived_log
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    account_usage_until,
    arrive,
    end_next_job,
    forget_started,
    next_event,
    start_job,
    swap_ends,
)
from slurm_rl_plugin.simulator.kernel.compilation import (
    chosen_by_type,
    compiled,
    compiled_borrowing,
)
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fill_shares,
    learn_shares,
    longest_wait,
    run_time_at,
)
from slurm_rl_plugin.simulator.kernel.dispatch import anything_fits, best_first, shadow_of
from slurm_rl_plugin.simulator.kernel.workload import ENDED_EVENT, Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, score_queue
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, finished_schedule
from slurm_rl_plugin.simulator.scoring.network import (
    NO_HISTORY,
    HistoryPart,
    bring_part_up,
    bring_up_to_now,
    history_part,
)
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray, IntArray
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

EASY, EASY_SJBF = "EASY", "EASY-SJBF"
PREDICTED, PLUS_PLUS = "EASY, predicted", "EASY++"
REQUEST, TWICE, TRUE, LAST_RUNS = "request", "twice the request", "true run time", "last two runs"
DOUBLED, REQUESTED, STEPPED = "doubled", "then request", "stepped"


class Cell(NamedTuple):
    """A simulated combination."""

    #: EASY and PREDICTED backfill the first job that fits, the other two the shortest.
    scheduler: str
    predictor: str  #: of the run times of the plan
    correction: str = ""  #: of a run time that is outlived; empty if none can be

    @property
    def name(self) -> str:
        """Its name in tables."""
        return ", ".join(filter(None, self))


#: Kinds of plans.
PENDING_ONLY, CONSISTENT = 0, 1
_DOUBLED, _REQUESTED, _STEPPED = 0, 1, 2
#: Corrections of an estimate that a running job outlives, as often as it does: doubled, even beyond
#: the request; replaced by the request; or its first value plus one of _STEPS, up to the request.
CORRECTIONS = {DOUBLED: _DOUBLED, REQUESTED: _REQUESTED, STEPPED: _STEPPED}
CELLS = (
    *(Cell(scheduler, REQUEST) for scheduler in (EASY, EASY_SJBF)),
    *(
        Cell(scheduler, *plan)
        for scheduler in (PREDICTED, PLUS_PLUS)
        for plan in ((TRUE,), (REQUEST,), (TWICE,), *((LAST_RUNS, each) for each in CORRECTIONS))
    ),
)
_LONGER = 2.0
#: Seconds added to the first estimate, one after the other (Tsafrir, Etsion, Feitelson 2007).
_STEPS = np.array(
    [MINUTE * each for each in (1, 5, 15, 30)]
    + [HOUR * each for each in (1, 2, 5, 10, 20, 50, 100)]
)


class Quantiles(NamedTuple):
    """Quantiles of run times as past runs predict them; all changes."""

    history: HistoryPart  #: past runs
    shares: FloatArray  #: space: of runs below each grid point, shape [SHARES]
    #: Of each job at its start, seconds, NaN before, shape [n, len(PARTS)].
    predicted: FloatArray
    asked_shares: FloatArray  #: see `run_history.learn_shares`, shape [len(PARTS)]


def _quantiles(history: HistoryPart, jobs: int) -> Quantiles:
    predicted = np.full((jobs, len(PARTS)), np.nan)
    return Quantiles(history, np.zeros(SHARES), predicted, nominal_shares())


NO_QUANTILES = _quantiles(NO_HISTORY, 0)


#: Indices into `Plan.site`.
_LOOKED_AT, _LONGEST = 0, 1
#: Indices into `Plan.seen`.
_ARRIVED, _ENDED = 0, 1


class Plan(NamedTuple):
    """Plan estimates and their source, and the promises to heads."""

    kind: int
    correction: int  #: one of CORRECTIONS, for CONSISTENT
    seconds: FloatArray  #: the plan's estimate of each job, shape [n]; inf for its request
    #: Start of each job by the requests of running jobs when it became head; NaN before, shape [n].
    promise: FloatArray
    slack: FloatArray  #: seconds by which a candidate may delay the head's promise, shape [1]
    ends: FloatArray  #: work space for the planned end of each running job
    quantiles: Quantiles  #: predicted from past runs, or NO_QUANTILES
    #: Last two run times of each user, the older and the newer, NaN without one, shape [users, 2];
    #: empty where they predict nothing.
    last_runs: FloatArray
    seen: IntArray  #: numbers of jobs that they predicted, and of ended jobs, shape [2]
    part: float  #: of the longest recent wait, for the slack
    site: FloatArray  #: time of the last update, and the longest recent wait, seconds


@compiled_borrowing
def _corrected(seconds: float, age: float, request: float, correction: int) -> float:
    """The corrected estimate of a job that still runs after `age` seconds."""
    most = np.inf if correction == _DOUBLED else request
    first, step = seconds, 0
    while seconds <= age and seconds < most:
        if correction == _DOUBLED:
            seconds *= _LONGER
        elif correction == _STEPPED and step < len(_STEPS):
            seconds = first + _STEPS[step]
        else:
            seconds = request
        step += 1
    return min(seconds, most)


@compiled_borrowing
def _consistent_shadow(cluster: Cluster, plan: Plan, head: int) -> tuple[float, int]:
    """`shadow_of` with the plan estimates of running jobs."""
    running, ends, now = cluster.state[0].running, plan.ends, cluster.state[0].now
    for place in range(running):
        job = cluster.running[place].expected_job
        age, seconds = now - cluster.start[job], max(plan.seconds[job], 1.0)
        seconds = _corrected(seconds, age, cluster.jobs[job].estimate, plan.correction)
        ends[place] = max(cluster.start[job] + seconds, now)
    needed = cluster.jobs[head].processors
    free, shadow = cluster.state[0].idle, now
    while True:
        first = -1
        for place in range(running):
            if not np.isinf(ends[place]) and (first < 0 or ends[place] < ends[first]):
                first = place
        if first < 0 or (free >= needed and ends[first] > shadow):
            return shadow, free - needed
        shadow = ends[first]
        free += cluster.jobs[cluster.running[first].expected_job].processors
        ends[first] = np.inf


@compiled_borrowing
def head_shadow(cluster: Cluster, plan: Plan, head: int) -> tuple[float, int]:
    """`shadow_of` the head by the plan; records the promise to the head."""
    if plan.kind == CONSISTENT:
        return _consistent_shadow(cluster, plan, head)
    shadow, spare = shadow_of(cluster, head, 0)
    if np.isnan(plan.promise[head]):
        plan.promise[head] = shadow
    return shadow, spare


@compiled_borrowing
def ends_in_time(cluster: Cluster, plan: Plan, job: int, head: int, shadow: float) -> bool:
    """Whether the plan lets a candidate that starts now end before the head's start."""
    now = cluster.state[0].now
    at_limit = now + cluster.jobs[job].estimate
    planned = now + min(plan.seconds[job], cluster.jobs[job].estimate) <= shadow
    if plan.kind == CONSISTENT:
        return planned
    return at_limit <= shadow or (planned and at_limit <= plan.promise[head] + plan.slack[0])


@compiled_borrowing
def ends_as_planned(cluster: Cluster, plan: Plan, job: int) -> bool:
    """Whether a job that ends now ends as planned or later."""
    request, age = cluster.jobs[job].estimate, cluster.state[0].now - cluster.start[job]
    if plan.kind != CONSISTENT:
        return request <= age
    just_before = np.nextafter(age, 0.0)  # ending does not outlive the estimate
    seconds = max(plan.seconds[job], 1.0)
    return _corrected(seconds, just_before, request, plan.correction) <= age


#: Index of the median among the predicted quantiles.
_MEDIAN = PARTS.index(0.5)
#: Bounds of `Plan.slack`, seconds.
_STRICTEST, _SLACKEST = MINUTE, DAY


def by_requests(workload: Workload) -> Plan:
    """The plan of plain EASY."""
    jobs = len(workload.submit)
    return Plan(
        kind=PENDING_ONLY,
        correction=CORRECTIONS[DOUBLED],
        seconds=np.full(jobs, np.inf),
        promise=np.full(jobs, np.nan),
        slack=np.zeros(1),
        ends=np.empty(jobs),
        quantiles=NO_QUANTILES,
        last_runs=np.empty((0, 2)),
        seen=np.zeros(2, dtype=np.int64),
        part=0.0,
        site=np.array([-np.inf, 0.0]),
    )


def by_last_runs(workload: Workload, correction: str) -> Plan:
    """A consistent plan by the mean of the user's last two runs at submission (EASY++)."""
    if len(workload.past.user) != len(workload.submit):
        raise SimulationError("a plan by users' last runs needs to know users.")
    return by_requests(workload)._replace(
        kind=CONSISTENT,
        correction=CORRECTIONS[correction],
        last_runs=np.full((len(workload.past.users), 2), np.nan),
    )


def by_prediction(workload: Workload, network: QNetwork, slack: float) -> Plan:
    """A pending-only plan by the predicted median."""
    features = len(network.schema.history_jobs)
    nothing = np.zeros((features, 0))
    history = history_part(workload, nothing, np.zeros(features))
    quantiles = _quantiles(history, len(workload.submit))
    return by_requests(workload)._replace(quantiles=quantiles, part=slack)


@compiled_borrowing
def predicted_quantile(cluster: Cluster, quantiles: Quantiles, job: int, part: int) -> float:
    """Seconds below which one of PARTS, by its place, of such runs end; at most the limit."""
    history, template = quantiles.history, cluster.past.template[job]
    bring_part_up(cluster, history, job)
    fill_shares(quantiles.shares, history.hazards[template])
    quantile = run_time_at(quantiles.shares, quantiles.asked_shares[part])
    return min(quantile, history.past.asked[template])


@compiled_borrowing
def bring_quantiles_up_to_now(cluster: Cluster, quantiles: Quantiles) -> None:
    """Learn from the runs that ended since the last decision, and predict those that started."""
    history, now = quantiles.history, cluster.state[0].now
    ended, started = history.seen[ENDED_EVENT], history.seen[ENDED_EVENT + 1]
    bring_up_to_now(cluster, history)
    for place in range(ended, history.seen[ENDED_EVENT]):
        job = cluster.ended[place]
        learn_shares(quantiles.asked_shares, quantiles.predicted[job], cluster.jobs[job].run_time)
    for place in range(started, history.seen[ENDED_EVENT + 1]):
        job = cluster.started[place]
        if cluster.start[job] + cluster.jobs[job].run_time > now:
            for part in range(len(PARTS)):
                quantiles.predicted[job, part] = predicted_quantile(cluster, quantiles, job, part)


@compiled_borrowing
def bring_plan_up_to_now(cluster: Cluster, plan: Plan) -> None:
    """Update the estimates of pending jobs and the slack of promises."""
    now, site = cluster.state[0].now, plan.site
    if len(plan.last_runs) > 0:
        _predict_arrived(cluster, plan)
    wait = now - cluster.jobs[cluster.pending[0]].submit
    site[_LONGEST] = longest_wait(site[_LONGEST], now - site[_LOOKED_AT], wait)
    site[_LOOKED_AT] = now
    plan.slack[0] = min(max(plan.part * site[_LONGEST], _STRICTEST), _SLACKEST)
    if len(plan.quantiles.predicted) > 0:
        bring_quantiles_up_to_now(cluster, plan.quantiles)
        for place in range(cluster.state[0].pending):
            job = cluster.pending[place]
            median = predicted_quantile(cluster, plan.quantiles, job, _MEDIAN)
            plan.seconds[job] = max(median, 1.0)


@compiled_borrowing
def _predict_arrived(cluster: Cluster, plan: Plan) -> None:
    """Fill in `seconds` of the jobs that arrived since the last call, in whole seconds.

    The mean of the user's two runs that ended last before the arrival, at most the request; the
    request if the user has fewer than two.
    """
    while plan.seen[_ARRIVED] < cluster.state[0].next_arrival:
        job = plan.seen[_ARRIVED]
        _note_ended(cluster, plan, cluster.jobs[job].submit)
        own = plan.last_runs[cluster.past.user[job]]
        mean = np.floor(0.5 * (own[0] + own[1]))
        request = cluster.jobs[job].estimate
        plan.seconds[job] = request if np.isnan(mean) else min(mean, request)
        plan.seen[_ARRIVED] += 1


@compiled_borrowing
def _note_ended(cluster: Cluster, plan: Plan, before: float) -> None:
    """Record the runs that ended before a time, seconds."""
    while plan.seen[_ENDED] < cluster.state[0].ended:
        job = cluster.ended[plan.seen[_ENDED]]
        if cluster.start[job] + cluster.jobs[job].run_time >= before:
            return
        own = plan.last_runs[cluster.past.user[job]]
        own[0], own[1] = own[1], cluster.jobs[job].run_time
        plan.seen[_ENDED] += 1


class BehindHead(NamedTuple):
    """First come, first served up to the head, and the shortest job first behind it."""

    #: Assumed run time of each job, shape [n]; all equal for first come, first served.
    seconds: FloatArray
    scores: FloatArray  #: work space for scores
    jobs: IntArray  #: work space for job numbers


def behind_head(seconds: FloatArray) -> BehindHead:
    """The order for assumed run times, shape [n], which may change in place."""
    jobs = len(seconds)
    return BehindHead(seconds, np.empty(jobs), np.empty(jobs, dtype=np.int64))


def starts_under(
    workload: Workload, capacity: int, queue: BehindHead | OrderedQueue, plan: Plan
) -> FloatArray:
    """Start of each job under EASY backfilling, seconds, shape [n]."""
    cluster = SimulationSettings(capacity=capacity).empty_cluster(workload)
    _run_singly(cluster, queue, plan)
    return finished_schedule(cluster).start


@compiled
def _run_singly(cluster: Cluster, queue: BehindHead | OrderedQueue, plan: Plan) -> None:
    while True:
        time = next_event(cluster)
        if np.isinf(time):
            return
        account_usage_until(cluster, time)
        cluster.state[0].now = time
        arrival = cluster.state[0].next_arrival
        if arrival < len(cluster.jobs) and cluster.jobs[arrival].submit <= time:
            arrive(cluster)
        else:
            _end(cluster, _first_ending(cluster, plan, False))
        place = _first_ending(cluster, plan, True)
        while place >= 0:
            _end(cluster, place)
            place = _first_ending(cluster, plan, True)
        if cluster.state[0].idle > 0 and anything_fits(cluster):
            cluster.state[0].decisions += 1
            bring_plan_up_to_now(cluster, plan)
            _score(cluster, queue)
            _start(cluster, queue.scores, queue.jobs, plan)


@compiled
def _first_ending(cluster: Cluster, plan: Plan, as_planned: bool) -> int:
    """Place in the heap of the job that ends now and started first; -1 for none."""
    first, running = -1, cluster.state[0].running
    if running == 0 or cluster.running[0].end_time > cluster.state[0].now:
        return first
    for place in range(running):
        job = cluster.running[place].end_job
        if cluster.running[place].end_time > cluster.state[0].now:
            continue
        if as_planned and not ends_as_planned(cluster, plan, job):
            continue
        best = cluster.running[first].end_job if first >= 0 else job
        if (cluster.start[job], job) <= (cluster.start[best], best):
            first = place
    return first


@compiled
def _end(cluster: Cluster, place: int) -> None:
    """End the job at a place of the heap; its end is as early as that of the root."""
    swap_ends(cluster.running, 0, place)
    end_next_job(cluster)


def _score_behind_head(cluster: Cluster, queue: BehindHead) -> None:
    idle = cluster.state[0].idle
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        queue.jobs[place], queue.scores[place] = job, -queue.seconds[job]
        if idle >= 0:  # before the head jobs keep the order of submission
            queue.scores[place] = np.inf
            idle -= cluster.jobs[job].processors


@chosen_by_type("queue", {BehindHead: _score_behind_head})
def _score(cluster: Cluster, queue: BehindHead | OrderedQueue) -> None:
    score_queue(cluster, queue)


@compiled
def _start(cluster: Cluster, scores: FloatArray, jobs: IntArray, plan: Plan) -> None:
    """Start jobs by score up to the first that does not fit, then backfill by the plan."""
    head, looked, shadow, spare, started = -1, False, 0.0, 0, False
    for place in best_first(scores, cluster.state[0].pending):  # equal scores by submission
        job, wide = jobs[place], cluster.jobs[jobs[place]].processors
        if wide > cluster.state[0].idle:
            head = job if head < 0 else head
            continue
        if head >= 0 and not looked:
            shadow, spare = head_shadow(cluster, plan, head)
            looked = True
        if head >= 0 and not ends_in_time(cluster, plan, job, head, shadow):
            if wide > spare:
                continue
            spare -= wide
        start_job(cluster, job)
        started = True
    if started:
        forget_started(cluster)


class Flows(NamedTuple):
    """Figures of a schedule: mean bounded slowdown, longest flow and longest wait in seconds."""

    slowdown: float
    longest_flow: float
    longest_wait: float


def read_benchmark_log(folder: Path, name: str, most: int | None) -> StudyLog:
    """Jobs that ran and have a time limit, killed at it."""
    path = archived_log(folder, name)
    log, report = read_log(path)
    asked = np.flatnonzero(np.isfinite(log.time_limit))[:most]
    if len(asked) == 0:
        raise ConfigurationError(
            f"{path} has no job that ran and asked for a time: copy the log again."
        )
    prepared = prepare_log(log.select(asked), kill_at_limit=True)
    return StudyLog(class_known_at_submission(prepared), report.checksum)


def starts_of(cell: Cell, log: StudyLog) -> FloatArray:
    """Start of each job in a cell, seconds, shape [n]."""
    workload = log.prepared.workload(RequestedLimit())
    if cell.predictor == TWICE:
        workload = workload.having(estimate=2.0 * workload.estimate)
    if cell.predictor == TRUE:
        workload = workload.having(estimate=workload.run_time)
    plan, assumed = by_requests(workload), workload.estimate
    if cell.predictor == LAST_RUNS:
        plan = by_last_runs(workload, cell.correction)
        assumed = plan.seconds
    if cell.scheduler not in (PLUS_PLUS, EASY_SJBF):
        assumed = np.zeros_like(assumed)
    return starts_under(workload, log.prepared.capacity, behind_head(assumed), plan)


def flows_of(log: StudyLog, start: FloatArray) -> Flows:
    """The figures of a schedule, over all jobs."""
    jobs = log.prepared.log
    wait = start - jobs.submit
    return Flows(
        slowdown=float(bounded_slowdown(wait, jobs.run_time).mean()),
        longest_flow=float((wait + jobs.run_time).max()),
        longest_wait=float(wait.max()),
    )
