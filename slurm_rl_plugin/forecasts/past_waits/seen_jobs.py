"""Jobs that were seen pending, and when they started: what a model of waits is fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.resources import GPUS, MEMORY, ResourceRequests
from slurm_rl_plugin.forecasts.scores import log_waits
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray

#: Looks a day, and how many days back.
_LOOKS, _DAYS = 6, 21
#: Waiting jobs of one look that are taken at most, evenly among all.
_OF_ONE_LOOK = 400


def polled_log(prepared: PreparedLog, now: float) -> SeenJobs:
    """Jobs that waited at looks of the last three weeks, with what is known of them by now.

    Args:
        prepared: the log; whoever still waits may be in it with any start later than `now`.
    """
    log = prepared.log
    first = max(float(log.submit[0]), now - _DAYS * DAY)
    moments = np.arange(now - DAY / _LOOKS, first, -DAY / _LOOKS)[::-1]
    looks = []
    for moment in moments.tolist():
        # as live, nothing is forecast of a job that could not start yet
        could = ~(log.eligible > moment)
        waited = np.flatnonzero((log.submit < moment) & (log.start > moment) & could)
        if len(waited) > _OF_ONE_LOOK:
            waited = waited[np.linspace(0, len(waited) - 1, _OF_ONE_LOOK).astype(np.int64)]
        looks.append(seen_now(prepared, moment, waited))
    everybody = np.empty(0, dtype=np.int64)
    found = joined_seen(seen_now(prepared, now, everybody), *looks)
    return found.as_known_at(now)


def seen_now(prepared: PreparedLog, moment: float, jobs: IntArray) -> SeenJobs:
    """Jobs of a log as they were seen waiting at a moment, with the starts that the log tells."""
    log = prepared.log.select(jobs)
    eligible = np.where(np.isfinite(log.eligible), log.eligible, log.submit)
    start = log.start
    return SeenJobs(
        moment=np.full(len(jobs), moment),
        submit=log.submit,
        eligible=eligible,
        limit=log.time_limit,
        cpus=log.processors.astype(np.float64),
        memory=_asked(log.requests, MEMORY, len(jobs)),
        gpus=_asked(log.requests, GPUS, len(jobs)),
        nodes=_nodes(log.requests, len(jobs)),
        priority=np.full(len(jobs), np.nan),
        account=log.account,
        partition=log.partition,
        start=start,
        end=start + log.run_time,
        user=log.user,
    )


def _asked(requests: ResourceRequests | None, name: str, count: int) -> FloatArray:
    return np.zeros(count) if requests is None else requests.of(name)


def _nodes(requests: ResourceRequests | None, count: int) -> FloatArray:
    return np.ones(count) if requests is None else np.maximum(requests.nodes, 1).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJobs:
    """One row for each time that a job was seen pending; arrays of shape [n]."""

    moment: FloatArray  #: when it was seen, seconds
    submit: FloatArray  #: when it was submitted, seconds
    #: Since when nothing but its place in the queue holds it, seconds; nan where a dependency or a
    #: begin time still holds it. It is not known then when that ends.
    eligible: FloatArray
    limit: FloatArray  #: its time limit, seconds; nan for none
    cpus: FloatArray  #: asked for
    memory: FloatArray  #: asked for, any unit
    gpus: FloatArray  #: asked for
    nodes: FloatArray  #: asked for
    priority: FloatArray  #: at that moment, any unit, higher goes first; nan where nobody told
    account: IntArray  #: any number for each account
    partition: IntArray  #: any number for each partition
    start: FloatArray  #: when it started, seconds; nan where it has not
    end: FloatArray  #: when it ended, seconds; nan where it has not
    #: Name -> what the queue and the machine told of it at that moment, as the polls of Graham and
    #: Cedar (2021) have it: `q_` jobs above it in the queue, `r_` running, of them `p_` in its
    #: partition, `a_` of its account. Empty where accounting alone is known.
    look: Mapping[str, FloatArray] = field(default_factory=dict)
    #: From when on its start counts as known, seconds; None for its start itself, which is right
    #: but where a published protocol knows more.
    told: FloatArray | None = None
    user: IntArray | None = None  #: any number for each user; None where no user is known

    def __len__(self) -> int:
        """How many rows."""
        return len(self.moment)

    @property
    def wait(self) -> FloatArray:
        """Seconds from the look to the start; nan where it has not started."""
        return self.start - self.moment

    @property
    def template(self) -> IntArray:
        """A number for each kind of job: same account, partition and request."""
        asked = (self.cpus, self.memory, self.gpus, np.nan_to_num(self.limit, nan=-1.0))
        return codes_of(self.account, self.partition, *asked)

    def started_by(self, moment: float) -> BoolArray:
        """Whether it is known at a moment when each started."""
        return np.asarray((self.start if self.told is None else self.told) <= moment)

    def log_wait_by(self, moment: float) -> FloatArray:
        """log10 of each wait as far as it is known at a moment: whole, or what it has been so far.

        Args:
            moment: seconds, later than the looks.
        """
        return log_waits(np.where(self.started_by(moment), self.wait, moment - self.moment))

    def select(self, which: BoolArray | IntArray) -> SeenJobs:
        """Some of the rows."""
        columns: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        look = {name: values[which] for name, values in columns.pop("look").items()}
        chosen: dict[str, Any] = {
            name: None if each is None else each[which] for name, each in columns.items()
        }
        return SeenJobs(**chosen, look=look)

    def as_known_at(self, moment: float) -> SeenJobs:
        """What was known at a moment: the rows seen before, starts and ends that had happened."""
        seen = self.select(self.moment < moment)
        return replace(
            seen,
            start=np.where(seen.start <= moment, seen.start, np.nan),
            end=np.where(seen.end <= moment, seen.end, np.nan),
        )


def joined_seen(*parts: SeenJobs) -> SeenJobs:
    """Several behind each other, without what a look at the queue told."""
    columns: dict[str, Any] = {
        each.name: np.concatenate([getattr(part, each.name) for part in parts])
        for each in fields(SeenJobs)
        if each.name not in ("look", "told") and getattr(parts[0], each.name) is not None
    }
    return SeenJobs(**columns)


def codes_of(*columns: FloatArray | IntArray) -> IntArray:
    """A number from 0 for each distinct row of some columns, in their order, int64[n]."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        codes = codes * len(values) + place
        # numbered anew each time, so that the product cannot grow out of 64 bits
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes
