"""What several tests of this folder take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assets.record_slurm_answers import ASSETS
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


@pytest.fixture(params=sorted(ASSETS.iterdir()), ids=lambda path: path.name)
def answers(request: pytest.FixtureRequest) -> Path:
    """Recorded answers of a release of Slurm."""
    path: Path = request.param
    return path
