"""Jobs that depend on others or begin later: no factor before they may start, a place after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_first_light import site_factors
from tests.real.test_operator_commands import by_priority
from tests.real.test_requeued_jobs import written
from tests.real.test_slurm_commands_real import scontrol, wait_eligible, wait_state

pytestmark = pytest.mark.real


def test_they_get_no_factor_before_and_their_place_afterwards(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm

    def submit(*options: str, seconds: float = 300) -> int:
        return cluster.submit(
            *options, user="alice", account="physics", processors=8, seconds=seconds
        )

    parent = submit(seconds=1)
    after = submit(f"--dependency=afterok:{parent}")
    later = submit("--begin=now+15")
    plain = [submit() for _ in range(3)]
    wait_eligible(cluster, (parent, *plain))
    policy = DrawnOrder(seed=9, scores={parent: 9.0, after: 8.0, later: 0.5})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    for policy.sign in (-1, 1):
        report = cycle.run()
        assert report.suppressed["not_eligible"] == 2
    assert {after, later}.isdisjoint(written(tmp_path))
    scontrol(cluster, "update", "partition=batch", "state=up")
    wait_state(cluster, parent, "RUNNING")
    scontrol(cluster, "update", "partition=batch", "state=down")
    wait_eligible(cluster, (after,))
    cluster.wait_until(lambda: later in site_factors(cluster), 30, "the begin time")
    sites = site_factors(cluster)
    assert (sites[after], sites[later]) == (0, 0)  # as Slurm shows it, whatever our log says
    assert cycle.run().writes > 0
    jobs = (after, later, *plain)
    assert by_priority(cluster) == sorted(jobs, key=lambda job: -policy.score(job))
    cycle.release()
    assert site_factors(cluster) == dict.fromkeys(jobs, 0)


def test_a_dependency_that_can_never_be_met_is_left_alone(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    parent = cluster.submit(user="alice", account="physics")
    after = cluster.submit(f"--dependency=afterok:{parent}", user="alice", account="physics")
    plain = [cluster.submit(user="bob", account="biology") for _ in range(2)]
    wait_eligible(cluster, (parent, *plain))
    cluster.run("scancel", str(parent))
    cluster.wait_until(
        lambda: "DependencyNeverSatisfied" in cluster.run("squeue", "-h", "-o", "%r").stdout,
        30,
        "a dependency that cannot be met",
    )
    cycle = cycle_of(adapter_of(cluster), policy := DrawnOrder(seed=3), tmp_path)
    for policy.sign in (1, -1):
        report = cycle.run()
        assert report.succeeded
        assert report.suppressed["not_eligible"] == 1
    assert after not in written(tmp_path)
