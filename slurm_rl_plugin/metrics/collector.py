"""Cycle reports as Prometheus metrics, names and labels as in docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.core import (
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.hook.cycle_report import (
    DIRECTIONS,
    FAILURES,
    MODES,
    PHASES,
    SUPPRESSIONS,
    CycleReport,
)
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.fairness import fairness, share_deficit

#: Seconds from "at once" to a week, with an edge at the two-minute goal.
WAIT_BUCKETS = (
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0),
    *(14400.0, 28800.0, 57600.0, 86400.0, 172800.0, 345600.0, 604800.0),
)
PHASE_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0)
CLASSES = ("batch", "interactive")
OTHER_ACCOUNT = "_other"


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueueLine:
    """Pending jobs of one partition and class; ages in seconds."""

    partition: str
    job_class: str
    jobs: int
    median_age: float
    max_age: float


def _queue_lines(snapshot: QueueSnapshot) -> Iterator[_QueueLine]:
    jobs = snapshot.pending.jobs
    age = np.maximum(snapshot.now - jobs.eligible, 0.0)
    for index, partition in enumerate(snapshot.partitions):
        for interactive, job_class in enumerate(CLASSES):
            mine = (jobs.partition == index) & (jobs.interactive == bool(interactive))
            ages: FloatArray = age[mine] if mine.any() else np.zeros(1)
            yield _QueueLine(
                partition=partition,
                job_class=job_class,
                jobs=int(mine.sum()),
                median_age=float(np.median(ages)),
                max_age=float(ages.max()),
            )


class QueueCollector:
    """Gauges of the last report; holds that report and nothing else."""

    def __init__(self, model: Mapping[str, str], max_accounts: int = 200) -> None:
        self.model = dict(model)
        self.max_accounts = max_accounts
        self.report = CycleReport(time=0.0, mode="shadow", policy="")
        self.last_snapshot: QueueSnapshot | None = None

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering asks nothing of the batch system."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The families of the last report."""
        report = self.report
        mode = StateSetMetricFamily("slurm_rl_mode", "What the daemon does with its decisions.")
        mode.add_metric([], {each: report.mode == each for each in MODES})
        yield mode
        yield InfoMetricFamily("slurm_rl_model", "The model in use.", value=self.model)
        yield GaugeMetricFamily(
            "slurm_rl_reserve_processors",
            "Processors that the last decision keeps free of batch work.",
            value=report.reserve,
        )
        if self.last_snapshot is not None:
            yield from _queue_families(self.last_snapshot)
            yield from _account_families(self.last_snapshot, self.max_accounts)
        else:
            yield from _fairness_families(0.0, 0.0)


def _queue_families(snapshot: QueueSnapshot) -> Iterator[Metric]:
    labels = ["partition", "job_class"]
    pending = GaugeMetricFamily("slurm_rl_pending_jobs", "Pending jobs seen.", labels=labels)
    median = GaugeMetricFamily(
        "slurm_rl_pending_age_seconds_median", "Median age of pending jobs.", labels=labels
    )
    oldest = GaugeMetricFamily(
        "slurm_rl_pending_age_seconds_max", "Age of the oldest pending job.", labels=labels
    )
    for line in _queue_lines(snapshot):
        where = [line.partition, line.job_class]
        pending.add_metric(where, line.jobs)
        median.add_metric(where, line.median_age)
        oldest.add_metric(where, line.max_age)
    yield from (pending, median, oldest)


def _account_families(snapshot: QueueSnapshot, max_accounts: int) -> Iterator[Metric]:
    target = GaugeMetricFamily(
        "slurm_rl_account_share_target_ratio", "Configured share.", labels=["account"]
    )
    usage = GaugeMetricFamily(
        "slurm_rl_account_usage_ratio", "Share of the decayed usage.", labels=["account"]
    )
    order = np.argsort(-np.maximum(snapshot.shares, snapshot.usage), kind="stable")
    for index in order[:max_accounts]:
        target.add_metric([snapshot.accounts[index]], float(snapshot.shares[index]))
        usage.add_metric([snapshot.accounts[index]], float(snapshot.usage[index]))
    rest = order[max_accounts:]
    if len(rest):
        target.add_metric([OTHER_ACCOUNT], float(snapshot.shares[rest].sum()))
        usage.add_metric([OTHER_ACCOUNT], float(snapshot.usage[rest].sum()))
    yield from (target, usage)
    known = len(snapshot.shares) > 0 and snapshot.shares.max() > 0
    yield from _fairness_families(
        float(fairness(snapshot.shares, snapshot.usage)) if known else 0.0,
        float(share_deficit(snapshot.shares, snapshot.usage)) if known else 0.0,
    )


