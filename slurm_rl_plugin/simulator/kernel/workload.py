"""Jobs of a simulation: one record each."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.features.history.run_history import (
    AT_RISK,
    BOUNDS,
    HISTORY,
    LIMIT_CLASSES,
    LIMIT_KEEPS,
    LONG_RUN,
    NO_LIMIT,
    REQUEST_CLASSES,
    SITE_KEEPS,
    SPENT,
    TEMPLATE_KEEPS,
    USER_KEEPS,
    asked_time,
    limit_class,
    limit_step,
    request_class,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fill_hazards,
    fold_ended,
    fold_last,
    fold_outlived,
    fold_spent,
    place_of,
    speaks_for,
    weight_among_limits,
    weight_at_site,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Kinds of events in which a run tells something: it has outlived one of BOUNDS, or ended.
ENDED_EVENT = len(BOUNDS)
_LONG = BOUNDS.index(LONG_RUN)


class WorkloadHistory(NamedTuple):
    """Whose the jobs of a workload are, and what was known of their runs before its first job."""

    user: IntArray  #: number of each job's user, shape [n]; empty where nobody is told apart
    template: IntArray  #: number of each job's template, shape [n]; empty as `user` is
    #: Time limit of each template's jobs, seconds; NO_LIMIT where they ask for none, whatever is
    #: estimated then; shape [templates].
    asked: FloatArray
    processors: FloatArray  #: of the jobs of each template, shape [templates]
    #: Class of each template's requests (`run_history.request_class`), shape [templates].
    alike: IntArray
    within: IntArray  #: row in `limits` of each template, shape [templates]
    #: Row in `templates` of each template, shape [templates]: time limits of one step
    #: (`run_history.limit_step`) share it.
    own: IntArray
    #: A row of history for each class of requests, shape [REQUEST_CLASSES, HISTORY].
    site: FloatArray
    #: A row for each user, shape [users, HISTORY]; zeros where no run has been seen.
    users: FloatArray
    #: A row for each user's jobs with limits alike (`run_history.limit_class`), shape [limits,
    #: HISTORY].
    limits: FloatArray
    templates: FloatArray  #: a row for all templates of one step, shape [steps, HISTORY]

    def of_jobs(self, index: IntArray | BoolArray) -> WorkloadHistory:
        """The same for the chosen jobs; who is not among them keeps no row."""
        if len(self.user) == 0:
            return self
        users, user = np.unique(self.user[index], return_inverse=True)
        templates, template = np.unique(self.template[index], return_inverse=True)
        limits, within = np.unique(self.within[templates], return_inverse=True)
        steps, own = np.unique(self.own[templates], return_inverse=True)
        return WorkloadHistory(
            user=user.astype(np.int64),
            template=template.astype(np.int64),
            asked=self.asked[templates],
            processors=self.processors[templates],
            alike=self.alike[templates],
            within=within.astype(np.int64),
            own=own.astype(np.int64),
            site=self.site.copy(),
            users=self.users[users],
            limits=self.limits[limits],
            templates=self.templates[steps],
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


def nothing_past(
    user: IntArray, template: IntArray, time_limit: FloatArray, processors: IntArray
) -> WorkloadHistory:
    """Jobs of whose users nothing is known.

    Args:
        user: number of each job's user from 0 on, shape [n].
        template: the same for templates, shape [n].
        time_limit: requested seconds, the same for all jobs of a template, shape [n]; NaN where
            none.
        processors: requested, the same for all jobs of a template, shape [n].
    """
    users = int(user.max(initial=-1)) + 1
    templates = int(template.max(initial=-1)) + 1
    asked, wide = np.full(templates, NO_LIMIT), np.ones(templates)
    asked[template] = asked_time(time_limit)
    wide[template] = processors
    whose = np.zeros(templates, dtype=np.int64)
    whose[template] = user
    limits, within = np.unique(whose * LIMIT_CLASSES + limit_class(asked), return_inverse=True)
    own = numbered(whose, wide, limit_step(asked))
    return WorkloadHistory(
        user=user,
        template=template,
        asked=asked,
        processors=wide,
        alike=request_class(asked, wide).astype(np.int64),
        within=within.astype(np.int64),
        own=own,
        site=np.zeros((REQUEST_CLASSES if users else 0, HISTORY)),
        users=np.zeros((users, HISTORY)),
        limits=np.zeros((len(limits), HISTORY)),
        templates=np.zeros((int(own.max(initial=-1)) + 1, HISTORY)),
    )


def numbered(*columns: IntArray | FloatArray) -> IntArray:
    """A number from 0 on for each row of some columns, the same where all values are, [n]."""
    found = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + place, return_inverse=True)[1].astype(np.int64)
    return found


_NOBODY = np.empty(0, dtype=np.int64)
#: Jobs whose users are not told apart.
NO_PAST = nothing_past(_NOBODY, _NOBODY, np.empty(0), _NOBODY)


@compiled_borrowing
def fold_run(past: WorkloadHistory, user: int, template: int, kind: int, run_time: float) -> None:
    """Let one event of a run tell the site, its user, limits alike and its template.

    Args:
        kind: place in BOUNDS of what was outlived, or ENDED_EVENT.
        run_time: seconds; of ENDED_EVENT only.
    """
    site, limits = past.site[past.alike[template]], past.limits[past.within[template]]
    whose, own = past.users[user], past.templates[past.own[template]]
    place = kind
    if kind == ENDED_EVENT:
        place = place_of(run_time, past.asked[template])
    counted = AT_RISK + place % len(BOUNDS)
    at_site, among = weight_at_site(whose[counted]), weight_among_limits(own[counted])
    if kind == ENDED_EVENT:
        fold_ended(site, place, SITE_KEEPS, at_site)
        fold_ended(whose, place, USER_KEEPS, 1.0)
        fold_ended(limits, place, LIMIT_KEEPS, among)
        fold_ended(own, place, TEMPLATE_KEEPS, 1.0)
        fold_spent(whose, run_time, past.processors[template])
        fold_last(whose, run_time)
    else:
        fold_outlived(site, place, SITE_KEEPS, at_site)
        fold_outlived(whose, place, USER_KEEPS, 1.0)
        fold_outlived(limits, place, LIMIT_KEEPS, among)
        fold_outlived(own, place, TEMPLATE_KEEPS, 1.0)
        if place == _LONG:
            fold_spent(whose, LONG_RUN, past.processors[template])


@compiled_borrowing
def past_speaks(past: WorkloadHistory, user: int, template: int) -> bool:
    """Whether past runs say how long jobs of a template will run (`run_history.speaks_for`)."""
    asked, processors = past.asked[template], past.processors[template]
    return speaks_for(past.users[user, SPENT], asked, processors)


@compiled_borrowing
def fill_known_hazards(
    hazards: FloatArray, past: WorkloadHistory, user: int, template: int
) -> None:
    """What past runs tell of jobs of a template (`run_prediction.fill_hazards`)."""
    site, speaks = past.site[past.alike[template]], past_speaks(past, user, template)
    limits, own = past.limits[past.within[template]], past.templates[past.own[template]]
    fill_hazards(hazards, site, past.users[user], limits, own, speaks)


#: What is known of a job: seconds, but processors, `weighed` and `billed`. The estimate is what the
#: policy and backfilling believe the job will run; the time limit is the estimate where none is
#: known. `weighed` is how large it is in processors, by its dominant share of the machine where it
#: asks for other resources too; `billed` is what the site charges for a second. `asks_much`: where
#: other resources than processors are limited, narrower jobs may starve it.
JOB = np.dtype(
    [
        ("submit", np.float64),
        ("run_time", np.float64),
        ("estimate", np.float64),
        ("time_limit", np.float64),
        ("weighed", np.float64),
        ("billed", np.float64),
        ("processors", np.int64),
        ("account", np.int64),
        ("interactive", np.bool_),
        ("asks_much", np.bool_),
    ],
    align=True,
)
#: A numpy record array, of whose fields mypy knows nothing.
Records = Any


def records(count: int, dtype: np.dtype[np.void]) -> Records:
    """An array of so many records, all 0."""
    return np.zeros(count, dtype).view(np.recarray)


class Workload(NamedTuple):
    """Jobs in order of submission; Python reads columns of them, which are copies."""

    jobs: Records  #: of JOB, shape [n]
    shares: FloatArray  #: share of each account, shape [accounts]
    past: WorkloadHistory = NO_PAST  #: whose the jobs are, and what is known of their earlier runs
    #: Shares of a machine's resources that each job asks for, shape [n, resources]; of no resource
    #: on processors alone.
    asked: FloatArray = np.empty((0, 0))

    @classmethod
    def of(  # noqa: PLR0913 - a column each
        cls,
        *,
        submit: FloatArray,
        run_time: FloatArray,
        estimate: FloatArray,
        time_limit: FloatArray,
        processors: IntArray,
        account: IntArray,
        interactive: BoolArray,
        shares: FloatArray,
        past: WorkloadHistory = NO_PAST,
        weighed: FloatArray | None = None,
        billed: FloatArray | None = None,
        asked: FloatArray | None = None,
    ) -> Self:
        """Jobs by columns, shape [n]; they weigh and are billed their processors by default."""
        jobs = records(len(submit), JOB)
        jobs.submit, jobs.run_time, jobs.estimate = submit, run_time, estimate
        jobs.time_limit, jobs.account, jobs.interactive = time_limit, account, interactive
        jobs.processors = processors
        jobs.weighed = processors if weighed is None else weighed
        jobs.billed = processors if billed is None else billed
        return cls(jobs, shares, past, np.empty((len(jobs), 0)) if asked is None else asked)

    @classmethod
    def of_jobs(
        cls,
        jobs: JobTable,
        *,
        run_time: FloatArray,
        estimate: FloatArray,
        time_limit: FloatArray,
        shares: FloatArray,
        past: WorkloadHistory,
        billed: FloatArray | None = None,
        asked: FloatArray | None = None,
    ) -> Self:
        """What the jobs of a table ask for, with what is known and believed of them."""
        return cls.of(
            submit=jobs.submit,
            run_time=run_time,
            estimate=estimate,
            time_limit=time_limit,
            processors=jobs.processors,
            account=jobs.account,
            interactive=jobs.interactive,
            shares=shares,
            past=past,
            weighed=jobs.weighed,
            billed=billed,
            asked=asked,
        )

    @property
    def submit(self) -> FloatArray:
        """Seconds."""
        return self._column("submit")

    @property
    def run_time(self) -> FloatArray:
        """Seconds that each job will really run."""
        return self._column("run_time")

    @property
    def estimate(self) -> FloatArray:
        """Seconds that the policy and backfilling believe each job will run."""
        return self._column("estimate")

    @property
    def time_limit(self) -> FloatArray:
        """Requested seconds."""
        return self._column("time_limit")

    @property
    def processors(self) -> IntArray:
        """Requested."""
        return self._column("processors")

    @property
    def account(self) -> IntArray:
        """Places in `shares`."""
        return self._column("account")

    @property
    def interactive(self) -> BoolArray:
        """The job class."""
        return self._column("interactive")

    @property
    def size(self) -> FloatArray:
        """In processors."""
        return self._column("weighed")

    @property
    def billed(self) -> FloatArray:
        """What each job is charged for a second."""
        return self._column("billed")

    def _column(self, name: str) -> Any:
        return self.jobs[name].copy()

    @property
    def knows_users(self) -> bool:
        """Whether the user of each job is known."""
        return len(self.past.user) == len(self.jobs)

    def having(self, past: WorkloadHistory | None = None, **columns: Any) -> Self:
        """The same jobs with other values of some fields of JOB, or another past.

        What they weigh and are billed goes with the processors where it was these.
        """
        jobs = self.jobs.copy()
        for name in ("weighed", "billed"):
            if "processors" in columns and (jobs[name] == jobs.processors).all():
                columns.setdefault(name, columns["processors"])
        for name, column in columns.items():
            jobs[name] = column
        return self._replace(jobs=jobs, past=self.past if past is None else past)

    def rows(self, count: int) -> Self:
        """Room for `count` of these jobs, to be filled by `write`; until then they never come."""
        jobs = records(count, JOB)
        jobs.submit, jobs.processors = np.inf, 1
        return self._replace(
            jobs=jobs, past=self.past.rows(count), asked=np.zeros((count, self.asked.shape[1]))
        )

    def write(self, places: slice, jobs: IntArray, known: Self) -> None:
        """Fill rows of `rows` with jobs of `known`, of which they were made, by their numbers."""
        self.jobs[places], self.asked[places] = known.jobs[jobs], known.asked[jobs]
        for mine, theirs in zip(self.past.per_job(), known.past.per_job(), strict=True):
            mine[places] = theirs[jobs]

    def select(self, job: IntArray | BoolArray) -> Self:
        """The chosen jobs with the shares of the whole."""
        past = self.past.of_jobs(job)
        return self._replace(jobs=self.jobs[job], past=past, asked=self.asked[job])
