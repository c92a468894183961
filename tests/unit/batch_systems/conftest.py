"""The clusters that tests of this folder describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_pbs_cluster import fake_libpbs


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_libpbs(tmp_path_factory.mktemp("libpbs"))
