"""Measures what a job gains by another request, and who pays: pairs of replays under EASY.

    python -m tests.bench.shares.gaming LOG LOG LOG

In each pair the same jobs, a hundredth of the last 40 % of the log, make honest and other requests.
Each job runs as long as in the log, at most up to its limit. Each draw leaves out 2 % of the log's
jobs, since a single replay depends on chance. Accounts with shares are those of `share_cases`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.domain.goals import AS_TRAINED
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.training_load import class_known_at_submission, training_jobs
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.cluster import advance
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    QueueOrder,
    decide_scored,
    rank_anew,
    rank_of_tiers,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    finished_schedule,
    run_up_to,
)
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    prepare_log,
    select_prepared,
    told_apart,
)
from slurm_rl_plugin.units import HOUR, MINUTE, BoolArray, FloatArray, IntArray
from tests.bench.report import write_document
from tests.bench.shares.share_cases import case_of

#: Part of the judged jobs that change their requests.
DRAWN = 0.01
#: Part of the jobs that a draw leaves out of both replays.
LEFT_OUT = 0.02
#: Run time of a dummy run, and time between its submission and the job's, seconds.
DUMMY_RUN, DUMMY_AHEAD = 5.0, HOUR
#: Kinds of jobs of a changed log: an honest job or a part of one, and a dummy run.
PART, DUMMY = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A change of requests."""

    #: processors, time_limit: factors; processors are rounded up.
    processors: float = 1.0
    time_limit: float = 1.0
    run_time: float = 1.0  #: factor for each part
    parts: int = 1  #: jobs that replace one
    dummies: int = 0  #: runs of DUMMY_RUN seconds of the same user and time limit
    ahead: float = DUMMY_AHEAD  #: seconds between their submission and the job's
    narrow: bool = False  #: whether dummies request one processor, not the job's
    fresh_user: bool = False  #: each job has a user without past runs
    account: bool = False  #: the job is charged to the account that has used least of its share


WAYS: Mapping[str, Way] = {
    "2 x processors": Way(processors=2.0),
    "8 x processors": Way(processors=8.0),
    "limit / 2": Way(time_limit=0.5),
    "limit / 4": Way(time_limit=0.25),
    "2 x limit": Way(time_limit=2.0),
    "4 jobs of processors / 4": Way(processors=0.25, parts=4),
    "4 jobs of time / 4": Way(time_limit=0.25, run_time=0.25, parts=4),
    "unknown user": Way(fresh_user=True),
    "10 dummies like it before": Way(dummies=10),
    "10 dummies of 1 processor before": Way(dummies=10, narrow=True),
    "7 dummies like it with it": Way(dummies=7, ahead=0.0),
    "limit + 1 %": Way(time_limit=1.01),  # same step: past runs still count
    "limit + 25 %": Way(time_limit=1.25),  # a new template
}
#: Changes that matter only for an order that predicts run times.
OURS = (
    "unknown user",
    "limit + 1 %",
    "limit + 25 %",
    *(name for name, way in WAYS.items() if way.dummies),
)
#: Changes if accounts have shares.
WITH_SHARES: Mapping[str, Way] = {
    "account with little usage": Way(account=True),
    "2 x processors": WAYS["2 x processors"],
}


class Changed(NamedTuple):
    """A log in which some jobs change their requests; columns of shape [m]."""

    log: PreparedLog  #: prepared, with parts and dummies
    honest: IntArray  #: place of the honest job that each job belongs to
    kind: IntArray  #: PART or DUMMY


def idle_account(prepared: PreparedLog) -> int:
    """The account that has used the least of its share over the whole log."""
    work = prepared.log.run_time * prepared.log.processors
    used = np.bincount(prepared.account, work, len(prepared.shares))
    return int(np.argmin(used / np.maximum(prepared.shares, 1e-9)))


def may_ask(prepared: PreparedLog, way: Way) -> BoolArray:
    """Whether each job can make this change, shape [n]."""
    log = prepared.log
    fits = log.processors * way.processors <= prepared.capacity
    able = fits & (log.processors * way.processors >= 1.0) & (log.time_limit > 0.0)
    able &= (log.time_limit * way.time_limit >= MINUTE) | (way.time_limit >= 1.0)
    if way.account:
        able &= prepared.account != idle_account(prepared)
    return np.asarray(able, dtype=np.bool_)


