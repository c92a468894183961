"""What past runs tell, inside the compiled loop: rows of history that change as jobs run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.estimates import UNKNOWN_RUN_TIME
from slurm_rl_plugin.features.history.run_history import (
    FAST,
    HISTORY,
    LONG_RUN,
    SHORT_RUN_TIMES,
    SITE_FAST,
    SITE_SLOW,
    SLOW,
    SPENT,
    UNKNOWN,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fold_ended,
    fold_outlived,
    fold_spent,
    speaks_for,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Kinds of events in which a run tells something: it has outlived one of SHORT_RUN_TIMES, or ended.
ENDED_EVENT = len(SHORT_RUN_TIMES)


class WorkloadHistory(NamedTuple):
    """Whose the jobs of a workload are, and what was known of their runs before its first job.

    Attributes:
        user: number of each job's user, shape [n]; empty where nobody is told apart.
        template: number of each job's template, shape [n]; empty as `user` is.
        asked: time limit of each template's jobs, seconds; UNKNOWN_RUN_TIME where they ask for
            none, whatever is estimated then; shape [templates].
        site: the site's row of history, shape [HISTORY].
        users: a row for each user, shape [users, HISTORY].
        user_known: whether a run of the user has been seen, shape [users].
        templates: a row for each template, shape [templates, HISTORY].
        template_known: the same for templates, shape [templates].
    """

    user: IntArray
    template: IntArray
    asked: FloatArray
    site: FloatArray
    users: FloatArray
    user_known: BoolArray
    templates: FloatArray
    template_known: BoolArray

    def of_jobs(self, index: IntArray | BoolArray) -> WorkloadHistory:
        """The same for the chosen jobs; who is not among them keeps no row."""
        if len(self.user) == 0:
            return self
        users, user = np.unique(self.user[index], return_inverse=True)
        templates, template = np.unique(self.template[index], return_inverse=True)
        return WorkloadHistory(
            user=user.astype(np.int64),
            template=template.astype(np.int64),
            asked=self.asked[templates],
            site=self.site.copy(),
            users=self.users[users],
            user_known=self.user_known[users],
            templates=self.templates[templates],
            template_known=self.template_known[templates],
        )

    def per_job(self) -> tuple[IntArray, ...]:
        """The columns with a row for each job; none where no user is known."""
        return (self.user, self.template) if len(self.user) else ()

    def rows(self, count: int) -> WorkloadHistory:
        """The same users and templates, with room for `count` jobs (`Workload.rows`)."""
        user, template = (np.zeros(count if len(self.user) else 0, np.int64) for _ in range(2))
        return self._replace(user=user, template=template)

    def copy(self) -> WorkloadHistory:
        """The same with rows of its own, to be changed."""
        return self._replace(**{name: column.copy() for name, column in self._asdict().items()})


def nothing_past(user: IntArray, template: IntArray, time_limit: FloatArray) -> WorkloadHistory:
    """Jobs of whose users nothing is known.

    Args:
        user: number of each job's user from 0 on, shape [n].
        template: the same for templates, shape [n].
        time_limit: requested seconds, the same for all jobs of a template, shape [n]; NaN where
            none.
    """
    users = int(user.max(initial=-1)) + 1
    templates = int(template.max(initial=-1)) + 1
    asked = np.full(templates, UNKNOWN_RUN_TIME)
    known = np.isfinite(time_limit) & (time_limit > 0)
    asked[template[known]] = time_limit[known]
    return WorkloadHistory(
        user=user,
        template=template,
        asked=asked,
        site=np.array(UNKNOWN),
        users=np.zeros((users, HISTORY)),
        user_known=np.zeros(users, dtype=np.bool_),
        templates=np.zeros((templates, HISTORY)),
        template_known=np.zeros(templates, dtype=np.bool_),
    )


#: Jobs whose users are not told apart.
NO_PAST = nothing_past(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


@compiled_borrowing
def fold_run(
    past: WorkloadHistory, user: int, template: int, kind: int, run_time: float, processors: float
) -> None:
    """Let one event of a run tell the site, its user and its template.

    Who is met for the first time begins with what is known of the level above.

    Args:
        past: changed in place.
        user: number of the user.
        template: number of the template.
        kind: place in SHORT_RUN_TIMES of what was outlived, or ENDED_EVENT.
        run_time: seconds; of ENDED_EVENT only.
        processors: of the run.
    """
    if not past.user_known[user]:
        for place in range(HISTORY):
            past.users[user, place] = past.site[place]
        past.user_known[user] = True
    if not past.template_known[template]:
        for place in range(HISTORY):
            past.templates[template, place] = past.users[user, place]
        past.template_known[template] = True
    if kind == ENDED_EVENT:
        fold_ended(past.site, run_time, SITE_FAST, SITE_SLOW)
        fold_ended(past.users[user], run_time, FAST, SLOW)
        fold_ended(past.templates[template], run_time, FAST, SLOW)
        fold_spent(past.users[user], run_time, processors)
    else:
        fold_outlived(past.site, kind, SITE_FAST, SITE_SLOW)
        fold_outlived(past.users[user], kind, FAST, SLOW)
        fold_outlived(past.templates[template], kind, FAST, SLOW)
        if kind == ENDED_EVENT - 1:
            fold_spent(past.users[user], LONG_RUN, processors)


@compiled
def known_rows(past: WorkloadHistory, user: int, template: int) -> tuple[FloatArray, FloatArray]:
    """The rows that speak for a job: its user's and its template's, or the level above."""
    of_user = past.users[user] if past.user_known[user] else past.site
    of_template = past.templates[template] if past.template_known[template] else of_user
    return of_user, of_template


@compiled_borrowing
def past_speaks(past: WorkloadHistory, user: int, template: int, processors: float) -> bool:
    """Whether past runs say how long jobs of a template will run (`run_history.speaks_for`)."""
    spent = past.users[user, SPENT] if past.user_known[user] else 0.0
    return speaks_for(spent, past.asked[template], processors)
