"""Draws the load of `beside_slurm`, and computes figures of a run from logs and accounting.

Times are seconds since the epoch unless stated otherwise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from tests.bench.live.harness import LiveJob
from tests.bench.shares.flooded_site import FLOODS, SHARES
from tests.real.load import Outcome

#: Jobs of each account that has a backlog, of 665 in all; FLOODS sends 0.6 of the work.
BACKLOG: Mapping[str, int] = {"physics": 110, "chem": 75, "bio": 55, "geo": 25, FLOODS: 400}
#: Accounts whose short jobs take turns; with 0.05 of the shares each they leave most unspent.
NEWCOMERS = ("math", "mech", "civil")
#: Two users of each account.
USERS = {name: (f"flood{place:02}", f"flood{place + 50:02}") for place, name in enumerate(SHARES)}
#: Seconds that a job sleeps -> minutes that it requests.
LIMITS = {4: 5, 5: 10, 10: 10, 20: 60, 40: 240, 60: 600}
#: Run times and widths, all equally likely; in the adverse mix two accounts have their own.
_USUAL = ((5, 10, 20, 40, 60), (1, 2, 4, 4, 8))
_ADVERSE = {"physics": ((40, 60), (4, 8, 8)), FLOODS: ((5, 10, 20), (1, 2, 4, 4))}
#: Writes at most in one cycle as shipped: a cycle with as many may have left some for the next.
_MOST_WRITES = 2000
#: Seconds of wait that an interactive user does not notice.
_SHORT_WAIT = 2.0


def drawn_backlog(count: int, seed: int, *, adverse: bool = False) -> list[LiveJob]:
    """Draws about `count` jobs that are pending when the run begins, in order of submission.

    With `adverse` the jobs of physics are long and wide, and the flooding account's short and
    narrow.
    """
    rng = np.random.default_rng(seed)
    jobs = list[LiveJob]()
    for account, part in BACKLOG.items():
        runs, widths = _ADVERSE.get(account, _USUAL) if adverse else _USUAL
        for _ in range(round(count * part / sum(BACKLOG.values()))):
            seconds, cpus = int(rng.choice(runs)), int(rng.choice(widths))
            user = USERS[account][int(rng.integers(2))]
            limit = LIMITS[seconds]
            jobs.append(
                LiveJob(account=account, user=user, processors=cpus, minutes=limit, seconds=seconds)
            )
    return [jobs[place] for place in rng.permutation(len(jobs)).tolist()]


def newcomer(place: int) -> LiveJob:
    """A job of one CPU and 4 s; `place` is its place in the order of submission, from 0."""
    account = NEWCOMERS[place % len(NEWCOMERS)]
    user = USERS[account][place // len(NEWCOMERS) % 2]
    return LiveJob(account=account, user=user, minutes=LIMITS[4], seconds=4)


def service_over_share(
    jobs: Mapping[int, LiveJob], found: Mapping[int, Outcome], begin: float, end: float
) -> dict[str, float]:
    """Part of the delivered CPU time over the part of the shares, among accounts with a backlog.

    Args:
        jobs: job id -> job of the backlog.
        found: outcomes of the jobs that started, by accounting.
        begin, end: the period that counts.

    Returns:
        A ratio for each account and for "others" (all but the flooding account); and "used", the
        CPU seconds of all.
    """
    got = dict.fromkeys(BACKLOG, 0.0)
    for number, job in jobs.items():
        if number in found:
            ran = min(found[number].end, end) - max(found[number].start, begin)
            got[job.account] += max(ran, 0.0) * job.processors
    used, shares = sum(got.values()), sum(SHARES[name] for name in BACKLOG)
    ratios = {name: got[name] / used / (SHARES[name] / shares) for name in BACKLOG}
    others = (used - got[FLOODS]) / used / (1.0 - SHARES[FLOODS] / shares)
    return {**ratios, "others": others, "used": used}


@dataclass(frozen=True, slots=True)
class Moments:
    """When things happened to jobs, by the logs of Slurm's daemons, to the millisecond."""

    #: Job id -> slurmctld accepted the job.
    submitted: dict[int, float] = field(default_factory=dict)
    #: Job id -> slurmctld first accepted an update of the job.
    written: dict[int, float] = field(default_factory=dict)
    #: Job id -> the first slurmd received the job.
    launched: dict[int, float] = field(default_factory=dict)


