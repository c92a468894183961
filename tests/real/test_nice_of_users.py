"""The users' own nice values: kept as they are, and what orders the jobs once we are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.run_order import run_order
from tests.real.test_slurm_commands_real import scontrol, wait_eligible

pytestmark = pytest.mark.real

NICE = (0, 3000, -2000, 900, 6000, -50)


@pytest.mark.parametrize("released", [True, False], ids=["released", "ordered"])
def test_nice_orders_the_starts_where_we_do_not(
    closed_slurm: PrivateSlurm, tmp_path: Path, released: bool
) -> None:
    cluster = closed_slurm
    asked = {
        cluster.submit(
            f"--nice={nice}", user="alice", account="physics", processors=8, seconds=0.3
        ): nice
        for nice in NICE
    }
    wait_eligible(cluster, tuple(asked))
    policy = DrawnOrder(seed=1)
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    for policy.sign in (1, -1):
        assert cycle.run().writes > 0
    if released:
        cycle.release()
    shown = cluster.run("squeue", "-h", "-O", "JobID:|,Nice:").stdout.split()
    assert {int(job): int(nice) for job, nice in (line.split("|") for line in shown)} == asked
    scontrol(cluster, "update", "partition=batch", "state=up")
    cluster.wait_until(lambda: not cluster.run("squeue", "-h").stdout, 90, "all jobs done")
    order = run_order(cluster, asked)
    by_nice = sorted(asked, key=lambda job: asked[job])
    decided = sorted(asked, key=lambda job: -policy.score(job))
    assert by_nice != decided
    assert order == (by_nice if released else decided)
