"""What slurmctld was seen to do on real daemons (tests/bench/live), and ours with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind, PriorityWeights
from tests.bench.live.machine_fidelity import Delays, simulated_starts

NO_DELAYS = Delays(notice=0.0, handover=0.0, calculated=0.0, looks=1)
#: Three nodes that jobs name by a feature, and one more of the same partition.
MACHINE = Machine(
    kinds=(
        NodeKind(name="a[1-3]", count=3, resources=(4.0, 4000.0, 0.0), features=frozenset("a")),
        NodeKind(name="b1", count=1, resources=(4.0, 4000.0, 0.0), features=frozenset("b")),
    ),
    partitions=(MachinePartition(name="all", kinds=(0, 1), is_default=True),),
)


def job(
    number: int, submit: int, minutes: int, nodes: int = 1, feature: str = "a", **more: Any
) -> dict[str, Any]:
    """A job that takes whole nodes and runs for an hour, whatever it asks for."""
    asked = {
        "number": number,
        "user": "alice",
        "partition": "all",
        "seconds": 3600.0,
        "minutes": minutes,
        "nodes": nodes,
        "tasks": 4 * nodes,
        "memory": 100,
        "gpus": 0,
        "feature": feature,
        "exclusive": True,
        **more,
    }
    ran = {"start": submit, "end": submit + int(asked["seconds"])}
    return {**asked, "outcome": {"state": "COMPLETED", "submit": submit, "eligible": submit, **ran}}


@pytest.mark.parametrize(("other_minutes", "small_starts"), [(90, 60.0), (120, 3600.0)])
def test_a_job_elsewhere_that_ends_soon_behind_makes_a_plan_late(
    other_minutes: int, small_starts: float
) -> None:
    # a1 is expected back at 5400 and a2 at 90,000, so the wide job could be planned for 5400 on a1
    # and a3. A job on b1 that is expected to end within the half minute behind lets Slurm count a2
    # as free too: the plan is for 90,000 on a1 and a2, and the small job gets a3 at the next look.
    jobs = [
        job(1, 0, 90),
        job(2, 0, 1500),
        job(3, 15, other_minutes, feature="b"),
        job(4, 30, 60, nodes=2),
        job(5, 40, 1200),
    ]
    starts = simulated_starts(jobs, MACHINE, NO_DELAYS)
    assert starts[:3].tolist() == [0.0, 0.0, 15.0]
    assert starts[3] == 3600.0  # both ended early
    assert starts[4] == small_starts


def test_what_a_pass_starts_makes_another_pass() -> None:
    # As above, but the job on b1 is started by the pass at 60 s, behind the small one: only the
    # next pass finds the plan of the wide job late, and nothing else happens until then.
    jobs = [
        job(1, 0, 90),
        job(2, 0, 1500),
        job(3, 15, 60, nodes=2),
        job(4, 20, 1200),
        job(5, 40, 90, feature="b"),
    ]
    starts = simulated_starts(jobs, MACHINE, NO_DELAYS)
    assert starts.tolist() == [0.0, 0.0, 3600.0, 90.0, 60.0]


#: A job that waits gains ten points a second, and one of four CPUs has 450 more than one of one.
MACHINE_AGE = Machine(
    kinds=(NodeKind(name="a1", count=1, resources=(4.0, 4000.0, 0.0)),),
    partitions=(MachinePartition(name="all", kinds=(0,), is_default=True),),
    weights=PriorityWeights(age=1000.0, highest_age=100.0, size=1200.0, period=60.0),
)


def job_age(number: int, submit: int, tasks: int, seconds: int) -> dict[str, Any]:
    """A job of the only node."""
    more = {"seconds": float(seconds), "tasks": tasks, "exclusive": False}
    return job(number, submit, 120, feature="", **more)


@pytest.mark.parametrize(("first", "small", "large"), [(0.0, 100.0, 3700.0), (50.0, 3700.0, 100.0)])
def test_age_counts_to_the_last_calculation(first: float, small: float, large: float) -> None:
    # At 100 s the last calculation was at 60, when the small job had waited for 50 s, or at 50.
    jobs = [job_age(1, 0, 4, 100), job_age(2, 10, 1, 3600), job_age(3, 70, 4, 3600)]
    delays = Delays(notice=0.0, handover=0.0, calculated=first, looks=1)
    assert simulated_starts(jobs, MACHINE_AGE, delays).tolist() == [0.0, small, large]
    ageless = replace(MACHINE_AGE, weights=replace(MACHINE_AGE.weights, age=0.0))
    assert simulated_starts(jobs, ageless, delays).tolist() == [0.0, 3700.0, 100.0]
