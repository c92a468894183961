"""Verbs as somebody types them, on the site that a test module prepares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.generated import write_files
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with manual pages and completion, as the Debian package brings them."""
    folder = tmp_path_factory.mktemp("pages")
    write_files(folder, "2026-11-21")
    return folder


@pytest.fixture
def words(
    site: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a verb: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([*arguments, "--config", "site.toml"])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a verb without a configuration: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as stop:  # of the parser
            status = int(stop.code or 0)
        said = capsys.readouterr()
        return status, said.out, said.err

    return run
