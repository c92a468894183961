"""Cycle reports as Prometheus metrics, names and labels as in docs/metrics.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    Summary,
    disable_created_metrics,
)
from prometheus_client.core import (
    InfoMetricFamily,
    Metric,
)

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain import EndedJobs, StartedJobs
from slurm_rl_plugin.domain.request_watch import REQUEST_PARTS
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.hook.cycle_report import (
    CONFIGURED_MODES,
    DIRECTIONS,
    FAILURES,
    MODES,
    PHASES,
    SUPPRESSIONS,
    CycleReport,
)
from slurm_rl_plugin.hook.experiment.turns import (
    EXPERIMENT_PHASES,
    EXPERIMENT_WORDS,
    ExperimentReport,
)
from slurm_rl_plugin.hook.memory.carried_factors import DISTURBANCES
from slurm_rl_plugin.hook.rails.reserve import LIMIT_CHANGES, LIMIT_FAILURES, LimitReport
from slurm_rl_plugin.metrics.queue_families import (
    CLASSES,
    CappedNames,
    LabelCap,
    fairness_families,
    gauge,
    limit_families,
    number,
    queue_families,
    states,
)
from slurm_rl_plugin.utility.time_utility import JobUtilities, job_rows, time_utility

#: Seconds from "at once" to a week, with an edge at the two-minute goal.
WAIT_BUCKETS = (
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0),
    *(14400.0, 28800.0, 57600.0, 86400.0, 172800.0, 345600.0, 604800.0),
)
#: Seconds until a job has its place, with edges at the goals of 5 and 10 s.
PLACE_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
PHASE_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0)
#: Partitions with series of their own: each has two histograms of waits.
MAX_PARTITIONS = 40
#: Modes in which nobody reads the queue, so that what was last seen of it is history.
_UNSEEING = ("disabled", "standby")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSetup:
    """What the configuration says that is served as it is."""

    model: Mapping[str, str] = field(default_factory=dict)  #: labels of slurm_rl_model_info
    mode: str = "shadow"  #: one of CONFIGURED_MODES; the mode of a cycle may differ
    starvation_bound: float = math.inf  #: seconds; inf for none
    adapter: str = ""  #: name of the batch-system adapter
    #: Classes of jobs by name.
    classes: Mapping[str, UtilityClass] = field(default_factory=lambda: BUILT_IN)


class QueueCollector:
    """Gauges of the last report; holds what is to be served of it and nothing else."""

    def __init__(self, setup: ServedSetup) -> None:
        self.setup = setup
        self.report = CycleReport(time=0.0, mode="shadow", policy="")
        self.seen: tuple[Metric, ...] = tuple(fairness_families(0.0, 0.0))
        self.is_up, self.reloaded, self.last_success = False, True, 0.0

    def describe(self) -> Iterable[Metric]:
        """Describe nothing, so that registering asks nothing of the batch system."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The families of the last report."""
        report, setup = self.report, self.setup
        yield number("up", "Whether the last cycle worked.", 1 if self.is_up else 0)
        fallback = 1 if report.fallback_reason else 0
        yield number("fallback_active", "Whether the policy is not used.", fallback)
        yield number("last_success_timestamp_seconds", "Last good cycle.", self.last_success)
        meaning = "Whether the files on disk were taken over at the last reload."
        yield number("last_reload_successful", meaning, 1 if self.reloaded else 0)
        yield states("mode", "What the daemon does with its decisions.", MODES, report.mode)
        meaning = "What the configuration wants."
        yield states("configured_mode", meaning, CONFIGURED_MODES, setup.mode)
        yield InfoMetricFamily("slurm_rl_model", "The model in use.", value=dict(setup.model))
        build = {"version": __version__, "adapter": setup.adapter, "slurm_version": report.release}
        yield InfoMetricFamily("slurm_rl_build", "The program and what it runs on.", value=build)
        yield number(
            "starvation_bound_seconds",
            "A job that could start for longer goes first; +Inf for no bound.",
            setup.starvation_bound,
        )
        meaning = "Processors that the last decision keeps free of batch work."
        yield number("reserve_processors", meaning, report.reserve)
        yield from limit_families(report.limit)
        yield from _experiment_families(report.experiment)
        yield from self.seen


