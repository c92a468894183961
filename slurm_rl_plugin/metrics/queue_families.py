"""What one cycle says of queue, shares and limit, as gauges; made once, served many times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.queue_snapshot import resource_use
from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.order.order_changes import out_of_order
from slurm_rl_plugin.hook.rails.batch_limit import LIMIT_REASONS, LimitReport
from slurm_rl_plugin.hook.rails.reserve import AS_BATCH
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.fairness import fairness, share_deficit

#: Job classes as label values; the index is `JobTable.interactive`.
CLASSES = ("batch", "interactive")
_QUEUE = ("partition", "job_class")
#: Prometheus counts sizes in bytes.
BYTES_IN_MIB = 1024.0**2
#: The label value of all names without series of their own.
OTHER = "_other"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenQueue:
    """A snapshot, the order decided on it, and the labels of its names.

    Attributes:
        snapshot: the queue.
        order: places of pending jobs, first to start first.
        partitions: labels of `snapshot.partitions`.
        accounts: labels of `snapshot.accounts`.
        service: of the accounts; None until enough has been seen.
        lifts: with which the policy saw the queue.
        overrunners: users that have lost an interactive class.
    """

    snapshot: QueueSnapshot
    order: Sequence[int]
    partitions: CappedNames
    accounts: CappedNames
    service: ServiceSeen | None = None
    lifts: Lifts = field(default_factory=Lifts)
    overrunners: int = 0

    @property
    def partition(self) -> IntArray:
        """Index of each pending job into the labels of partitions, shape [n]."""
        return self.partitions.place[self.snapshot.pending.jobs.partition]


def queue_families(queue: SeenQueue) -> Iterator[Metric]:
    """Every gauge that a snapshot gives."""
    yield from _pending_families(queue)
    yield _as_batch(queue.snapshot)
    yield GaugeMetricFamily(
        "slurm_rl_users_as_batch",
        "Users whose time limits make no job interactive.",
        queue.overrunners,
    )
    yield from _order_families(queue)
    yield from _account_families(queue)
    yield from _service_families(queue)
    yield from _resource_families(queue.snapshot)
    snapshot = queue.snapshot
    known = len(snapshot.shares) > 0 and snapshot.shares.max() > 0
    yield from fairness_families(
        float(fairness(snapshot.shares, snapshot.usage)) if known else 0.0,
        float(share_deficit(snapshot.shares, snapshot.usage)) if known else 0.0,
    )


def _gauge(name: str, meaning: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"slurm_rl_{name}", meaning, labels=labels)


def _pending_families(queue: SeenQueue) -> Iterator[Metric]:
    """Numbers and ages; a job that is held, not eligible or waits by its own doing has no age."""
    pending, now = queue.snapshot.pending, queue.snapshot.now
    jobs = _gauge("pending_jobs", "Pending jobs seen.", _QUEUE)
    median = _gauge("pending_age_seconds_median", "Median age of jobs that could start.", _QUEUE)
    oldest = _gauge("pending_age_seconds_max", "Age of the oldest job that could start.", _QUEUE)
    age = queue.snapshot.accrued_wait
    group = 2 * queue.partition + pending.jobs.interactive
    could_start = ~pending.held & (pending.jobs.eligible <= now) & ~pending.each_own_doing
    for place, partition in enumerate(queue.partitions.labels):
        for interactive, job_class in enumerate(CLASSES):
            mine = group == 2 * place + interactive
            ages: FloatArray = age[mine & could_start]
            where = [partition, job_class]
            jobs.add_metric(where, int(mine.sum()))
            median.add_metric(where, float(np.median(ages)) if len(ages) else 0.0)
            oldest.add_metric(where, float(ages.max(initial=0.0)))
    yield from (jobs, median, oldest)


def _as_batch(snapshot: QueueSnapshot) -> Metric:
    """Jobs by why they count as batch, all 0 where classes count as they are."""
    meaning = "Pending jobs of the interactive class that count as batch."
    family = _gauge("interactive_jobs_as_batch", meaning, ["reason"])
    as_batch = snapshot.pending.as_batch
    for place, reason in enumerate(AS_BATCH):
        found = 0 if as_batch is None else int((as_batch == place).sum())
        family.add_metric([reason], found)
    return family


def _order_families(queue: SeenQueue) -> Iterator[Metric]:
    pending = queue.snapshot.pending
    moved = _gauge("rank_changes", "Jobs that our order moves in the site's order.", ["partition"])
    factors = _gauge("jobs_with_factor", "Pending jobs with a factor.", ["partition"])
    # the site starts jobs of one priority by number
    native = pending.native_priority
    rank = np.empty(len(native), dtype=np.int64)
    rank[np.lexsort((pending.jobs.job_id, -native))] = np.arange(len(native))
    order = np.array(queue.order, dtype=np.int64)
    partition = queue.partition
    for place, label in enumerate(queue.partitions.labels):
        mine = order[partition[order] == place]
        moved.add_metric([label], out_of_order(-rank[mine]))
        factors.add_metric([label], int(((partition == place) & (pending.factor != 0)).sum()))
    yield from (moved, factors)


def _account_families(queue: SeenQueue) -> Iterator[Metric]:
    snapshot, accounts = queue.snapshot, queue.accounts
    columns: tuple[tuple[str, str, Sequence[float]], ...] = (
        ("account_share_target_ratio", "Configured share.", accounts.sums(snapshot.shares)),
        ("account_usage_ratio", "Share of the decayed usage.", accounts.sums(snapshot.usage)),
        (
            "account_pending_jobs",
            "Pending jobs seen.",
            accounts.counts(snapshot.pending.jobs.account),
        ),
    )
    for name, meaning, values in columns:
        family = _gauge(name, meaning, ["account"])
        for label, value in zip(accounts.labels, values, strict=True):
            family.add_metric([label], value)
        yield family


def _service_families(queue: SeenQueue) -> Iterator[Metric]:
    """Who got what; no series until a week has been seen."""
    ratio = _gauge("entitlement_ratio", "Service over entitlement, a fortnight.", ["account"])
    wrong = _gauge("misdelivered_ratio", "Service that went to the wrong account.", [])
    if (service := queue.service) is not None:
        summed = ServiceSeen(
            delivered=np.array(queue.accounts.sums(service.delivered)),
            entitled=np.array(queue.accounts.sums(service.entitled)),
        )
        for label, got in zip(queue.accounts.labels, summed.ratios.tolist(), strict=True):
            if np.isfinite(got):
                ratio.add_metric([label], got)
        wrong.add_metric([], service.misdelivered)
    yield from (ratio, wrong, _lifts(queue))
    for name, meaning, values in (
        ("group_wait_seconds", "Mean wait of jobs, a fortnight.", queue.lifts.group_waits),
        ("group_lift_doublings", "Doublings of the waits of its jobs.", queue.lifts.groups),
    ):
        family = _gauge(name, meaning, ["group"])
        for group, value in values.items():
            family.add_metric([group], value)
        yield family


def _lifts(queue: SeenQueue) -> Metric:
    """The lift of each account; the greatest of those that share a label."""
    family = _gauge("account_lift_doublings", "Doublings that lower its usage.", ["account"])
    greatest = np.zeros(len(queue.accounts.labels))
    lifts = queue.lifts.accounts
    np.maximum.at(greatest, queue.accounts.place[: len(lifts)], lifts)
    for label, lift in zip(queue.accounts.labels, greatest.tolist(), strict=True):
        family.add_metric([label], lift)
    return family


def _resource_families(snapshot: QueueSnapshot) -> Iterator[Metric]:
    """What jobs have, wait for and could have; no series on a machine of processors alone."""
    usable = _gauge("resource_usable", "What usable nodes have.", ["resource"])
    running = _gauge("resource_running", "What running jobs have of it.", ["resource"])
    pending = _gauge("resource_pending", "What pending jobs ask for.", ["resource"])
    for each in resource_use(snapshot):
        unit = BYTES_IN_MIB if each.name == MEMORY else 1.0
        usable.add_metric([each.name], each.usable * unit)
        running.add_metric([each.name], each.running * unit)
        pending.add_metric([each.name], each.pending * unit)
    yield from (usable, running, pending)


def fairness_families(fairness_now: float, deficit: float) -> Iterator[Metric]:
    """The two numbers of the whole cluster; there before the first snapshot too."""
    yield GaugeMetricFamily(
        "slurm_rl_fairness_ratio", "Fairness of the decayed usage (2008, eq. 4).", fairness_now
    )
    yield GaugeMetricFamily(
        "slurm_rl_share_deficit_ratio", "Largest share that an account is short of.", deficit
    )


def limit_families(report: CycleReport) -> Iterator[Metric]:
    """The gauges of the limit on batch jobs, from one cycle's report."""
    limit = report.limit
    yield GaugeMetricFamily(
        "slurm_rl_batch_limit_processors",
        "Processors that batch jobs may use together; +Inf for no limit of ours.",
        math.inf if limit.processors is None else limit.processors,
    )
    others = GaugeMetricFamily(
        "slurm_rl_batch_limit_resource",
        "Amount of another resource that batch jobs may use together, memory in bytes; none where "
        "no limit of ours stands.",
        labels=["resource"],
    )
    for name, amount in limit.others.items():
        # as slurm_rl_resource_usable, of which the dashboard makes it a part
        others.add_metric([name], amount * (BYTES_IN_MIB if name == MEMORY else 1.0))
    yield others
    reason = StateSetMetricFamily("slurm_rl_batch_limit_reason", "Why the limit is what it is.")
    reason.add_metric([], {each: limit.reason == each for each in LIMIT_REASONS})
    yield reason
    yield GaugeMetricFamily(
        "slurm_rl_batch_limit_failing",
        "Whether the last try to set the limit failed.",
        1 if limit.failing else 0,
    )


