"""Jobs that Slurm shows by a flag in place of PENDING or RUNNING: they wait or run all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm

pytestmark = pytest.mark.real


def test_a_job_whose_reservation_has_ended_is_ordered_and_keeps_no_factor(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    cluster.scontrol(
        *("create", "reservation=gone", "starttime=now", "duration=60"),
        *("users=alice", "nodes=n2"),
    )
    inside = cluster.submit("--reservation=gone", user="alice", account="physics", processors=4)
    plain = cluster.submit(user="bob", account="biology", processors=4)
    cluster.scontrol("update", "reservation=gone", "endtime=now+2")
    cluster.wait_until(
        lambda: cluster.state_of(inside) == "RESV_DEL_HOLD",
        120,
        "slurmctld to end the reservation",
    )
    policy = DrawnOrder(seed=4, scores={inside: 9.0, plain: 1.0})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    cluster.wait_eligible((plain,))
    assert cycle.run().succeeded
    assert cluster.site_factors().get(inside, 0) == 0  # it is held
    cluster.scontrol("release", str(inside))
    cluster.wait_eligible((inside, plain))
    assert cluster.state_of(inside) == "RESV_DEL_HOLD"  # and yet it may start
    for score in (9.0, 0.0):
        policy.scores[inside] = score
        cycle.run()
        jobs = sorted((inside, plain), key=lambda job: -policy.scores[job])
        assert cluster.by_priority() == jobs
    policy.scores[inside] = 9.0
    cycle.run()
    assert cluster.site_factors()[inside] > 0
    cycle.release()
    assert cluster.site_factors() == {inside: 0, plain: 0}
    cluster.set_partition("up")
    cluster.wait_state(inside, "RUNNING")


def test_a_stopped_job_occupies_its_processors(closed_slurm: PrivateSlurm) -> None:
    cluster = closed_slurm
    cluster.set_partition("up")
    job = cluster.submit(user="alice", account="physics", processors=4, seconds=60)
    cluster.wait_state(job, "RUNNING")
    cluster.run("scancel", "--signal=STOP", str(job))
    cluster.wait_state(job, "STOPPED")
    running = adapter_of(cluster).snapshot().running
    assert running.jobs.job_id.tolist() == [job]
    assert running.jobs.processors.tolist() == [4]
