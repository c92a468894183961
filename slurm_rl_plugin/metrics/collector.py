"""The daemon's metrics: its live state as families, and what adds up as histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Histogram,
    ProcessCollector,
    Summary,
    disable_created_metrics,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.hook.cycle_report import PHASES, CycleReport
from slurm_rl_plugin.hook.live_state import CLASSES, LabelCap, LiveState
from slurm_rl_plugin.metrics.families import live_families
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