def _fairness_families(fairness_now: float, deficit: float) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "slurm_rl_fairness_ratio", "Fairness of the decayed usage (2008, eq. 4).", fairness_now
    )
    yield GaugeMetricFamily(
        "slurm_rl_share_deficit_ratio", "Largest share that an account is short of.", deficit
    )


class CycleMetrics:
    """All metrics of the daemon in a registry of its own; give `publish` each report."""

    def __init__(
        self, registry: CollectorRegistry, model: Mapping[str, str], max_accounts: int = 200
    ) -> None:
        # a time for each series would double their number
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._queue = QueueCollector(model, max_accounts)
        registry.register(self._queue)
        self._up = Gauge("slurm_rl_up", "Whether the last cycle worked.", registry=registry)
        self._fallback = Gauge(
            "slurm_rl_fallback_active", "Whether the policy is not used.", registry=registry
        )
        self._success = Gauge(
            "slurm_rl_last_success_timestamp_seconds", "Last good cycle.", registry=registry
        )
        self._cycles = Counter("slurm_rl_cycles", "Cycles run.", registry=registry)
        self._failures = Counter(
            "slurm_rl_cycle_failures", "Cycles that failed.", ["reason"], registry=registry
        )
        self._adjustments = Counter(
            "slurm_rl_adjustments", "Factors written.", ["direction"], registry=registry
        )
        self._suppressed = Counter(
            "slurm_rl_adjustments_suppressed", "Changes not made.", ["reason"], registry=registry
        )
        self._phases = Histogram(
            "slurm_rl_cycle_duration_seconds",
            "Duration of the phases of a cycle.",
            ["phase"],
            buckets=PHASE_BUCKETS,
            registry=registry,
        )
        self._calls = Histogram(
            "slurm_rl_batch_system_call_duration_seconds",
            "Duration of calls to the batch system.",
            ["call"],
            buckets=PHASE_BUCKETS,
            registry=registry,
        )
        self._waits = Histogram(
            "slurm_rl_job_wait_seconds",
            "Wait of jobs from eligible to start, observed once at start.",
            ["partition", "job_class"],
            buckets=WAIT_BUCKETS,
            registry=registry,
        )
        self._start_all_series()

    def _start_all_series(self) -> None:
        """Closed label sets exist with 0 from the start, so that rates are never missing."""
        for reason in FAILURES:
            self._failures.labels(reason)
        for direction in DIRECTIONS:
            self._adjustments.labels(direction)
        for reason in SUPPRESSIONS:
            self._suppressed.labels(reason)
        for phase in PHASES:
            self._phases.labels(phase)

    def describe_model(self, model: Mapping[str, str]) -> None:
        """Replace the labels of slurm_rl_model_info after a reload."""
        self._queue.model = dict(model)

    def publish(self, report: CycleReport) -> None:
        """Take in one report."""
        self._queue.report = report
        self._cycles.inc()
        self._up.set(1 if report.succeeded else 0)
        self._fallback.set(1 if report.fallback_reason else 0)
        if report.failure is not None:
            self._failures.labels(report.failure).inc()
        elif report.time:
            self._success.set(report.time)
        for direction, count in report.adjustments.items():
            self._adjustments.labels(direction).inc(count)
        for reason, count in report.suppressed.items():
            self._suppressed.labels(reason).inc(count)
        for phase, seconds in report.phase_seconds.items():
            self._phases.labels(phase).observe(seconds)
        for call, seconds in report.calls:
            self._calls.labels(call).observe(seconds)
        if report.snapshot is not None:
            self._queue.last_snapshot = report.snapshot
            self._observe_waits(report.snapshot)

    def _observe_waits(self, snapshot: QueueSnapshot) -> None:
        for partition in snapshot.partitions:
            for job_class in CLASSES:
                self._waits.labels(partition, job_class)
        jobs: JobTable = snapshot.started.jobs
        waits = np.maximum(snapshot.started.start - jobs.eligible, 0.0)
        for place, wait in enumerate(waits.tolist()):
            partition = snapshot.partitions[jobs.partition[place]]
            self._waits.labels(partition, CLASSES[int(jobs.interactive[place])]).observe(wait)
