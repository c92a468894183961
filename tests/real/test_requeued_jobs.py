"""Jobs that are requeued, or requeued and held: ordered once they may start, never before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_rl_plugin.hook.cycle.cycle import Cycle
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_first_light import site_factors
from tests.real.test_operator_commands import by_priority
from tests.real.test_slurm_commands_real import scontrol, wait_eligible, wait_state

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
    wait_eligible(cluster, jobs)
    policy = DrawnOrder(seed=0, scores={first: 1.0, second: 3.0, third: 2.0})
    cycle = cycle_of(adapter_of(cluster), policy, folder)
    assert cycle.run().writes > 0
    assert site_factors(cluster)[second] > 0
    scontrol(cluster, "update", "partition=batch", "state=up")
    wait_state(cluster, second, "RUNNING")
    scontrol(cluster, "update", "partition=batch", "state=down")
    assert cycle.run().succeeded
    return (second, first, third), policy, cycle


def check_ordered_again(
    cluster: PrivateSlurm, jobs: tuple[int, int, int], policy: DrawnOrder, cycle: Cycle
) -> None:
    """The first of the jobs goes where its score puts it, and a release leaves no factor."""
    scontrol(cluster, "update", f"jobid={jobs[0]}", "starttime=now")  # Slurm delays requeued jobs
    wait_eligible(cluster, jobs)
    for score in (0.0, 9.0):
        policy.scores[jobs[0]] = score
        assert cycle.run().writes > 0
        assert by_priority(cluster) == sorted(jobs, key=lambda job: -policy.scores[job])
    cycle.release()
    assert site_factors(cluster) == dict.fromkeys(jobs, 0)


def test_a_requeued_job_is_left_alone_until_it_may_start(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    jobs, policy, cycle = run_one_of_three(cluster, tmp_path)
    before = written(tmp_path)
    scontrol(cluster, "requeue", str(jobs[0]))
    wait_state(cluster, jobs[0], "PENDING", 60)
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
    scontrol(cluster, "requeuehold", str(jobs[0]))
    wait_state(cluster, jobs[0], "PENDING", 60)

    def shown() -> str:
        return cluster.run("squeue", "-h", "-j", str(jobs[0]), "-o", "%Q %r").stdout.strip()

    held = shown()
    assert held.startswith("0 ")
    for policy.sign in (-1, 1, -1):
        assert cycle.run().suppressed["held"] == 1
    assert shown() == held
    assert jobs[0] not in written(tmp_path)[len(before) :]
    policy.sign = 1
    scontrol(cluster, "release", str(jobs[0]))
    check_ordered_again(cluster, jobs, policy, cycle)
