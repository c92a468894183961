"""The history columns of a snapshot: what past runs and jobs alike tell of each pending job.

What is told depends on the template and the time limit only, so it is computed once for each
pair of them that waits, however many jobs there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.features.history.job_keys import job_keys, limit_keys, met_users, template_keys
from slurm_rl_plugin.features.history.past_runs import HistoryTable, PastRuns
from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    HISTORY,
    SPENT,
    asked_time,
    request_class,
    speaks_for,
)
from slurm_rl_plugin.features.history.run_prediction import (
    PARTS,
    SHARES,
    alike_features,
    believed_rate,
    expected_run,
    fill_hazards,
    fill_shares,
    history_features,
    run_time_at,
)
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPast:
    """What is known of groups of jobs: those of one template and time limit.

    Attributes:
        hazards: as `run_prediction.fill_hazards`, shape [len(BOUNDS), groups].
        time_limit: requested seconds, shape [groups].
        speaks: whether its user's runs speak for the request, shape [groups].
        alike: these jobs and running jobs of the template, shape [groups] each.
        group: of each job, shape [n].
    """

    hazards: FloatArray
    time_limit: FloatArray
    speaks: BoolArray
    alike: tuple[FloatArray | IntArray, IntArray]
    group: IntArray

    def quantiles(self, asked: FloatArray) -> FloatArray:
        """Seconds below which parts of the jobs' runs end, the limit at most, [n, len(PARTS)].

        Args:
            asked: shares that are asked for, shape [len(PARTS)].
        """
        shares = np.empty((SHARES, len(self.time_limit)))
        fill_shares(shares, self.hazards)
        found = [
            np.minimum(run_time_at(shares, asked[part]), self.time_limit)
            for part in range(len(PARTS))
        ]
        return np.asarray(np.stack(found, axis=1)[self.group])


def known_past(
    snapshot: QueueSnapshot,
    jobs: JobTable,
    past: PastRuns,
    waits_as: FloatArray | None = None,
) -> KnownPast:
    """What past runs and jobs alike tell of jobs of a snapshot.

    Args:
        snapshot: the queue.
        jobs: n jobs of it, one at least.
        past: what runs have told up to the snapshot.
        waits_as: how many waiting jobs each of them is; by default one.
    """
    running = snapshot.running.as_requested
    users, which = met_users(snapshot.users, jobs.user)
    template = template_keys(users[which], jobs.processors, jobs.time_limit)
    time_limit = asked_time(jobs.time_limit)
    first, group, pending_alike = _alike(template, time_limit, waits_as)
    _, running_template = job_keys(snapshot.users, running)
    limit = time_limit[first]
    processors = np.maximum(jobs.processors[first], 1).astype(np.float64)
    user = _rows(past.users, users)[:, which[first]]
    site = _rows(past.site, request_class(limit, processors))
    speaks = speaks_for(user[SPENT], limit, processors)
    hazards = np.empty((len(BOUNDS), len(first)))
    limits = _rows(past.limits, limit_keys(users[which[first]], limit))
    fill_hazards(hazards, site, user, limits, _rows(past.templates, template[first]), speaks)
    return KnownPast(
        hazards=hazards,
        time_limit=limit,
        speaks=speaks,
        alike=(pending_alike, _counted(running_template, template[first])),
        group=group,
    )


def history_columns(snapshot: QueueSnapshot, past: PastRuns | KnownPast) -> NDArray[np.float32]:
    """History features of the pending jobs of a snapshot, float32[n, len(SITE.history_jobs)].

    Args:
        snapshot: the queue.
        past: what runs have told up to the snapshot, or what is known by it of the pending jobs.
    """
    if len(snapshot.pending) == 0:
        return np.empty((0, len(SITE.history_jobs)), dtype=np.float32)
    told = past
    if isinstance(told, PastRuns):
        waits_as = snapshot.each_waits_as
        told = known_past(snapshot, snapshot.pending.jobs, told, waits_as)
    mean, rate = expected_run(told.hazards, told.time_limit)
    columns = history_features(mean, believed_rate(mean, rate, told.speaks))
    columns += tuple(told.speaks * each for each in alike_features(*told.alike))
    return np.stack(columns, axis=1).astype(np.float32)[told.group]


def _alike(
    template: FloatArray, time_limit: FloatArray, waits_as: FloatArray | None
) -> tuple[IntArray, IntArray, FloatArray | IntArray]:
    """Groups of jobs of the same template and time limit.

    Returns:
        A job of each group, shape [groups]; the group of each job, [n]; how many jobs wait of each
        group's template, [groups]; one where none does, as a job is alike itself.
    """
    order = np.argsort(template)
    by_template, limit = template[order], time_limit[order]
    another = np.ones(len(order), dtype=np.bool_)  # of another template than the job before
    another[1:] = by_template[1:] != by_template[:-1]
    begins = another.copy()  # another group
    begins[1:] |= limit[1:] != limit[:-1]
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(begins) - 1
    of_template = np.cumsum(another) - 1
    weights = None if waits_as is None else waits_as[order]
    waiting = np.maximum(np.bincount(of_template, weights), 1)
    return order[begins], group, waiting[of_template[begins]]


def _counted(keys: FloatArray, wanted: FloatArray) -> IntArray:
    """How many of `keys` are each of `wanted`."""
    met = np.sort(keys)
    return np.searchsorted(met, wanted, side="right") - np.searchsorted(met, wanted, side="left")


def _rows(table: HistoryTable, keys: FloatArray) -> FloatArray:
    """The row of history of each key, zeros where there is none; shape [HISTORY, n]."""
    place = table.places(keys)
    known = place >= 0
    rows = np.zeros((HISTORY, len(keys)))
    rows[:, known] = table.rows[place[known]].T
    return rows
