"""A site's own priority: when it is calculated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind, PriorityWeights
from tests.bench.node_hours.simulated import Delays, simulated_starts

#: A job that waits gains ten points a second, and one of four CPUs has 450 more than one of one.
MACHINE = Machine(
    kinds=(NodeKind(name="a1", count=1, resources=(4.0, 4000.0, 0.0)),),
    partitions=(MachinePartition(name="all", kinds=(0,), is_default=True),),
    weights=PriorityWeights(age=1000.0, highest_age=100.0, size=1200.0, period=60.0),
)


def job(number: int, submit: int, tasks: int, seconds: int) -> dict[str, Any]:
    """A job of the only node."""
    said = {"state": "COMPLETED", "submit": submit, "eligible": submit}
    return {
        "number": number,
        "user": "alice",
        "partition": "all",
        "seconds": float(seconds),
        "minutes": 120,
        "nodes": 1,
        "tasks": tasks,
        "memory": 100,
        "gpus": 0,
        "feature": "",
        "exclusive": False,
        "outcome": {**said, "start": submit, "end": submit + seconds},
    }


@pytest.mark.parametrize(("first", "small", "large"), [(0.0, 100.0, 3700.0), (50.0, 3700.0, 100.0)])
def test_age_counts_to_the_last_calculation(first: float, small: float, large: float) -> None:
    # At 100 s the last calculation was at 60, when the small job had waited for 50 s, or at 50.
    jobs = [job(1, 0, 4, 100), job(2, 10, 1, 3600), job(3, 70, 4, 3600)]
    delays = Delays(notice=0.0, handover=0.0, calculated=first, looks=1)
    assert simulated_starts(jobs, MACHINE, delays).tolist() == [0.0, small, large]
    ageless = replace(MACHINE, weights=replace(MACHINE.weights, age=0.0))
    assert simulated_starts(jobs, ageless, delays).tolist() == [0.0, 3700.0, 100.0]
