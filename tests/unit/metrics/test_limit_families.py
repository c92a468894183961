from __future__ import annotations

from dataclasses import replace

import numpy as np
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourcesNow
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.rails.reserve import LimitReport
from slurm_rl_plugin.metrics.collector import CycleMetrics
from tests.unit.hook.queues import pending_jobs, snapshot_of


def test_a_limit_of_memory_is_a_part_of_what_nodes_have() -> None:
    """The dashboard divides one by the other: both count bytes."""
    registry = CollectorRegistry()
    capacity = np.array([8.0, 4000.0, 2.0])
    machine = ResourcesNow(names=BASIC_RESOURCES, capacity=capacity, free=capacity)
    CycleMetrics(registry, {}).publish(
        CycleReport(
            time=1.0,
            mode="active",
            policy="fifo",
            snapshot=replace(snapshot_of(pending_jobs([1])), resources=machine),
            limit=LimitReport(amounts={"cpus": 4, "memory": 1000, "gpus": 1}, reason="kept"),
        )
    )

    def part(resource: str) -> float:
        of = {"resource": resource}
        most = registry.get_sample_value("slurm_rl_batch_limit_resource", of)
        usable = registry.get_sample_value("slurm_rl_resource_usable", of)
        assert most is not None
        assert usable
        return most / usable

    assert (part("memory"), part("gpus")) == (0.25, 0.5)
