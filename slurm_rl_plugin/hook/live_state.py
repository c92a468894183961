"""All that the daemon knows of itself and of its queue, as one document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.jobs import ResourceUse, resource_use
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.experiment.turns import ExperimentReport
from slurm_rl_plugin.hook.memory.account_service import ServiceSeen
from slurm_rl_plugin.hook.order.queue_plan import out_of_order
from slurm_rl_plugin.hook.rails.reserve import AS_BATCH, LimitReport
from slurm_rl_plugin.readable import span_text, time_text
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.fairness import fairness, share_deficit
from slurm_rl_plugin.whole_file import as_json, typed

#: Job classes as label values; the index is `JobTable.interactive`.
CLASSES = ("batch", "interactive")
#: The label value of all names that have no series of their own.
OTHER = "_other"
#: Modes in which the daemon does not read the queue.
UNSEEING = ("disabled", "standby")
#: A running daemon is stuck if its last good cycle is this many paces and this many seconds old.
_STALE_CYCLES, _STALE_SECONDS = 10, 300.0
#: Accounts that `LiveState.lines` names.
_FEWEST_SERVED = 3


class PendingState(NamedTuple):
    """Pending jobs of a partition and class; only jobs that could start have an age."""

    partition: str
    job_class: str
    jobs: int
    median_age: float  #: seconds
    oldest_age: float  #: seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """What the daemon knows of itself and of its queue; no field names a job or a user.

    The metrics, the page for administrators and `status` are made from it; the daemon serves it as
    JSON at `/state`. Fields of the queue are empty while the daemon does not read it.
    """

    version: str = __version__
    state_file: str = ""  #: an absolute path without links, by which a daemon knows itself
    adapter: str = ""
    release: str = ""  #: of the batch system; "" if unknown
    model: Mapping[str, str] = field(default_factory=dict)  #: labels of slurm_rl_model_info
    configured_mode: str = "shadow"  #: one of CONFIGURED_MODES
    starvation_bound: float | None = None  #: seconds; None for no bound
    pace: float = 60.0  #: seconds between two cycles at most
    mode: str = "shadow"  #: of the last cycle, one of MODES
    up: bool = False  #: the last cycle worked
    reloaded: bool = True  #: the last reload took the files on disk over
    fallback: bool = False  #: the policy is not used
    last_success: float = 0.0  #: seconds since the epoch; 0 before the first good cycle
    reserve: int = 0  #: processors that the last decision keeps free of batch work
    limit: LimitReport = field(default_factory=LimitReport)
    experiment: ExperimentReport = field(default_factory=ExperimentReport)
    cycles: int = 0  #: since the daemon started, as all counts by label below
    failures: Mapping[str, int] = field(default_factory=dict)
    adjustments: Mapping[str, int] = field(default_factory=dict)
    disturbances: Mapping[str, int] = field(default_factory=dict)
    suppressed: Mapping[str, int] = field(default_factory=dict)
    requests_changed: Mapping[str, int] = field(default_factory=dict)
    limit_changes: Mapping[str, int] = field(default_factory=dict)
    limit_failures: Mapping[str, int] = field(default_factory=dict)
    account_waits: Mapping[str, float] = field(default_factory=dict)  #: seconds
    account_starts: Mapping[str, int] = field(default_factory=dict)
    #: From here on: empty while the daemon does not read the queue.
    pending: Sequence[PendingState] = ()
    rank_changes: Mapping[str, int] = field(default_factory=dict)  #: by partition
    with_factor: Mapping[str, int] = field(default_factory=dict)  #: by partition
    as_batch: Mapping[str, int] = field(default_factory=dict)  #: by reason
    overrunners: int | None = None  #: users that have lost an interactive class
    resources: Sequence[ResourceUse] = ()
    shares: Mapping[str, float] = field(default_factory=dict)  #: by account, as the next four
    usage: Mapping[str, float] = field(default_factory=dict)
    account_pending: Mapping[str, int] = field(default_factory=dict)
    #: Doublings by which the policy sees the usage lowered.
    lifts: Mapping[str, float] = field(default_factory=dict)
    #: Service over entitlement in the last fortnight, of accounts entitled to enough.
    entitlement: Mapping[str, float] = field(default_factory=dict)
    misdelivered: float | None = None  #: part of that service that went to wrong accounts
    group_waits: Mapping[str, float] = field(default_factory=dict)
    group_lifts: Mapping[str, float] = field(default_factory=dict)
    fairness: float = 0.0
    share_deficit: float = 0.0

    @property
    def writes(self) -> int:
        """Factors written since the daemon started."""
        return sum(self.adjustments.values())

    def document(self) -> dict[str, Any]:
        """All of it for JSON."""
        found: dict[str, Any] = as_json(self)
        return found

    @classmethod
    def of_document(cls, found: Mapping[str, Any]) -> Self:
        """What `document` gave; one of UNREADABLE for anything else."""
        for each in fields(cls):
            if each.name not in found:
                raise KeyError(each.name)
        state: Self = typed(cls, found)
        return state

    def problems(self, now: float) -> list[str]:
        """What is wrong with the daemon, one sentence each; `now` is seconds since the epoch."""
        problems = []
        if self.fallback:
            problems.append("the policy is not used, fallback is active: its log says why.")
        if self.limit.failing:
            problems.append("the limit on batch jobs cannot be set: the daemon's log says why.")
        if self.cycles and not self.up:
            problems.append("the last cycle failed: the daemon's log says why.")
        age = now - self.last_success
        is_old = self.last_success and age > max(_STALE_CYCLES * self.pace, _STALE_SECONDS)
        if self.up and self.mode not in UNSEEING and is_old:
            problems.append(
                f"the last good cycle was {span_text(age)} ago: the daemon may hang, restart it."
            )
        return problems

    def lines(self) -> list[str]:
        """What `status` prints of the daemon, each `name: value`."""
        failed = ", ".join(f"{count} {reason}" for reason, count in self.failures.items())
        lines = [
            f"daemon's mode: {self.mode}, fallback {'active' if self.fallback else 'no'}",
            f"last success: {time_text(self.last_success) if self.last_success else 'never'}",
            f"cycles: {self.cycles}, failed: {failed or '0'}, writes: {self.writes}",
        ]
        if self.limit.processors is not None:
            lines.append(f"batch jobs: {self.limit.processors} processors together at most")
        if self.misdelivered is not None:
            lines.append(
                f"service of a fortnight: {100 * self.misdelivered:.1f} % to the wrong account; "
                f"accounts that got least of their entitlement: {self._least() or 'none known'}"
            )
        sha = f", model {self.model['sha256'][:12]}" if self.model.get("sha256") else ""
        return [*lines, f"daemon's policy: {self.model.get('name', 'unknown')}{sha}"]

    def _least(self) -> str:
        least = sorted(self.entitlement.items(), key=lambda each: each[1])[:_FEWEST_SERVED]
        lifts = {
            account: f" (lifted by {doublings:.2g} doublings)"
            for account, doublings in self.lifts.items()
            if doublings
        }
        return ", ".join(f"{name} {ratio:.2f}{lifts.get(name, '')}" for name, ratio in least)

    def after(self, report: CycleReport, partitions: LabelCap, accounts: LabelCap) -> Self:
        """The state once a cycle's report is taken in; what the report lacks keeps its value."""
        state = replace(
            self,
            adjustments=_plus(self.adjustments, report.adjustments),
            disturbances=_plus(self.disturbances, report.disturbances),
            requests_changed=_plus(self.requests_changed, report.requests_changed),
        )
        if report.of_new_jobs:
            return state
        limit = replace(report.limit, failure_reason=None)  # it may quote names
        state = replace(
            state,
            mode=report.mode,
            up=report.succeeded,
            cycles=self.cycles + 1,
            release=report.release or self.release,
            experiment=report.experiment,
            suppressed=_plus(self.suppressed, report.suppressed),
            failures=_plus(self.failures, _one(report.failure)),
            limit_changes=_plus(self.limit_changes, _one(limit.change)),
            limit_failures=_plus(self.limit_failures, _one(limit.failure)),
        )
        if report.succeeded and report.time:
            state = replace(state, last_success=report.time)
        keeps = not report.succeeded and report.mode not in UNSEEING
        if not keeps or limit != LimitReport():
            state = replace(state, limit=limit)
        if not keeps:
            state = replace(state, reserve=report.reserve, overrunners=report.overrunners)
        if not keeps or report.fallback_reason:
            state = replace(state, fallback=report.fallback_reason is not None)
        if report.snapshot is not None:
            return state._seeing(report, report.snapshot, partitions, accounts)
        return state._unseeing() if report.mode in UNSEEING else state

    def _unseeing(self) -> Self:
        """The state without the queue, which may have changed since it was read."""
        names, fresh = [each.name for each in fields(self)], LiveState()
        of_queue = names[names.index("pending") :]
        return replace(self, **{name: getattr(fresh, name) for name in of_queue})

    def _seeing(
        self,
        report: CycleReport,
        snapshot: QueueSnapshot,
        partition_cap: LabelCap,
        account_cap: LabelCap,
    ) -> Self:
        partitions = partition_cap.of(snapshot.partitions)
        accounts = account_cap.of(snapshot.accounts, np.maximum(snapshot.shares, snapshot.usage))
        service, lifts = report.service, report.lifts
        ratios = np.full(len(accounts.labels), math.nan)
        if service is not None:
            sums = (np.array(accounts.sums(each)) for each in (service.delivered, service.entitled))
            delivered, entitled = sums
            ratios = ServiceSeen(delivered=delivered, entitled=entitled).ratios
        greatest = np.zeros(len(accounts.labels))  # of those that share a label
        np.maximum.at(greatest, accounts.place[: len(lifts.accounts)], lifts.accounts)
        waits, starts = _starts(snapshot, accounts)
        as_batch, place = snapshot.pending.as_batch, enumerate(AS_BATCH)
        known = len(snapshot.shares) > 0 and snapshot.shares.max() > 0
        moved, carrying = _order(report, snapshot, partitions)
        return replace(
            self,
            account_waits=_plus(self.account_waits, waits),
            account_starts=_plus(self.account_starts, starts),
            pending=_pending(snapshot, partitions),
            rank_changes=moved,
            with_factor=carrying,
            as_batch={
                reason: 0 if as_batch is None else int((as_batch == number).sum())
                for number, reason in place
            },
            resources=resource_use(snapshot),
            shares=accounts.by_label(accounts.sums(snapshot.shares)),
            usage=accounts.by_label(accounts.sums(snapshot.usage)),
            account_pending=accounts.by_label(accounts.counts(snapshot.pending.jobs.account)),
            lifts=accounts.by_label(greatest.tolist()),
            entitlement={
                name: ratio
                for name, ratio in accounts.by_label(ratios.tolist()).items()
                if math.isfinite(ratio)
            },
            misdelivered=None if service is None else service.misdelivered,
            group_waits=lifts.group_waits,
            group_lifts=lifts.groups,
            fairness=float(fairness(snapshot.shares, snapshot.usage)) if known else 0.0,
            share_deficit=float(share_deficit(snapshot.shares, snapshot.usage)) if known else 0.0,
        )


