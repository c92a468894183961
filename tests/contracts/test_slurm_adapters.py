"""Both adapters for Slurm under the contract that every adapter keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.contracts.batch_system_contract import BatchSystemContract, PreparedQueue
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.fakes.pyslurm_cluster import PyslurmCluster


def prepared(cluster: FakeCluster) -> PreparedQueue:
    """Jobs 11 to 14 wait, 15 is held, 16 runs."""

    waiting = tuple(cluster.add(job_id) for job_id in (11, 12, 13))
    cluster.add(14, account="biology", user="bob", nice=50)
    held = cluster.add(15, reason="JobHeldUser", eligible=None)
    cluster.add(16, state="RUNNING", start=NOW - 50, nodes="n1")
    return PreparedQueue(
        system=cluster.adapter(history_days=30.0),
        waiting=waiting,
        held=held,
        start=cluster.run_job,
        start_untold=lambda job: cluster.change(job, state="RUNNING", reason="None", nodes="n1"),
        end=cluster.end_job,
        another=cluster.adapter,
    )


class TestByCommands(BatchSystemContract):
    @pytest.fixture
    def queue(self, tmp_path: Path) -> PreparedQueue:
        return prepared(FakeCluster(tmp_path))


class TestByPyslurm(BatchSystemContract):
    @pytest.fixture
    def queue(self, tmp_path: Path) -> PreparedQueue:
        cluster = PyslurmCluster(tmp_path)
        cluster.break_command("squeue", "down")  # it is not asked
        return prepared(cluster)

    def test_pyslurm_is_never_imported_here(self, queue: PreparedQueue) -> None:
        queue.system.snapshot()
        assert not [name for name in sys.modules if name.partition(".")[0] == "pyslurm"]
