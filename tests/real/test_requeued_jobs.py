"""Jobs that are requeued, or requeued and held: ordered once they may start, never before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_rl_plugin.hook.cycle.cycle import Cycle
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm

pytestmark = pytest.mark.real


def written(folder: Path) -> list[int]:
    """Jobs that were written, by the audit log."""
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [line["job"] for line in map(json.loads, lines) if line["event"] == "write"]


def run_one_of_three(
    cluster: PrivateSlurm, folder: Path
) -> tuple[tuple[int, int, int], DrawnOrder, Cycle]:
    """Three jobs that need the whole cluster, ordered; the first one runs with its factor."""
    jobs = tuple(cluster.submit(user="alice", account="physics", processors=8) for _ in range(3))
    first, second, third = jobs
    cluster.wait_eligible(jobs)
    policy = DrawnOrder(seed=0, scores={first: 1.0, second: 3.0, third: 2.0})
    cycle = cycle_of(adapter_of(cluster), policy, folder)
    assert cycle.run().writes > 0
    assert cluster.site_factors()[second] > 0
    cluster.set_partition("up")
    cluster.wait_state(second, "RUNNING")
    cluster.set_partition("down")
    assert cycle.run().succeeded
    return (second, first, third), policy, cycle


def check_ordered_again(
    cluster: PrivateSlurm, jobs: tuple[int, int, int], policy: DrawnOrder, cycle: Cycle
) -> None:
    """The first of the jobs goes where its score puts it, and a release leaves no factor."""
    cluster.scontrol("update", f"jobid={jobs[0]}", "starttime=now")  # Slurm delays requeued jobs
    cluster.wait_eligible(jobs)
    for score in (0.0, 9.0):
        policy.scores[jobs[0]] = score
        assert cycle.run().writes > 0
        assert cluster.by_priority() == sorted(jobs, key=lambda job: -policy.scores[job])
    cycle.release()
    assert cluster.site_factors() == dict.fromkeys(jobs, 0)


def test_a_requeued_job_is_left_alone_until_it_may_start(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    jobs, policy, cycle = run_one_of_three(cluster, tmp_path)
    before = written(tmp_path)
    cluster.scontrol("requeue", str(jobs[0]))
    cluster.wait_state(jobs[0], "PENDING", 60)
    policy.sign = -1
    report = cycle.run()
    assert report.suppressed["not_eligible"] == 1
    assert jobs[0] not in written(tmp_path)[len(before) :]
    policy.sign = 1
    check_ordered_again(cluster, jobs, policy, cycle)


def test_a_job_requeued_and_held_stays_so(closed_slurm: PrivateSlurm, tmp_path: Path) -> None:
    cluster = closed_slurm
    jobs, policy, cycle = run_one_of_three(cluster, tmp_path)
    before = written(tmp_path)
    cluster.scontrol("requeuehold", str(jobs[0]))
    cluster.wait_state(jobs[0], "PENDING", 60)

    def shown() -> str:
        return cluster.run("squeue", "-h", "-j", str(jobs[0]), "-o", "%Q %r").stdout.strip()

    held = shown()
    assert held.startswith("0 ")
    for policy.sign in (-1, 1, -1):
        assert cycle.run().suppressed["held"] == 1
    assert shown() == held
    assert jobs[0] not in written(tmp_path)[len(before) :]
    policy.sign = 1
    cluster.scontrol("release", str(jobs[0]))
    check_ordered_again(cluster, jobs, policy, cycle)
