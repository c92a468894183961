"""What one cycle says of queue, shares and limit, and the forecasts' own figures, as families."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.queue_snapshot import resource_use
from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.memory.account_service import ServiceSeen
from slurm_rl_plugin.hook.order.queue_plan import out_of_order
from slurm_rl_plugin.hook.rails.reserve import AS_BATCH, LIMIT_REASONS, LimitReport
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.fairness import fairness, share_deficit

#: Job classes as label values; the index is `JobTable.interactive`.
CLASSES = ("batch", "interactive")
#: Prometheus counts sizes in bytes.
_BYTES_IN_MIB = 1024.0**2
#: The label value of all names without series of their own.
OTHER = "_other"
#: A label's values, and the number of the series.
Row = tuple[Sequence[str], float]


def number(name: str, meaning: str, value: float) -> Metric:
    """A gauge without labels."""
    return GaugeMetricFamily(f"slurm_rl_{name}", meaning, value)


def gauge(name: str, meaning: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    """A gauge with a series for each row."""
    family = GaugeMetricFamily(f"slurm_rl_{name}", meaning, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def states(name: str, meaning: str, known: Iterable[str], now: str) -> Metric:
    """A state set: the state of now among all that are known."""
    family = StateSetMetricFamily(f"slurm_rl_{name}", meaning)
    family.add_metric([], {each: each == now for each in known})
    return family


def queue_families(
    report: CycleReport,
    snapshot: QueueSnapshot,
    partitions: CappedNames,
    accounts: CappedNames,
) -> Iterator[Metric]:
    """Every gauge that the snapshot of a report gives, by labels of its partitions and accounts."""
    partition = partitions.place[snapshot.pending.jobs.partition]
    yield from _pending_families(snapshot, partition, partitions.labels)
    as_batch = snapshot.pending.as_batch
    yield gauge(
        "interactive_jobs_as_batch",
        "Pending jobs of the interactive class that count as batch.",
        ["reason"],
        (
            ([reason], 0 if as_batch is None else int((as_batch == place).sum()))
            for place, reason in enumerate(AS_BATCH)
        ),
    )
    yield number(
        "users_as_batch", "Users whose time limits make no job interactive.", report.overrunners
    )
    yield from _order_families(report, snapshot, partition, partitions.labels)
    yield from _account_families(report, snapshot, accounts)
    yield from _resource_families(snapshot)
    known = len(snapshot.shares) > 0 and snapshot.shares.max() > 0
    yield from fairness_families(
        float(fairness(snapshot.shares, snapshot.usage)) if known else 0.0,
        float(share_deficit(snapshot.shares, snapshot.usage)) if known else 0.0,
    )


def _pending_families(
    snapshot: QueueSnapshot, partition: IntArray, labels: Sequence[str]
) -> Iterator[Metric]:
    """Numbers and ages; a job that is held, not eligible or waits by its own doing has no age."""
    pending, age = snapshot.pending, snapshot.accrued_wait
    group = 2 * partition + pending.jobs.interactive
    is_late = pending.jobs.eligible <= snapshot.now
    could_start = ~pending.held & is_late & ~pending.each_own_doing
    jobs, median, oldest = list[Row](), list[Row](), list[Row]()
    for place, where in enumerate((label, each) for label in labels for each in CLASSES):
        mine = group == place
        ages: FloatArray = age[mine & could_start]
        jobs.append((where, int(mine.sum())))
        median.append((where, float(np.median(ages)) if len(ages) else 0.0))
        oldest.append((where, float(ages.max(initial=0.0))))
    for name, meaning, rows in (
        ("jobs", "Pending jobs seen.", jobs),
        ("age_seconds_median", "Median age of jobs that could start.", median),
        ("age_seconds_max", "Age of the oldest job that could start.", oldest),
    ):
        yield gauge(f"pending_{name}", meaning, ("partition", "job_class"), rows)


def _order_families(
    report: CycleReport, snapshot: QueueSnapshot, partition: IntArray, labels: Sequence[str]
) -> Iterator[Metric]:
    pending = snapshot.pending
    # the site starts jobs of one priority by number
    native = pending.native_priority
    rank = np.empty(len(native), dtype=np.int64)
    rank[np.lexsort((pending.jobs.job_id, -native))] = np.arange(len(native))
    order = np.array(report.order, dtype=np.int64)
    moved, factors = list[Row](), list[Row]()
    for place, label in enumerate(labels):
        mine = order[partition[order] == place]
        moved.append(([label], out_of_order(-rank[mine])))
        factors.append(([label], int(((partition == place) & (pending.factor != 0)).sum())))
    where = ["partition"]
    yield gauge("rank_changes", "Jobs that our order moves in the site's order.", where, moved)
    yield gauge("jobs_with_factor", "Pending jobs with a factor.", where, factors)


def _account_families(
    report: CycleReport, snapshot: QueueSnapshot, accounts: CappedNames
) -> Iterator[Metric]:
    """Shares, use and lifts; of who got what no series until a week has been seen."""
    service, lifts = report.service, report.lifts
    ratios, wrong = [math.nan] * len(accounts.labels), list[Row]()
    if service is not None:
        delivered = np.array(accounts.sums(service.delivered))
        entitled = np.array(accounts.sums(service.entitled))
        ratios = ServiceSeen(delivered=delivered, entitled=entitled).ratios.tolist()
        wrong = [((), service.misdelivered)]
    greatest = np.zeros(len(accounts.labels))  # of those that share a label
    np.maximum.at(greatest, accounts.place[: len(lifts.accounts)], lifts.accounts)
    for name, meaning, values in (
        ("share_target_ratio", "Configured share.", accounts.sums(snapshot.shares)),
        ("usage_ratio", "Share of the decayed usage.", accounts.sums(snapshot.usage)),
        ("pending_jobs", "Pending jobs seen.", accounts.counts(snapshot.pending.jobs.account)),
        ("lift_doublings", "Doublings that lower its usage.", greatest.tolist()),
    ):
        yield gauge(f"account_{name}", meaning, ["account"], _rows(accounts.labels, values))
    yield gauge(
        "entitlement_ratio",
        "Service over entitlement, a fortnight.",
        ["account"],
        (row for row in _rows(accounts.labels, ratios) if math.isfinite(row[1])),
    )
    yield gauge("misdelivered_ratio", "Service that went to the wrong account.", [], wrong)
    groups: tuple[tuple[str, str, Mapping[str, float]], ...] = (
        ("group_wait_seconds", "Mean wait of jobs, a fortnight.", lifts.group_waits),
        ("group_lift_doublings", "Doublings of the waits of its jobs.", lifts.groups),
    )
    for name, meaning, found in groups:
        yield gauge(name, meaning, ["group"], _rows(found, found.values()))


def _rows(labels: Iterable[str], values: Iterable[float]) -> Iterator[Row]:
    return (([label], value) for label, value in zip(labels, values, strict=True))


def _resource_families(snapshot: QueueSnapshot) -> Iterator[Metric]:
    """What jobs have, wait for and could have; no series on a machine of processors alone."""
    found = resource_use(snapshot)
    for name, meaning in (
        ("usable", "What usable nodes have."),
        ("running", "What running jobs have of it."),
        ("pending", "What pending jobs ask for."),
    ):
        rows = (_amount(each.name, getattr(each, name)) for each in found)
        yield gauge(f"resource_{name}", meaning, ["resource"], rows)


def _amount(resource: str, amount: float) -> Row:
    return [resource], amount * (_BYTES_IN_MIB if resource == MEMORY else 1.0)


def fairness_families(fairness_now: float, deficit: float) -> Iterator[Metric]:
    """The two numbers of the whole cluster; there before the first snapshot too."""
    yield number("fairness_ratio", "Fairness of the decayed usage (2008, eq. 4).", fairness_now)
    yield number("share_deficit_ratio", "Largest share that an account is short of.", deficit)


def limit_families(limit: LimitReport) -> Iterator[Metric]:
    """The gauges of the limit on batch jobs, in the units of slurm_rl_resource_usable."""
    yield number(
        "batch_limit_processors",
        "Processors that batch jobs may use together; +Inf for no limit of ours.",
        math.inf if limit.processors is None else limit.processors,
    )
    yield gauge(
        "batch_limit_resource",
        "Amount of another resource that batch jobs may use together, memory in bytes; none where "
        "no limit of ours stands.",
        ["resource"],
        (_amount(*each) for each in limit.others.items()),
    )
    yield states("batch_limit_reason", "Why the limit is what it is.", LIMIT_REASONS, limit.reason)
    failing = 1 if limit.failing else 0
    yield number("batch_limit_failing", "Whether the last try to set the limit failed.", failing)


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedNames:
    """Which value of a label each name gets: its own, or one that it shares with others."""

    labels: tuple[str, ...]  #: distinct
    place: IntArray  #: index into `labels` of each name, shape [names]

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


#: Figure of `Scores` -> name and meaning of its metric.
_FIGURES = {
    "median_error": ("median_log_error", "median of |log10(foretold / true wait)|"),
    "square_error": ("square_log_error", "mean square of log10(foretold / true wait)"),
    "within_2": ("within_factor_2", "part of waits within a factor of 2 of the median"),
    "within_3": ("within_factor_3", "part of waits within a factor of 3 of the median"),
    "coverage_50": ("coverage_50", "part of waits inside the 50 % band"),
    "coverage_90": ("coverage_90", "part of waits inside the 90 % band"),
    "width_90": ("log_width_90", "mean log10(high / low) of the 90 % band"),
    "pinball": ("pinball_loss", "pinball loss in log10 of the wait"),
}
_GROUPS = ("class", "partition", "horizon")


class ForecastFamilies(Collector):
    """Families of one document of scores (`scored_forecasts.scores_document`).

    `age` is seconds since the look that was foretold last, `seconds` what the last forecast of the
    whole queue took; nan for none.
    """

    def __init__(self, scores: Mapping[str, Any], age: float, seconds: float) -> None:
        self._scores, self._age, self._seconds = scores, age, seconds

    def collect(self) -> Iterator[Metric]:
        """Every family, of the last four weeks."""
        scores = self._scores
        given, started = float(scores["given"]), float(scores["started"])
        yield number("forecasts_given", "forecasts kept in the last four weeks", given)
        yield number("forecasts_started", "of them those whose job has started", started)
        yield number("forecast_age_seconds", "age of the look that was foretold last", self._age)
        yield number("forecast_seconds", "that a forecast of the whole queue took", self._seconds)
        groups = {"all": {"all": scores["all"]}} if "all" in scores else {}
        groups |= {each: scores[each] for each in _GROUPS if each in scores}
        for figure, (name, meaning) in _FIGURES.items():
            rows = [
                ((by, label), float(found[figure]))
                for by, group in groups.items()
                for label, found in group.items()
            ]
            yield gauge(f"forecast_{name}", meaning, ("by", "group"), rows)
        yield gauge(
            "forecast_source_median_log_error",
            "median of |log10(foretold / true wait)| of a source where it spoke",
            ("source",),
            [
                ((source,), float(found["median_error"]))
                for source, found in scores.get("sources", {}).items()
            ],
        )


def forecast_metrics(scores: Mapping[str, Any], age: float, seconds: float) -> tuple[bytes, str]:
    """The text that Prometheus scrapes, and its content type."""
    registry = CollectorRegistry()
    registry.register(ForecastFamilies(scores, age, seconds))
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4
