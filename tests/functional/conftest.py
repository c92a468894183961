"""Commands as a user types them, on the site that a test module prepares."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.cli.generated import write_files
from tests.fakes.fake_pbs_cluster import FakePbs
from tests.functional.fake_site import FakeSite
from tests.functional.typed import Typed


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with manual pages and completion, as the Debian package brings them."""
    folder = tmp_path_factory.mktemp("pages")
    write_files(folder, "2026-11-21")
    return folder


@pytest.fixture
def empty_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> FakeSite:
    """A fake Slurm without jobs, to which a module adds its own."""
    return FakeSite(tmp_path, monkeypatch, capsys)


@pytest.fixture
def words(site: FakePbs, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs a verb at the site of the test module."""
    return Typed(capsys, after=("--config", "site.toml"))
