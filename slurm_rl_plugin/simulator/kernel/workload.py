"""Jobs of a simulation: one record each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

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

#: Kinds of events of a run from which we learn: it has outlived one of BOUNDS, or ended.
ENDED_EVENT = len(BOUNDS)
_LONG = BOUNDS.index(LONG_RUN)


class WorkloadHistory(NamedTuple):
    """The users of the jobs of a workload, and what was known of their runs before its first job.

    A template is the jobs of one user with the same processors and time limit.
    """

    user: IntArray  #: number of each job's user, shape [n]; shape [0] where users are unknown
    template: IntArray  #: number of each job's template, as `user`
    #: Time limit of each template, seconds; NO_LIMIT where its jobs ask for none, whatever their
    #: estimate is; shape [templates].
    asked: FloatArray
    processors: FloatArray  #: of the jobs of each template, shape [templates]
    alike: IntArray  #: class of each template's requests (`run_history.request_class`), [templates]
    within: IntArray  #: row in `limits` of each template, shape [templates]
    #: Row in `templates` of each template, shape [templates]; time limits of one step
    #: (`run_history.limit_step`) share it.
    own: IntArray
    site: FloatArray  #: history of each class of requests, shape [REQUEST_CLASSES, HISTORY]
    users: FloatArray  #: history of each user, zeros before the first run, shape [users, HISTORY]
    #: History of each user's jobs of one class of limits (`run_history.limit_class`), shape
    #: [limits, HISTORY].
    limits: FloatArray
    templates: FloatArray  #: history of all templates of one step, shape [steps, HISTORY]

    def of_jobs(self, index: IntArray | BoolArray) -> WorkloadHistory:
        """The same for the chosen jobs, with the rows of their users and templates alone."""
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


Copied = TypeVar("Copied")


def copied(value: Copied) -> Copied:
    """A named tuple with copies of its arrays, at any depth."""
    if isinstance(value, tuple):
        return value._make(map(copied, value))  # type: ignore[attr-defined]
    return value.copy() if isinstance(value, np.ndarray) else value


def nothing_past(
    user: IntArray, template: IntArray, time_limit: FloatArray, processors: IntArray
) -> WorkloadHistory:
    """Jobs of users without known runs; a time limit of NaN is none; shape [n] each."""
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


_NO_JOB = np.empty(0, dtype=np.int64)
#: Jobs whose users are unknown.
NO_PAST = nothing_past(_NO_JOB, _NO_JOB, np.empty(0), _NO_JOB)


@compiled_borrowing
def fold_run(past: WorkloadHistory, user: int, template: int, kind: int, run_time: float) -> None:
    """Add one event of a run to the history of the site, its user, class of limits and template.

    Args:
        kind: place in BOUNDS of the run time that was outlived, or ENDED_EVENT.
        run_time: seconds; for ENDED_EVENT only.
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
    """Whether past runs predict the run time of a template (`run_history.speaks_for`)."""
    asked, processors = past.asked[template], past.processors[template]
    return speaks_for(past.users[user, SPENT], asked, processors)


@compiled_borrowing
def fill_known_hazards(
    hazards: FloatArray, past: WorkloadHistory, user: int, template: int
) -> None:
    """Hazards of the run time of a template, from past runs (`run_history.fill_hazards`)."""
    site, speaks = past.site[past.alike[template]], past_speaks(past, user, template)
    limits, own = past.limits[past.within[template]], past.templates[past.own[template]]
    fill_hazards(hazards, site, past.users[user], limits, own, speaks)


#: A job: seconds, but processors, `weighed` and `billed`. The policy and backfilling believe the
#: estimate; the time limit is the estimate where none is known. `weighed` is its size in
#: processors, by its dominant share of the machine where it asks for other resources too; `billed`
#: is what the site charges for a second. `asks_much`: narrower jobs may starve it, because other
#: resources than processors are limited.
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
#: A numpy record array; mypy does not know its fields.
Records = Any
Array = TypeVar("Array", FloatArray, IntArray, BoolArray)


def records(count: int, dtype: np.dtype[np.void]) -> Records:
    """An array of `count` records, all 0."""
    return np.zeros(count, dtype).view(np.recarray)


class _Column(Generic[Array]):
    def __init__(self, field: str) -> None:
        self._field = field

    def __get__(self, workload: Workload, _: type) -> Array:
        column: Array = workload.jobs[self._field].copy()
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs in order of submission."""

    jobs: Records  #: of JOB, shape [n]
    shares: FloatArray  #: share of each account, shape [accounts]
    past: WorkloadHistory = NO_PAST  #: their users, and what is known of earlier runs
    #: Shares of a machine's resources that each job asks for, shape [n, resources]; of no resource
    #: on processors alone.
    asked: FloatArray

    submit = _Column[FloatArray]("submit")
    run_time = _Column[FloatArray]("run_time")
    estimate = _Column[FloatArray]("estimate")
    time_limit = _Column[FloatArray]("time_limit")
    processors = _Column[IntArray]("processors")
    account = _Column[IntArray]("account")
    interactive = _Column[BoolArray]("interactive")
    size = _Column[FloatArray]("weighed")
    billed = _Column[FloatArray]("billed")

    @classmethod
    def of(
        cls,
        *,
        shares: FloatArray,
        past: WorkloadHistory = NO_PAST,
        asked: FloatArray | None = None,
        **columns: FloatArray | IntArray | BoolArray | None,
    ) -> Self:
        """Jobs by fields of JOB, shape [n]; by default they weigh, and are billed, processors."""
        processors = columns["processors"]
        assert processors is not None
        jobs = records(len(processors), JOB)
        for name in ("weighed", "billed"):
            if columns.get(name) is None:
                columns[name] = processors
        _fill(jobs, columns)
        asked = np.empty((len(jobs), 0)) if asked is None else asked
        return cls(jobs=jobs, shares=shares, past=past, asked=asked)

    @property
    def knows_users(self) -> bool:
        """Whether the user of each job is known."""
        return len(self.past.user) == len(self.jobs)

    def having(self, past: WorkloadHistory | None = None, **columns: Any) -> Self:
        """The same jobs with other values of some fields of JOB, or another past.

        A weight or bill that is the processors changes with them.
        """
        jobs = self.jobs.copy()
        for name in ("weighed", "billed"):
            if "processors" in columns and (jobs[name] == jobs.processors).all():
                columns.setdefault(name, columns["processors"])
        _fill(jobs, columns)
        return replace(self, jobs=jobs, past=self.past if past is None else past)

    def rows(self, count: int) -> Self:
        """Room for `count` of these jobs, to be filled by `write`; until then they never come."""
        jobs = records(count, JOB)
        jobs.submit, jobs.processors = np.inf, 1
        asked = np.zeros((count, self.asked.shape[1]))
        return replace(self, jobs=jobs, past=self.past.rows(count), asked=asked)

    def write(self, places: slice, jobs: IntArray, known: Self) -> None:
        """Fill rows of `rows` with jobs of `known`, the workload that had them, by number."""
        self.jobs[places], self.asked[places] = known.jobs[jobs], known.asked[jobs]
        for mine, theirs in zip(self.past.per_job(), known.past.per_job(), strict=True):
            mine[places] = theirs[jobs]

    def select(self, job: IntArray | BoolArray) -> Self:
        """The chosen jobs with the shares of the whole."""
        past = self.past.of_jobs(job)
        return replace(self, jobs=self.jobs[job], past=past, asked=self.asked[job])


def _fill(jobs: Records, columns: Mapping[str, Any]) -> None:
    for name, column in columns.items():
        jobs[name] = column
