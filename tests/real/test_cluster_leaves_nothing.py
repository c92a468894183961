"""A private cluster that is stopped in the middle of its work leaves no process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import running_slurm, skip_without_daemons
from tests.real.private_cluster import ClusterPlan
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real


def users_of(folder: str) -> Iterator[str]:
    """Programs with an open file in a folder of this name."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            files = [each.readlink() for each in process.joinpath("fd").iterdir()]
            if any(folder in path.parts for path in files):
                yield process.joinpath("comm").read_text().strip()


def test_no_process_outlives_a_cluster_with_running_jobs(release: SlurmRelease | None) -> None:
    skip_without_daemons(release)
    with running_slurm(ClusterPlan(nodes=1), release) as cluster:
        for _ in range(2):
            cluster.submit()
        running = ("squeue", "-h", "-t", "R", "-o", "%i")
        cluster.wait_until(lambda: len(cluster.run(*running).stdout.split()) == 2, 20, "2 jobs")
        folder = cluster.directory.name
        assert {"slurmctld", "slurmd"} <= set(users_of(folder))
    assert list(users_of(folder)) == []
