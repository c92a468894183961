"""The daemon's live state and the forecasts' scores as families; what adds up as histograms.

Names are as in docs/metrics.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Histogram,
    ProcessCollector,
    Summary,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot
from slurm_rl_plugin.domain.jobs import REQUEST_PARTS
from slurm_rl_plugin.domain.resources import MEMORY
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
from slurm_rl_plugin.hook.live_state import CLASSES, LabelCap, LiveState
from slurm_rl_plugin.hook.memory.carried_factors import DISTURBANCES
from slurm_rl_plugin.hook.rails.reserve import LIMIT_CHANGES, LIMIT_FAILURES, LIMIT_REASONS
from slurm_rl_plugin.utility.time_utility import JobUtilities, job_rows, time_utility

#: Prometheus counts sizes in bytes.
_BYTES_IN_MIB = 1024.0**2
#: A label's values, and the number of the series.
Row = tuple[Sequence[str], float]
_DISTURBED = "External faults that the daemon recovered from."
_REQUESTED = "Requests that changed after the job was ranked."
_LIMITED = "Changes of the limit on batch jobs."
_AS_BATCH = "Pending jobs of the interactive class that count as batch."
_MOVED = "Jobs that the daemon's order moves in the site's order."
#: Field of `LiveState` -> name, help and label of its counter, and the label's values: those of a
#: closed label set exist with 0 from the start, so that rates are never missing.
_COUNTERS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "failures": ("cycle_failures", "Cycles that failed.", "reason", FAILURES),
    "adjustments": ("adjustments", "Factors written.", "direction", DIRECTIONS),
    "disturbances": ("disturbances", _DISTURBED, "reason", DISTURBANCES),
    "suppressed": ("adjustments_suppressed", "Changes not made.", "reason", SUPPRESSIONS),
    "requests_changed": ("requests_changed", _REQUESTED, "what", REQUEST_PARTS),
    "limit_changes": ("batch_limit_changes", _LIMITED, "direction", LIMIT_CHANGES),
    "limit_failures": ("batch_limit_failures", "Limits not set.", "reason", LIMIT_FAILURES),
    "account_waits": ("account_wait_seconds", "Summed waits of jobs that started.", "account", ()),
    "account_starts": ("account_jobs_started", "Jobs that started.", "account", ()),
}
#: Field of `LiveState` -> name, help and label of its gauge, which has no series while it is empty.
_GAUGES = {
    "as_batch": ("interactive_jobs_as_batch", _AS_BATCH, "reason"),
    "rank_changes": ("rank_changes", _MOVED, "partition"),
    "with_factor": ("jobs_with_factor", "Pending jobs with a factor.", "partition"),
    "shares": ("account_share_target_ratio", "Configured share.", "account"),
    "usage": ("account_usage_ratio", "Share of the decayed usage.", "account"),
    "account_pending": ("account_pending_jobs", "Pending jobs seen.", "account"),
    "lifts": ("account_lift_doublings", "Doublings that lower its usage.", "account"),
    "entitlement": ("entitlement_ratio", "Service over entitlement, a fortnight.", "account"),
    "group_waits": ("group_wait_seconds", "Mean wait of jobs, a fortnight.", "group"),
    "group_lifts": ("group_lift_doublings", "Doublings of the waits of its jobs.", "group"),
}
#: Gauge without a label -> help.
_NUMBERS = {
    "up": "Whether the last cycle worked.",
    "fallback_active": "Whether the policy is not used.",
    "last_success_timestamp_seconds": "Last good cycle.",
    "last_reload_successful": "Whether the last reload took over the files on disk.",
    "starvation_bound_seconds": "A job that could start for longer goes first; +Inf for no bound.",
    "reserve_processors": "Processors that the last decision keeps free of batch work.",
    "batch_limit_processors": (
        "Processors that batch jobs may use together; +Inf for no limit of the daemon."
    ),
    "batch_limit_failing": "Whether the last attempt to set the limit failed.",
    "fairness_ratio": "Fairness of the decayed usage (2008, eq. 4).",
    "share_deficit_ratio": "Largest share that an account is short of.",
    "experiment_pairs": "Pairs of blocks that are over.",
}


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
    """A state set: the present state among all that are known."""
    family = StateSetMetricFamily(f"slurm_rl_{name}", meaning)
    family.add_metric([], {each: each == now for each in known})
    return family


def live_families(state: LiveState) -> Iterator[Metric]:
    """Every gauge, counter and info of the daemon."""
    bound, limit = state.starvation_bound, state.limit
    values = (
        *(state.up, state.fallback, state.last_success, state.reloaded),
        *(math.inf if bound is None else bound, state.reserve),
        *(math.inf if limit.processors is None else limit.processors, limit.failing),
        *(state.fairness, state.share_deficit, state.experiment.pairs),
    )
    for (name, meaning), value in zip(_NUMBERS.items(), values, strict=True):
        yield number(name, meaning, float(value))
    yield states("mode", "What the daemon does with its decisions.", MODES, state.mode)
    yield states(
        "configured_mode", "What the configuration wants.", CONFIGURED_MODES, state.configured_mode
    )
    yield states("batch_limit_reason", "Why the limit is what it is.", LIMIT_REASONS, limit.reason)
    yield InfoMetricFamily("slurm_rl_model", "The model in use.", value=dict(state.model))
    build = {"version": state.version, "adapter": state.adapter, "slurm_version": state.release}
    yield InfoMetricFamily("slurm_rl_build", "The program and what it runs on.", value=build)
    yield CounterMetricFamily("slurm_rl_cycles", "Cycles run.", value=state.cycles)
    for place, (name, meaning, label, closed) in _COUNTERS.items():
        family = CounterMetricFamily(f"slurm_rl_{name}", meaning, labels=[label])
        for labelled, count in {**dict.fromkeys(closed, 0), **getattr(state, place)}.items():
            family.add_metric([labelled], count)
        yield family
    yield from _experiment_families(state.experiment)
    yield from _queue_families(state)


def _queue_families(state: LiveState) -> Iterator[Metric]:
    """The gauges of the queue, without a series while the daemon does not read it."""
    for name, meaning, place in (
        ("jobs", "Pending jobs seen.", 2),
        ("age_seconds_median", "Median age of jobs that could start.", 3),
        ("age_seconds_max", "Age of the oldest job that could start.", 4),
    ):
        ages = ((each[:2], float(each[place])) for each in state.pending)
        yield gauge(f"pending_{name}", meaning, ("partition", "job_class"), ages)
    for field, (name, meaning, label) in _GAUGES.items():
        rows = (([each], value) for each, value in getattr(state, field).items())
        yield gauge(name, meaning, [label], rows)
    meaning = "Users whose jobs count as batch, whatever their time limits."
    yield gauge("users_as_batch", meaning, [], _row(state.overrunners))
    meaning = "Service that went to the wrong account."
    yield gauge("misdelivered_ratio", meaning, [], _row(state.misdelivered))
    for name, meaning in (
        ("usable", "What usable nodes have."),
        ("running", "What running jobs have."),
        ("pending", "What pending jobs ask for."),
    ):
        amounts = (_amount(each.name, getattr(each, name)) for each in state.resources)
        yield gauge(f"resource_{name}", meaning, ["resource"], amounts)
    yield gauge(
        "batch_limit_resource",
        "Amount of another resource that batch jobs may use together, memory in bytes; no series "
        "without a limit of the daemon.",
        ["resource"],
        (_amount(*each) for each in state.limit.others.items()),
    )


def _row(value: float | None) -> list[Row]:
    return [] if value is None else [((), value)]


def _amount(resource: str, amount: float) -> Row:
    return [resource], amount * (_BYTES_IN_MIB if resource == MEMORY else 1.0)


def _experiment_families(report: ExperimentReport) -> Iterator[Metric]:
    """Every family; those of goals are empty until the first pair of blocks is over."""
    meaning = "Whose order is in force in an experiment."
    yield states("experiment", meaning, EXPERIMENT_PHASES, report.phase)
    yield number(
        "experiment_stepped_back",
        "Whether an experiment has ended by itself, for significant harm or by a guard.",
        1 if report.state == "stepped back" else 0,
    )
    yield gauge(
        "experiment_cost_ratio",
        "Cost of the order on trial over the cost of the other one, and the interval's ends.",
        ("goal", "which"),
        (
            ((each.goal, which), value)
            for each in report.goals
            for which, value in (("estimate", each.ratio), ("low", each.low), ("high", each.high))
        ),
    )
    yield gauge(
        "experiment_finding",
        "1 for the finding of a goal.",
        ("goal", "word"),
        (
            ((each.goal, word), 1.0 if each.word == word else 0.0)
            for each in report.goals
            for word in EXPERIMENT_WORDS
        ),
    )


#: Figure of `Scores` -> name and help of its metric.
_FIGURES = {
    "median_error": ("median_log_error", "median of |log10(forecast / true wait)|"),
    "square_error": ("square_log_error", "mean square of log10(forecast / true wait)"),
    "within_2": ("within_factor_2", "part of waits within a factor of 2 of the median"),
    "within_3": ("within_factor_3", "part of waits within a factor of 3 of the median"),
    "coverage_50": ("coverage_50", "part of waits inside the 50 % band"),
    "coverage_90": ("coverage_90", "part of waits inside the 90 % band"),
    "width_90": ("log_width_90", "mean log10(high / low) of the 90 % band"),
    "pinball": ("pinball_loss", "pinball loss in log10 of the wait"),
}
_GROUPS = ("class", "partition", "horizon")


@dataclass(frozen=True, slots=True, eq=False)
class ForecastFamilies(Collector):
    """Families of one document of scores (`scored_forecasts.scores_document`)."""

    scores: Mapping[str, Any]
    age: float  #: seconds since the queue of the last forecasts was read; nan for none
    seconds: float  #: what the last forecast of the whole queue took; nan for none

    def collect(self) -> Iterator[Metric]:
        """Every family, of the last four weeks."""
        scores = self.scores
        for name, meaning, value in (
            ("forecasts_given", "forecasts kept in the last four weeks", scores["given"]),
            ("forecasts_started", "those forecasts whose job has started", scores["started"]),
            ("forecast_age_seconds", "age of the queue of the last forecasts", self.age),
            ("forecast_seconds", "duration of a forecast of the whole queue", self.seconds),
        ):
            yield number(name, meaning, float(value))
        groups = {"all": {"all": scores["all"]}} if "all" in scores else {}
        groups |= {each: scores[each] for each in _GROUPS if each in scores}
        for figure, (name, meaning) in _FIGURES.items():
            rows = [
                ((by, label), float(found[figure]))
                for by, group in groups.items()
                for label, found in group.items()
            ]
            yield gauge(f"forecast_{name}", meaning, ("by", "group"), rows)
        meaning = (
            "median of |log10(forecast / true wait)| of a source, over the jobs that it forecast"
        )
        medians = {each: found["median_error"] for each, found in scores.get("sources", {}).items()}
        sources = (((name,), float(median)) for name, median in medians.items())
        yield gauge("forecast_source_median_log_error", meaning, ("source",), sources)


def forecast_metrics(scores: Mapping[str, Any], age: float, seconds: float) -> tuple[bytes, str]:
    """The text that Prometheus scrapes, and its content type."""
    registry = CollectorRegistry()
    registry.register(ForecastFamilies(scores, age, seconds))
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


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


class CycleMetrics(Collector):
    """All metrics of the daemon in a registry of its own; give `publish` each report."""

    def __init__(
        self, registry: CollectorRegistry, model: Mapping[str, str], max_accounts: int = 200
    ) -> None:
        # a time for each series would double their number
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._partitions, self._accounts = LabelCap(MAX_PARTITIONS), LabelCap(max_accounts)
        self.registry, self.state = registry, LiveState(model=dict(model))
        self._classes: Mapping[str, UtilityClass] = BUILT_IN
        registry.register(self)
        ProcessCollector(namespace="slurm_rl", registry=registry)

        def histogram(
            name: str, meaning: str, labels: list[str], edges: tuple[float, ...]
        ) -> Histogram:
            return Histogram(f"slurm_rl_{name}", meaning, labels, buckets=edges, registry=registry)

        duration = "Duration of the phases of a cycle."
        self._phases = histogram("cycle_duration_seconds", duration, ["phase"], PHASE_BUCKETS)
        for phase in PHASES:
            self._phases.labels(phase)
        duration = "Duration of calls to the batch system."
        name = "batch_system_call_duration_seconds"
        self._calls = histogram(name, duration, ["call"], PHASE_BUCKETS)
        delay = "Seconds from when a job could start until its first place was written."
        self._places = histogram("place_seconds", delay, [], PLACE_BUCKETS)
        wait, labels = "Wait of jobs from eligible to start, observed once at start.", ["partition"]
        self._waits = histogram("job_wait_seconds", wait, [*labels, "job_class"], WAIT_BUCKETS)
        self._utilities = Summary(
            "slurm_rl_job_time_utility",
            "Time utility of jobs by class of service, observed once at the end.",
            ["job_class"],
            registry=registry,
        )
        for name in BUILT_IN:
            self._utilities.labels(name)

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering computes nothing."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The families of the live state."""
        return live_families(self.state)

    def describe_site(self, *, classes: Mapping[str, UtilityClass], **changes: Any) -> None:
        """Replace what the configuration says: the classes of service, and fields of the state."""
        self.update(**changes)
        self._classes = classes
        for name in classes:
            self._utilities.labels(name)

    def update(self, **changes: Any) -> None:
        """Replace fields of the live state."""
        self.state = replace(self.state, **changes)

    def publish(self, report: CycleReport) -> None:
        """Take one cycle's report into the metrics; what it lacks keeps its value."""
        for call, seconds in report.calls:
            self._calls.labels(call).observe(seconds)
        for seconds in report.place_seconds:
            self._places.observe(seconds)
        self.state = self.state.after(report, self._partitions, self._accounts)
        if report.of_new_jobs:
            return
        for phase, seconds in report.phase_seconds.items():
            self._phases.labels(phase).observe(seconds)
        if report.snapshot is not None:
            self._observe_waits(report.snapshot)
            self._observe_utilities(report.snapshot.ended)

    def _observe_utilities(self, ended: EndedJobs) -> None:
        jobs, classes = ended.jobs, self._classes
        if jobs.class_number is None:  # past runs that accounting has kept
            return
        own = JobUtilities.of(classes, jobs.class_number, jobs.allowed)
        turnaround = ended.end - np.where(np.isfinite(jobs.eligible), jobs.eligible, jobs.submit)
        rows = job_rows(jobs.interactive, own).T
        utilities = time_utility(turnaround, ended.end - ended.start, rows)
        names = list(classes)
        for place, utility in zip(jobs.class_number.tolist(), utilities.tolist(), strict=True):
            if math.isfinite(utility):
                self._utilities.labels(names[place]).observe(utility)

    def _observe_waits(self, snapshot: QueueSnapshot) -> None:
        partitions, jobs = self._partitions.of(snapshot.partitions), snapshot.started.jobs
        for label in partitions.labels:
            for job_class in CLASSES:
                self._waits.labels(label, job_class)
        waits = np.maximum(snapshot.started.start - jobs.eligible, 0.0)
        for place, wait in enumerate(waits.tolist()):
            label = partitions.labels[partitions.place[jobs.partition[place]]]
            self._waits.labels(label, CLASSES[int(jobs.interactive[place])]).observe(wait)
