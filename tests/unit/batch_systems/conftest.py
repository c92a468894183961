"""The cluster that most tests of this folder describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)