T = TypeVar("T", int, float)


def _plus(counts: Mapping[str, T], more: Mapping[str, T]) -> dict[str, T]:
    return {**counts, **{label: counts.get(label, 0) + each for label, each in more.items()}}


def _one(label: str | None) -> dict[str, int]:
    return {} if label is None else {label: 1}


def _pending(snapshot: QueueSnapshot, partitions: CappedNames) -> tuple[PendingState, ...]:
    """Jobs and ages; a job that is held, not eligible or waits by its own doing has no age."""
    pending, age = snapshot.pending, snapshot.accrued_wait
    group = 2 * partitions.place[pending.jobs.partition] + pending.jobs.interactive
    could_start = ~pending.held & (pending.jobs.eligible <= snapshot.now) & ~pending.each_own_doing
    found = []
    where = ((label, each) for label in partitions.labels for each in CLASSES)
    for place, (label, job_class) in enumerate(where):
        mine = group == place
        ages: FloatArray = age[mine & could_start]
        median = float(np.median(ages)) if len(ages) else 0.0
        oldest = float(ages.max(initial=0.0))
        found.append(PendingState(label, job_class, int(mine.sum()), median, oldest))
    return tuple(found)


def _order(
    report: CycleReport, snapshot: QueueSnapshot, partitions: CappedNames
) -> tuple[dict[str, int], dict[str, int]]:
    """Jobs that our order moves in the site's order, and jobs with a factor, by partition."""
    pending = snapshot.pending
    partition = partitions.place[pending.jobs.partition]
    native = pending.native_priority  # the site starts jobs of equal priority by number
    rank = np.empty(len(native), dtype=np.int64)
    rank[np.lexsort((pending.jobs.job_id, -native))] = np.arange(len(native))
    order = np.array(report.order, dtype=np.int64)
    moved, factors = {}, {}
    for place, label in enumerate(partitions.labels):
        moved[label] = out_of_order(-rank[order[partition[order] == place]])
        factors[label] = int(((partition == place) & (pending.factor != 0)).sum())
    return moved, factors


