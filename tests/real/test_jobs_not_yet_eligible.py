"""Jobs that depend on others or begin later: no factor before they may start, a place after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_requeued_jobs import written

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
    cluster.wait_eligible((parent, *plain))
    policy = DrawnOrder(seed=9, scores={parent: 9.0, after: 8.0, later: 0.5})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    for policy.sign in (-1, 1):
        report = cycle.run()
        assert report.suppressed["not_eligible"] == 2
    assert {after, later}.isdisjoint(written(tmp_path))
    cluster.set_partition("up")
    cluster.wait_state(parent, "RUNNING")
    cluster.set_partition("down")
    cluster.wait_eligible((after,))
    cluster.wait_until(lambda: later in cluster.site_factors(), 30, "the begin time")
    sites = cluster.site_factors()
    assert (sites[after], sites[later]) == (0, 0)  # as Slurm shows it, whatever our log says
    assert cycle.run().writes > 0
    jobs = (after, later, *plain)
    assert cluster.by_priority() == sorted(jobs, key=lambda job: -policy.score(job))
    cycle.release()
    assert cluster.site_factors() == dict.fromkeys(jobs, 0)


def test_a_dependency_that_can_never_be_met_is_left_alone(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    parent = cluster.submit(user="alice", account="physics")
    after = cluster.submit(f"--dependency=afterok:{parent}", user="alice", account="physics")
    plain = [cluster.submit(user="bob", account="biology") for _ in range(2)]
    cluster.wait_eligible((parent, *plain))
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