def changed_log(prepared: PreparedLog, drawn: IntArray, way: Way) -> Changed:
    """The log in which the drawn jobs, ascending places, change their requests."""
    times = np.ones(len(prepared.log), dtype=np.int64)
    times[drawn] = way.parts
    parts = np.repeat(np.arange(len(times)), times)
    dummies = np.repeat(drawn, way.dummies)
    honest = np.concatenate([parts, dummies])
    kind = np.repeat([PART, DUMMY], [len(parts), len(dummies)])
    mine = np.isin(honest, drawn)
    part, dummy = mine & (kind == PART), kind == DUMMY
    log = prepared.log.select(honest)
    log.processors[part] = np.ceil(log.processors[part] * way.processors)
    log.processors[dummy & way.narrow] = 1
    log.time_limit[mine] *= way.time_limit
    log.run_time[part] = np.ceil(log.run_time[part] * way.run_time)
    log.run_time[dummy] = DUMMY_RUN
    log.run_time[mine] = np.minimum(log.run_time[mine], log.time_limit[mine])
    log.submit[dummy] -= way.ahead
    if way.fresh_user:
        fresh = tuple(f"fresh{number}" for number in range(int(part.sum())))
        log.user[part] = len(log.users) + np.arange(len(fresh))
        log = replace(log, users=(*log.users, *fresh))
    account = prepared.account[honest]
    if way.account:
        account[part] = idle_account(prepared)
    order = np.argsort(log.submit, kind="stable")
    log = replace(log, eligible=log.submit).select(order)
    found = select_prepared(prepared, honest[order])
    found = replace(found, log=log, account=account[order], past=told_apart(log))
    return Changed(class_known_at_submission(found), honest[order], kind[order])


class Replay(NamedTuple):
    """Result of a replay; seconds."""

    #: wait, response: of each honest job, until the last of its parts starts or ends, shape [n].
    wait: FloatArray
    response: FloatArray
    #: Part of the other pending jobs that are before each request's last part at its submission;
    #: NaN if no other job is pending.
    ahead: FloatArray


def replayed(
    prepared: PreparedLog, changed: Changed, requests: IntArray, order: QueueOrder
) -> Replay:
    """Replays a changed log, and records the queue at the submission of some honest jobs."""
    log = changed.log
    settings = SimulationSettings(
        capacity=log.capacity, backfilling="easy", goals=log.goals(AS_TRAINED)
    )
    workload = log.workload(RequestedLimit())
    queue, cluster = settings.ordered_queue(workload, order), settings.empty_cluster(workload)
    ahead = np.full(len(requests), np.nan)
    rank = rank_of_tiers(np.zeros(len(log.log), dtype=np.int64))
    came = np.full(len(prepared.log), np.inf)
    part = changed.kind == PART
    came[changed.honest[part]] = log.log.submit[part]
    for number, request in enumerate(requests.tolist()):
        now = float(came[request])
        run_up_to(cluster, queue, now - 0.5)  # times of logs are whole seconds
        advance(cluster, now)
        rank_anew(cluster._replace(rank=rank), queue)
        waiting = cluster.waiting
        own = changed.honest[waiting] == request
        others = waiting[~own & (changed.kind[waiting] == PART)]
        own &= changed.kind[waiting] == PART
        if own.any() and len(others):
            ahead[number] = np.mean(rank[others] < rank[waiting[own]].max())
        decide_scored(cluster, queue)
    run_up_to(cluster, queue, np.inf)
    start = finished_schedule(cluster).start
    last = np.full((2, len(prepared.log)), -np.inf)
    for row, time in zip(last, (start, start + log.log.run_time), strict=True):
        np.maximum.at(row, changed.honest[part], time[part])
    wait, response = last - prepared.log.submit
    return Replay(wait, response, ahead)


class Gain(NamedTuple):
    """Changed over honest requests, of one draw."""

    wait: float  #: ratio of mean waits of jobs that are not killed
    error: float  #: two standard errors of ln(wait) over draws
    #: Median ratio of (wait + a minute), of jobs that wait a minute in either replay.
    median: float
    response: float  #: ratio of mean times from submission to end
    ahead: float  #: change of the part of the queue before the job at its submission
    paid: float  #: ratio of core-seconds, dummies included
    killed: float  #: part of the jobs that reach the shorter limit
    lost: float  #: part of the honest core-seconds that killed jobs needed
    others: float  #: ratio of mean waits of all other judged jobs


