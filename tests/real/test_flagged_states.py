"""Jobs that Slurm shows by a flag in place of PENDING or RUNNING: they wait or run all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_first_light import site_factors
from tests.real.test_slurm_commands_real import scontrol, wait_eligible, wait_state

pytestmark = pytest.mark.real


def state_of(cluster: PrivateSlurm, job: int) -> str:
    return cluster.run("squeue", "-h", "-j", str(job), "-o", "%T").stdout.strip()


def by_priority(cluster: PrivateSlurm) -> list[int]:
    words = ("squeue", "-h", "--states", "PD,RD", "--sort=-p", "-o", "%A")
    return [int(job) for job in cluster.run(*words).stdout.split()]


def test_a_job_whose_reservation_has_ended_is_ordered_and_keeps_no_factor(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    scontrol(
        cluster,
        *("create", "reservation=gone", "starttime=now", "duration=60"),
        *("users=alice", "nodes=n2"),
    )
    inside = cluster.submit("--reservation=gone", user="alice", account="physics", processors=4)
    plain = cluster.submit(user="bob", account="biology", processors=4)
    scontrol(cluster, "update", "reservation=gone", "endtime=now+2")
    cluster.wait_until(
        lambda: state_of(cluster, inside) == "RESV_DEL_HOLD",
        120,
        "slurmctld to end the reservation",
    )
    policy = DrawnOrder(seed=4, scores={inside: 9.0, plain: 1.0})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    wait_eligible(cluster, (plain,))
    assert cycle.run().succeeded
    assert site_factors(cluster).get(inside, 0) == 0  # it is held
    scontrol(cluster, "release", str(inside))
    wait_eligible(cluster, (inside, plain))
    assert state_of(cluster, inside) == "RESV_DEL_HOLD"  # and yet it may start
    for score in (9.0, 0.0):
        policy.scores[inside] = score
        cycle.run()
        jobs = sorted((inside, plain), key=lambda job: -policy.scores[job])
        assert by_priority(cluster) == jobs
    policy.scores[inside] = 9.0
    cycle.run()
    assert site_factors(cluster)[inside] > 0
    cycle.release()
    assert site_factors(cluster) == {inside: 0, plain: 0}
    scontrol(cluster, "update", "partition=batch", "state=up")
    wait_state(cluster, inside, "RUNNING")


def test_a_stopped_job_occupies_its_processors(closed_slurm: PrivateSlurm) -> None:
    cluster = closed_slurm
    scontrol(cluster, "update", "partition=batch", "state=up")
    job = cluster.submit(user="alice", account="physics", processors=4, seconds=60)
    wait_state(cluster, job, "RUNNING")
    cluster.run("scancel", "--signal=STOP", str(job))
    wait_state(cluster, job, "STOPPED")
    running = adapter_of(cluster).snapshot().running
    assert running.jobs.job_id.tolist() == [job]
    assert running.jobs.processors.tolist() == [4]