def _starts(
    snapshot: QueueSnapshot, accounts: CappedNames
) -> tuple[dict[str, float], dict[str, int]]:
    """Waits, seconds, and number of the jobs of each account that have just started."""
    jobs, start = snapshot.started.jobs, snapshot.started.start
    known = jobs.account >= 0
    sums = np.zeros(len(accounts.place))
    np.add.at(sums, jobs.account[known], np.maximum(start - jobs.eligible, 0.0)[known])
    counts = accounts.counts(jobs.account)
    return accounts.by_label(accounts.sums(sums)), accounts.by_label(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedNames:
    """Which value of a label each name gets: its own, or one that it shares with others."""

    labels: tuple[str, ...]  #: distinct
    place: IntArray  #: index into `labels` of each name, shape [names]

    def sums(self, values: FloatArray) -> list[float]:
        """Values of the names, shape [names], summed up for each label."""
        found = np.bincount(self.place, weights=values, minlength=len(self.labels))
        return [float(each) for each in found]

    def counts(self, index: IntArray) -> list[int]:
        """How many entries of a column of name indices, -1 for unknown, each label has."""
        found = np.bincount(self.place[index[index >= 0]], minlength=len(self.labels))
        return [int(each) for each in found]

    def by_label(self, values: Iterable[T]) -> dict[str, T]:
        """One value for each label."""
        return dict(zip(self.labels, values, strict=True))


class LabelCap:
    """Names that were admitted once keep their series: a counter that moved would lose its past."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._own: set[str] = set()

    def of(self, names: Sequence[str], weight: FloatArray | None = None) -> CappedNames:
        """Labels of distinct names; new ones are admitted while there is room, heaviest first."""
        order = np.arange(len(names)) if weight is None else np.argsort(-weight, kind="stable")
        for place in order.tolist():
            if len(self._own) >= self._most:
                break
            if names[place] != OTHER:
                self._own.add(names[place])
        labels = [name for name in names if name in self._own]
        number = {name: place for place, name in enumerate(labels)}
        place = np.array([number.get(name, len(labels)) for name in names], dtype=np.int64)
        if len(labels) < len(names):
            labels.append(OTHER)
        return CappedNames(labels=tuple(labels), place=place)
