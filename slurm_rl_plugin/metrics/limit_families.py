"""The limit on batch jobs as Prometheus metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily

from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.rails.batch_limit import LIMIT_REASONS, LimitReport
from slurm_rl_plugin.metrics.queue_families import BYTES_IN_MIB


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