def limit_as_before(limit: LimitReport) -> LimitReport:
    """What stands after a cycle that saw nothing: nothing was changed."""
    return replace(limit, change=None, failure=None, failure_reason=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedNames:
    """Which value of a label each name gets: its own, or one that it shares with others.

    Attributes:
        labels: distinct label values.
        place: index into `labels` of each name, shape [names].
    """

    labels: tuple[str, ...]
    place: IntArray

    def sums(self, values: FloatArray) -> list[float]:
        """Values of the names, shape [names], summed up for each label."""
        sums: list[float] = np.bincount(
            self.place, weights=values, minlength=len(self.labels)
        ).tolist()
        return sums

    def counts(self, index: IntArray) -> list[int]:
        """How many entries of a column of name indices, -1 for unknown, each label has."""
        counts: list[int] = np.bincount(
            self.place[index[index >= 0]], minlength=len(self.labels)
        ).tolist()
        return counts


class LabelCap:
    """Names once admitted stay so: a counter that moved to another series would lose its past."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._own: set[str] = set()

    def of(self, names: Sequence[str], weight: FloatArray | None = None) -> CappedNames:
        """Labels of these names; while there is room, the heaviest new ones are admitted first.

        Args:
            names: distinct names.
            weight: shape [names]; None admits in the order given.
        """
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
