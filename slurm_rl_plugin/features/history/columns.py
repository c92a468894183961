"""The history columns of a snapshot: what past runs and jobs alike tell of each pending job.

What is told depends on the template and the time limit only, so it is computed once for each
pair of them that waits, however many jobs there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.features.history.job_keys import job_keys, met_users, template_keys
from slurm_rl_plugin.features.history.past_runs import HistoryTable, PastRuns
from slurm_rl_plugin.features.history.run_history import SPENT, speaks_for
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    ROW_FACTS,
    TEMPLATE_FACTS,
    TEMPLATE_KNOWN,
    USER_FACTS,
    USER_KNOWN,
    RunTimePrediction,
    alike_features,
    at_its_word,
    fill_row_facts,
    history_features,
    request_facts,
)
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Places of facts that rows of history tell.
_OF_USER = slice(USER_FACTS, USER_FACTS + ROW_FACTS)
_OF_TEMPLATE = slice(TEMPLATE_FACTS, TEMPLATE_FACTS + ROW_FACTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPast:
    """What is known of groups of jobs: those of one template and time limit.

    Attributes:
        request: what the request tells, as `request_facts`, shape [2, groups].
        users: what the runs of each user tell, shape [ROW_FACTS, users].
        users_known: whether a run of each user has been seen, shape [users].
        user: whose each group is, shape [groups].
        templates: what the runs of templates tell of which one has been seen, shape
            [ROW_FACTS, seen]; for the others their user's stand in.
        seen: places of these among the groups, shape [seen].
        time_limit: requested seconds, shape [groups].
        known: whether a run of the template has been seen, shape [groups].
        speaks: whether past runs speak for the request, shape [groups].
        alike: these jobs and running jobs of the template, shape [groups] each.
        group: of each job, shape [n].
    """

    request: FloatArray
    users: FloatArray
    users_known: BoolArray
    user: IntArray
    templates: FloatArray
    seen: IntArray
    time_limit: FloatArray
    known: BoolArray
    speaks: BoolArray
    alike: tuple[FloatArray | IntArray, IntArray]
    group: IntArray

    @property
    def facts(self) -> FloatArray:
        """What a prediction is made of, as `fill_known_facts`, shape [KNOWN_FACTS, groups]."""
        facts = np.empty((KNOWN_FACTS, len(self.user)))
        facts[0] = 1.0
        facts[1:USER_FACTS] = self.request
        facts[_OF_USER] = facts[_OF_TEMPLATE] = self.users[:, self.user]
        facts[_OF_TEMPLATE, self.seen] = self.templates
        facts[USER_KNOWN] = self.users_known[self.user]
        facts[TEMPLATE_KNOWN] = self.known
        return facts

    def weighed(self, weights: FloatArray) -> FloatArray:
        """`weights @ facts`, shape [outputs, groups], in fewer steps: users are fewer than groups.

        Args:
            weights: shape [outputs, KNOWN_FACTS].
        """
        of_user = weights[:, _OF_USER] @ self.users + weights[:, :1]
        of_user += weights[:, [USER_KNOWN]] * self.users_known
        of_template = weights[:, _OF_TEMPLATE]
        total = np.take(of_user + of_template @ self.users, self.user, axis=1)
        total[:, self.seen] = np.take(of_user, self.user[self.seen], axis=1)
        total[:, self.seen] += of_template @ self.templates + weights[:, [TEMPLATE_KNOWN]]
        return total + weights[:, 1:USER_FACTS] @ self.request


def known_past(
    snapshot: QueueSnapshot,
    jobs: JobTable,
    time_limit: FloatArray,
    past: PastRuns,
    waits_as: FloatArray | None = None,
) -> KnownPast:
    """What past runs and jobs alike tell of jobs of a snapshot; the facts of `fill_known_facts`.

    What a user's runs tell is computed once a user, however many jobs of his wait.

    Args:
        snapshot: the queue.
        jobs: n jobs of it, one at least.
        time_limit: requested seconds of each of them, UNKNOWN_RUN_TIME where none, shape [n].
        past: what runs have told up to the snapshot.
        waits_as: how many waiting jobs each of them is; by default one.
    """
    running = snapshot.running.as_requested
    users, which = met_users(snapshot.users, jobs.user)
    template = template_keys(users[which], jobs.processors, jobs.time_limit)
    first, group, pending_alike = _alike(template, time_limit, waits_as)
    _, running_template = job_keys(snapshot.users, running)
    of_users, users_known = _rows(past.users, users, past.site)
    of_group = which[first]
    limit = time_limit[first]
    processors = np.maximum(jobs.processors[first], 1).astype(np.float64)
    place = past.templates.places(template[first])
    seen = np.flatnonzero(place >= 0)  # of few of a long queue's templates a run has been seen
    return KnownPast(
        request=np.stack(request_facts(limit, processors)),
        users=_facts(of_users),
        users_known=users_known,
        user=of_group,
        templates=_facts(past.templates.rows[place[seen]].T),
        seen=seen,
        time_limit=limit,
        known=place >= 0,
        speaks=speaks_for(of_users[SPENT, of_group], limit, processors),
        alike=(pending_alike, _counted(running_template, template[first])),
        group=group,
    )


def history_columns(
    snapshot: QueueSnapshot,
    time_limit: FloatArray,
    past: PastRuns | KnownPast,
    prediction: RunTimePrediction,
) -> NDArray[np.float32]:
    """History features of the pending jobs of a snapshot, float32[n, len(SITE.history_jobs)].

    Args:
        snapshot: the queue.
        time_limit: requested seconds of each pending job, UNKNOWN_RUN_TIME where none, shape [n].
        past: what runs have told up to the snapshot, or what is known by it of the pending jobs.
        prediction: of the model.
    """
    if len(snapshot.pending) == 0:
        return np.empty((0, len(SITE.history_jobs)), dtype=np.float32)
    told = past
    if isinstance(told, PastRuns):
        waits_as = snapshot.each_waits_as
        told = known_past(snapshot, snapshot.pending.jobs, time_limit, told, waits_as)
    limit, speaks = told.time_limit, told.speaks
    predicted = told.weighed(prediction.weights)
    silent = ~speaks
    predicted[:, silent] = at_its_word(limit[silent])
    very_short, short, hours, log_run = predicted
    columns = history_features(very_short, short, hours, log_run, limit, told.known & speaks)
    columns += tuple(speaks * each for each in alike_features(*told.alike))
    features = np.empty((len(limit), len(columns)), dtype=np.float32)
    for index, column in enumerate(columns):
        features[:, index] = column
    return features[told.group]


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


def _rows(
    table: HistoryTable, keys: FloatArray, otherwise: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Rows of history, shape [HISTORY, n], and for which of the keys there is one, [n]."""
    place = table.places(keys)
    known = place >= 0
    rows = np.repeat(otherwise[:, None], len(keys), axis=1)
    rows[:, known] = table.rows[place[known]].T
    return rows, known


def _facts(rows: FloatArray) -> FloatArray:
    """What rows of history tell, shape [ROW_FACTS, n], from shape [HISTORY, n]."""
    facts = np.empty((ROW_FACTS, rows.shape[1]))
    fill_row_facts(facts, rows)
    return facts