#: Lines as Slurm 22.05 and 26.05 write them; 26.05's slurmctld does not log starts by backfill.
_SAYS = re.compile(
    r"\[(?P<time>\S+)\] (?:_slurm_rpc_(?P<submitted>submit_batch_job): "
    r"|_slurm_rpc_(?P<written>update_job): complete |(?P<launched>Launching) batch )"
    r"(?:JobId=|job )(?P<job>\d+)"
)


def moments_of(lines: Iterable[str]) -> Moments:
    """The first moment of each kind for each job, by the logs of slurmctld and of every slurmd."""
    moments = Moments()
    for line in lines:
        found = _SAYS.match(line)
        if found is None:
            continue
        kind = next(name for name in ("submitted", "written", "launched") if found[name])
        times: dict[int, float] = getattr(moments, kind)
        job, now = int(found["job"]), datetime.fromisoformat(found["time"]).timestamp()
        times[job] = min(times.get(job, math.inf), now)
    return moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """What happened to a new job; inf for what did not happen."""

    submitted: float  #: slurmctld accepted the job
    read: float  #: the daemon read the queue for the first cycle that ranked or wrote the job
    #: The first write of the job; or, without any before its start, the first cycle that ranked the
    #: job and needed no write, or its start.
    placed: float
    launched: float  #: a slurmd received the job


def newcomers_of(jobs: Sequence[int], moments: Moments, audit: Iterable[str]) -> list[Newcomer]:
    """What happened to each new job, by Slurm's logs and the lines of the daemon's audit log."""
    wanted = set(jobs)
    read, ranked = dict[int, float](), dict[int, float]()
    new, writes, now = set[int](), 0, 0.0
    for line in (*audit, '{"event": "cycle", "time": 0.0, "order": []}'):
        each: dict[str, Any] = json.loads(line)
        if each["event"] == "write":
            writes += 1
            if each["job"] in wanted:
                read.setdefault(each["job"], each["time"])
        elif each["event"] == "cycle":
            if writes < _MOST_WRITES:
                for job in new:
                    ranked.setdefault(job, now)
            new, writes, now = wanted.intersection(each["order"]), 0, each["time"]
            for job in new:
                read.setdefault(job, now)
    found = []
    for job in jobs:
        launched, written = (
            each.get(job, math.inf) for each in (moments.launched, moments.written)
        )
        unwritten = min(ranked.get(job, math.inf), launched)
        found.append(
            Newcomer(
                submitted=moments.submitted[job],
                read=read.get(job, math.inf),
                placed=written if written <= launched and written < math.inf else unwritten,
                launched=launched,
            )
        )
    return found


def newcomer_figures(jobs: Sequence[Newcomer], end: float, *, daemon: bool) -> dict[str, float]:
    """Waits of new jobs and, with a daemon, how long they are without a place, seconds.

    The parts of a wait are medians over the jobs that had their place before their start.

    Args:
        jobs: at least one.
        end: of the observation, at which the wait of a job that has not started is cut.
        daemon: whether one ran.
    """
    columns = [(each.submitted, each.read, each.placed, each.launched) for each in jobs]
    submitted, read, placed, launched = np.minimum(np.array(columns, dtype=np.float64), end).T
    wait, place = launched - submitted, placed - submitted
    figures = {
        "jobs": float(len(jobs)),
        "not started": float(np.count_nonzero(launched == end)),
        "wait, median": float(np.median(wait)),
        "wait, p95": float(np.quantile(wait, 0.95)),
        "wait, max": float(wait.max()),
        "within 2 s": float(np.mean(wait <= _SHORT_WAIT)),
    }
    if daemon:
        figures |= {
            "place, median": float(np.median(place)),
            "place, p95": float(np.quantile(place, 0.95)),
            "placed by a start": float(np.mean(placed >= launched)),
        }
    ranked = placed < launched
    if ranked.any():
        parts = {
            "submission to reading": read - submitted,
            "reading to place": np.maximum(placed - read, 0.0),
            "place to start": launched - placed,
        }
        figures |= {name: float(np.median(part[ranked])) for name, part in parts.items()}
    return figures