def gain_of(
    prepared: PreparedLog,
    drawn: IntArray,
    judged: BoolArray,
    changed: Changed,
    replays: tuple[Replay, Replay],
) -> Gain:
    """Figures of the `drawn` places of the honest log `prepared`; the honest replay comes first."""
    honest, other = replays
    work = prepared.log.run_time * prepared.log.processors
    asked = np.isin(changed.honest, drawn)
    spent = (changed.log.log.run_time * changed.log.log.processors)[asked].sum()
    run_time = np.zeros(len(work))
    part = changed.kind == PART
    np.add.at(run_time, changed.honest[part], changed.log.log.run_time[part])
    killed = drawn[run_time[drawn] < prepared.log.run_time[drawn]]
    ended = np.setdiff1d(drawn, killed)
    before, after = honest.wait[ended], other.wait[ended]
    waited = np.maximum(before, after) >= MINUTE
    ratio = (after[waited] + MINUTE) / (before[waited] + MINUTE)
    rest = np.setdiff1d(np.flatnonzero(judged), drawn)
    return Gain(
        wait=float(after.sum() / max(before.sum(), 1.0)),
        error=0.0,
        median=float(np.median(ratio)) if len(ratio) else 1.0,
        response=float(other.response[ended].sum() / honest.response[ended].sum()),
        ahead=float(np.nanmean(other.ahead) - np.nanmean(honest.ahead)),
        paid=float(spent / work[drawn].sum()),
        killed=len(killed) / len(drawn),
        lost=float(work[killed].sum() / work[drawn].sum()),
        others=float(other.wait[rest].sum() / max(float(honest.wait[rest].sum()), 1.0)),
    )


def over_draws(gains: Sequence[Gain]) -> Gain:
    """Means over draws, geometric for ratios of waits."""
    values = np.array(gains)
    ratios = [Gain._fields.index(name) for name in ("wait", "median", "response", "others")]
    logs = np.log(np.maximum(values[:, ratios], 1e-3))
    mean = values.mean(axis=0)
    mean[ratios] = np.exp(logs.mean(axis=0))
    row = Gain(*mean.tolist())
    spread = logs[:, 0].std(ddof=1) if len(gains) > 1 else 0.0
    return row._replace(error=float(2.0 * spread / np.sqrt(len(gains))))


def drawn_gains(
    prepared: PreparedLog, ways: Mapping[str, Way], order: QueueOrder, rng: np.random.Generator
) -> dict[str, Gain]:
    """The gain of each way in one draw."""
    jobs = len(prepared.log)
    kept = np.sort(rng.choice(jobs, int(jobs * (1.0 - LEFT_OUT)), replace=False))
    judged = kept >= training_jobs(prepared)
    part = select_prepared(prepared, kept)
    drawn = {}
    for name, way in ways.items():
        able = np.flatnonzero(judged & may_ask(part, way))
        most = min(max(int(judged.sum() * DRAWN), 1), len(able))
        drawn[name] = np.sort(rng.choice(able, most, replace=False))
    looked = np.unique(np.concatenate(list(drawn.values())))
    honest = replayed(part, changed_log(part, looked[:0], Way()), looked, order)
    gains = {}
    for name, asking in drawn.items():
        changed = changed_log(part, asking, ways[name])
        other = replayed(part, changed, asking, order)
        same = honest._replace(ahead=honest.ahead[np.searchsorted(looked, asking)])
        gains[name] = gain_of(part, asking, judged, changed, (same, other))
    return gains


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries every change under both orders on every log; prints a table, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--jobs", type=int, default=80_000, help="first jobs of each log")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=float, default=0.95, help="where accounts have shares")
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    chosen = parser.parse_args(arguments)
    found: dict[str, dict[str, dict[str, float]]] = {}
    orders = {
        chosen.model: QueueOrder(network=candidate_of(chosen.model).network),
        SITES_OWN: QueueOrder(rule=SITES_OWN),
    }
    for path in chosen.log:
        log, _ = read_log(path)
        whole = prepare_log(log, kill_at_limit=True)
        part = whole.log.select(np.arange(len(whole.log))[: chosen.jobs])
        prepared = class_known_at_submission(prepare_log(part, capacity=whole.capacity))
        shared = case_of(prepared, "skew", chosen.load, chosen.seed)
        for title, each, ways in (("", prepared, WAYS), (" with shares", shared, WITH_SHARES)):
            for name, order in orders.items():
                wanted = {way: ways[way] for way in ways if name != SITES_OWN or way not in OURS}
                draws = [
                    drawn_gains(each, wanted, order, np.random.default_rng([chosen.seed, draw]))
                    for draw in range(chosen.draws)
                ]
                rows = {way: over_draws([draw[way] for draw in draws]) for way in wanted}
                found[f"{path.name}{title}: {name}"] = {way: rows[way]._asdict() for way in rows}
                print(f"{path.name}{title}: {name}")
                print(f"{'':33}", *(f"{figure:>8}" for figure in Gain._fields))
                for way, row in rows.items():
                    print(f"{way:33}", *(f"{figure:8.2f}" for figure in row), flush=True)
    write_document(chosen.output / "gaming.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
