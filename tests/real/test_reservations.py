"""Reservations: a job starts in its own, and a later one blocks only what Slurm blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm

pytestmark = pytest.mark.real

Reserve = Callable[..., None]


@pytest.fixture
def reserve(closed_slurm: PrivateSlurm) -> Iterator[Reserve]:
    """Makes a reservation with these words of scontrol; all are gone after the test."""
    names = []

    def make(name: str, *words: str) -> None:
        closed_slurm.scontrol("create", f"reservation={name}", "duration=60", *words)
        names.append(name)

    yield make
    closed_slurm.cancel("alice", "bob")
    closed_slurm.wait_empty(30)
    for name in names:
        closed_slurm.run("scontrol", "delete", f"reservation={name}", check=False)


def open_partition(cluster: PrivateSlurm) -> None:
    cluster.set_partition("up")


def node_of(cluster: PrivateSlurm, job: int) -> str:
    return cluster.run("squeue", "-h", "-j", str(job), "-o", "%N").stdout.strip()


def waiting(cluster: PrivateSlurm) -> set[int]:
    return {int(job) for job in cluster.run("squeue", "-h", "-t", "PD", "-o", "%A").stdout.split()}


def test_a_job_starts_in_its_reservation_though_it_is_the_last_of_our_order(
    closed_slurm: PrivateSlurm, reserve: Reserve, tmp_path: Path
) -> None:
    cluster = closed_slurm
    reserve("mine", "starttime=now", "users=alice", "nodes=n2")
    plain = [cluster.submit(user="bob", processors=4, seconds=2) for _ in range(4)]
    inside = cluster.submit("--reservation=mine", user="alice", processors=4)
    cluster.wait_eligible((*plain, inside))
    policy = DrawnOrder(seed=4, scores={inside: -1.0})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    assert cycle.run().writes > 0
    cluster.set_partition("up")
    cluster.wait_state(inside, "RUNNING")
    assert node_of(cluster, inside) == "n2"
    assert waiting(cluster) & set(plain)  # others of a higher priority wait still
    assert cycle.run().succeeded
    cycle.release()
    assert set(cluster.site_factors().values()) <= {0}
    cluster.wait_until(lambda: len(cluster.run_order(plain)) == 4, 60, "the others on n1")


def test_a_reservation_to_come_is_kept_and_stops_no_other_job(
    closed_slurm: PrivateSlurm, reserve: Reserve, tmp_path: Path
) -> None:
    cluster = closed_slurm
    reserve("later", "starttime=now+12", "users=alice", "nodes=n2")
    inside = cluster.submit("--reservation=later", user="alice", processors=4)
    plain = [cluster.submit(user="bob", processors=4, seconds=1) for _ in range(3)]
    cluster.wait_eligible(tuple(plain))
    scores = {job: float(number) for number, job in enumerate(plain)}
    policy = DrawnOrder(seed=4, scores={**scores, inside: 9.0})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    assert cycle.run().writes > 0
    cluster.set_partition("up")
    cluster.wait_until(lambda: bool(cluster.run_order(plain)), 60, "another on n1")
    assert inside in waiting(cluster)
    cluster.wait_state(inside, "RUNNING", 60)
    assert node_of(cluster, inside) == "n2"
    cluster.wait_until(lambda: len(cluster.run_order(plain)) == 3, 60, "the others on n1")
    assert cluster.run_order(plain) == sorted(plain, key=lambda job: -policy.score(job))


def test_maintenance_to_come_keeps_long_jobs_waiting_and_lets_short_ones_pass(
    closed_slurm: PrivateSlurm, reserve: Reserve, tmp_path: Path
) -> None:
    cluster = closed_slurm
    flags = ("users=root", "nodes=ALL", "flags=maint,ignore_jobs")
    reserve("maintenance", "starttime=now+4minutes", *flags)

    def submit(minutes: float, seconds: float) -> int:
        return cluster.submit(user="alice", processors=8, minutes=minutes, seconds=seconds)

    long = [submit(30, 300) for _ in range(2)]
    short = [submit(1, 0.3) for _ in range(4)]
    cluster.wait_eligible((*long, *short))
    policy = DrawnOrder(seed=6, scores={long[0]: 3.0, long[1]: 2.0})  # they would go first
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    assert cycle.run().writes > 0
    assert cluster.site_factors()[long[0]] > 0
    cluster.set_partition("up")
    cluster.wait_until(lambda: len(cluster.run_order(short)) == 4, 90, "short jobs")
    assert cluster.run_order(short) == sorted(short, key=lambda job: -policy.score(job))
    assert cycle.run().succeeded
    assert waiting(cluster) == set(long)
    cycle.release()
    assert cluster.site_factors() == dict.fromkeys(long, 0)
    cluster.scontrol("delete", "reservation=maintenance")
    cluster.wait_until(lambda: len(waiting(cluster)) == 1, 60, "a long job started")
