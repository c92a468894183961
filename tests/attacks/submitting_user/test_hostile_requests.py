"""Types of GPUs whose names mean harm: Slurm takes any, a bar among it (run on 22.05 to 26.05)."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from tests.fakes.fake_cluster import FakeCluster
from tests.unit.batch_systems.test_slurm_requests import COUNTED, GPU_NODES


@pytest.mark.parametrize("odd", ["gres/gpu:a|b:1", "gres/gpu:1\nnot|a|record|", "|" * 50])
def test_separators_in_what_a_user_asks_for_break_no_look(tmp_path: Path, odd: str) -> None:
    """They shift nothing but that job's own request and name, which Slurm's fields end with."""
    cluster = FakeCluster(tmp_path)
    cluster.set(nodes=GPU_NODES, settings=COUNTED)
    cluster.add(11, asks="cpu=1,mem=4G,node=1,gres/gpu=2", per_task=odd)
    cluster.add(12, asks="cpu=1,mem=1G,node=1")
    jobs = SlurmCommands(cluster.adapter_settings(timeout=5.0)).snapshot().pending.jobs
    assert jobs.requests is not None
    told = dict(zip(jobs.job_id.tolist(), jobs.requests.total[:, 1:3].tolist(), strict=True))
    assert told == {11: [4096.0, 2.0], 12: [1024.0, 0.0]}