def _experiment_families(report: ExperimentReport) -> Iterator[Metric]:
    """Every family; those of goals are empty until the first pair of blocks is over."""
    meaning = "Whose turn it is in an experiment."
    yield states("experiment", meaning, EXPERIMENT_PHASES, report.phase)
    yield number(
        "experiment_stepped_back",
        "Whether an experiment has ended by itself, for harm that is sure or a guard.",
        1 if report.state == "stepped back" else 0,
    )
    yield number("experiment_pairs", "Pairs of blocks that are over.", report.pairs)
    yield gauge(
        "experiment_cost_ratio",
        "Cost of what is on trial over that of what it is compared with, and the interval's ends.",
        ("goal", "which"),
        (
            ((each.goal, which), value)
            for each in report.goals
            for which, value in (("estimate", each.ratio), ("low", each.low), ("high", each.high))
        ),
    )
    yield gauge(
        "experiment_finding",
        "1 for what is known of a goal.",
        ("goal", "word"),
        (
            ((each.goal, word), 1.0 if each.word == word else 0.0)
            for each in report.goals
            for word in EXPERIMENT_WORDS
        ),
    )


class CycleMetrics:
    """All metrics of the daemon in a registry of its own; give `publish` each report."""

    def __init__(
        self, registry: CollectorRegistry, model: Mapping[str, str], max_accounts: int = 200
    ) -> None:
        # a time for each series would double their number
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._partitions, self._accounts = LabelCap(MAX_PARTITIONS), LabelCap(max_accounts)
        self._queue = QueueCollector(ServedSetup(model=model))
        registry.register(self._queue)
        ProcessCollector(namespace="slurm_rl", registry=registry)
        self._counters(registry)
        self._durations(registry)

    def _counters(self, registry: CollectorRegistry) -> None:
        """Closed label sets exist with 0 from the start, so that rates are never missing."""

        def counter(name: str, meaning: str, label: str, values: Iterable[str] = ()) -> Counter:
            made = Counter(f"slurm_rl_{name}", meaning, [label], registry=registry)
            for value in values:
                made.labels(value)
            return made

        self._cycles = Counter("slurm_rl_cycles", "Cycles run.", registry=registry)
        self._failures = counter("cycle_failures", "Cycles that failed.", "reason", FAILURES)
        self._adjustments = counter("adjustments", "Factors written.", "direction", DIRECTIONS)
        self._disturbances = counter(
            "disturbances", "What happened from outside and was got over.", "reason", DISTURBANCES
        )
        self._suppressed = counter(
            "adjustments_suppressed", "Changes not made.", "reason", SUPPRESSIONS
        )
        self._requests_changed = counter(
            "requests_changed", "Requests changed after the job was ranked.", "what", REQUEST_PARTS
        )
        self._limit_changes = counter(
            "batch_limit_changes", "Changes of the limit on batch jobs.", "direction", LIMIT_CHANGES
        )
        self._limit_failures = counter(
            "batch_limit_failures", "Limits not set.", "reason", LIMIT_FAILURES
        )
        self._account_waits = counter(
            "account_wait_seconds", "Summed waits of jobs that started.", "account"
        )
        self._account_starts = counter("account_jobs_started", "Jobs that started.", "account")

    def _durations(self, registry: CollectorRegistry) -> None:
        def histogram(
            name: str, meaning: str, labels: list[str], edges: tuple[float, ...]
        ) -> Histogram:
            return Histogram(f"slurm_rl_{name}", meaning, labels, buckets=edges, registry=registry)

        self._phases = histogram(
            "cycle_duration_seconds",
            "Duration of the phases of a cycle.",
            ["phase"],
            PHASE_BUCKETS,
        )
        for phase in PHASES:
            self._phases.labels(phase)
        self._calls = histogram(
            "batch_system_call_duration_seconds",
            "Duration of calls to the batch system.",
            ["call"],
            PHASE_BUCKETS,
        )
        self._places = histogram(
            "place_seconds",
            "Seconds from when a job could start until its first place was written.",
            [],
            PLACE_BUCKETS,
        )
        self._waits = histogram(
            "job_wait_seconds",
            "Wait of jobs from eligible to start, observed once at start.",
            ["partition", "job_class"],
            WAIT_BUCKETS,
        )
        self._utilities = Summary(
            "slurm_rl_job_time_utility",
            "Time utility of jobs by class of service, observed once at the end.",
            ["job_class"],
            registry=registry,
        )
        for name in BUILT_IN:
            self._utilities.labels(name)

    def describe_model(self, model: Mapping[str, str]) -> None:
        """Replace the labels of slurm_rl_model_info."""
        self._queue.setup = replace(self._queue.setup, model=dict(model))

    def describe_site(
        self,
        *,
        mode: str,
        starvation_bound: float,
        adapter: str,
        classes: Mapping[str, UtilityClass] = BUILT_IN,
    ) -> None:
        """Replace what the configuration says; see `ServedSetup`."""
        self._queue.setup = replace(
            self._queue.setup,
            mode=mode,
            starvation_bound=starvation_bound,
            adapter=adapter,
            classes=classes,
        )
        for name in classes:
            self._utilities.labels(name)

    def tell_reload(self, *, succeeded: bool) -> None:
        """Whether the files on disk were taken over at a reload."""
        self._queue.reloaded = succeeded

    def publish(self, report: CycleReport) -> None:
        """Take one cycle's report into the metrics; what it lacks keeps its value."""
        self._count_work(report)
        if report.of_new_jobs:
            return
        report = self._with_what_was(report)
        self._queue.report = replace(report, snapshot=None, order=())  # they take room
        self._cycles.inc()
        self._queue.is_up = report.succeeded
        if report.failure is not None:
            self._failures.labels(report.failure).inc()
        elif report.time:
            self._queue.last_success = report.time
        for label, count in report.suppressed.items():
            self._suppressed.labels(label).inc(count)
        self._count_limit(report.limit)
        for phase, seconds in report.phase_seconds.items():
            self._phases.labels(phase).observe(seconds)
        self._publish_queue(report)

    def _count_work(self, report: CycleReport) -> None:
        """Count what was written and asked, in a cycle or for new jobs alone."""
        for counter, counts in (
            (self._adjustments, report.adjustments),
            (self._disturbances, report.disturbances),
            (self._requests_changed, report.requests_changed),
        ):
            for label, count in counts.items():
                counter.labels(label).inc(count)
        for call, seconds in report.calls:
            self._calls.labels(call).observe(seconds)
        for seconds in report.place_seconds:
            self._places.observe(seconds)

    def _with_what_was(self, report: CycleReport) -> CycleReport:
        """The report with what the cycle before knew, where this one failed."""
        before = self._queue.report
        if not report.release:
            report = replace(report, release=before.release)
        if report.succeeded or report.mode in _UNSEEING:
            return report
        untold = report.limit == LimitReport()
        as_before = replace(before.limit, change=None, failure=None, failure_reason=None)
        return replace(
            report,
            limit=as_before if untold else report.limit,
            reserve=before.reserve,
            overrunners=before.overrunners,
            fallback_reason=report.fallback_reason or before.fallback_reason,
        )

    def _count_limit(self, limit: LimitReport) -> None:
        if limit.change is not None:
            self._limit_changes.labels(limit.change).inc()
        if limit.failure is not None:
            self._limit_failures.labels(limit.failure).inc()

    def _publish_queue(self, report: CycleReport) -> None:
        snapshot = report.snapshot
        if snapshot is None:
            if report.mode in _UNSEEING:
                self._queue.seen = tuple(fairness_families(0.0, 0.0))
            return
        partitions = self._partitions.of(snapshot.partitions)
        weights = np.maximum(snapshot.shares, snapshot.usage)
        accounts = self._accounts.of(snapshot.accounts, weights)
        self._queue.seen = tuple(queue_families(report, snapshot, partitions, accounts))
        self._observe_waits(snapshot.started, partitions, accounts)
        self._observe_utilities(snapshot.ended)

    def _observe_utilities(self, ended: EndedJobs) -> None:
        jobs, classes = ended.jobs, self._queue.setup.classes
        if jobs.class_number is None:  # runs that accounting remembers
            return
        own = JobUtilities.of(classes, jobs.class_number, jobs.allowed)
        turnaround = ended.end - np.where(np.isfinite(jobs.eligible), jobs.eligible, jobs.submit)
        rows = job_rows(jobs.interactive, own).T
        utilities = time_utility(turnaround, ended.end - ended.start, rows)
        names = list(classes)
        for place, utility in zip(jobs.class_number.tolist(), utilities.tolist(), strict=True):
            if math.isfinite(utility):
                self._utilities.labels(names[place]).observe(utility)

    def _observe_waits(
        self, started: StartedJobs, partitions: CappedNames, accounts: CappedNames
    ) -> None:
        for label in partitions.labels:
            for job_class in CLASSES:
                self._waits.labels(label, job_class)
        jobs = started.jobs
        waits = np.maximum(started.start - jobs.eligible, 0.0)
        for place, wait in enumerate(waits.tolist()):
            label = partitions.labels[partitions.place[jobs.partition[place]]]
            self._waits.labels(label, CLASSES[int(jobs.interactive[place])]).observe(wait)
        known = jobs.account >= 0
        sums = np.zeros(len(accounts.place))
        np.add.at(sums, jobs.account[known], waits[known])
        counts = accounts.counts(jobs.account)
        for label, wait, count in zip(accounts.labels, accounts.sums(sums), counts, strict=True):
            self._account_waits.labels(label).inc(wait)
            self._account_starts.labels(label).inc(count)
