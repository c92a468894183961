"""Verbs as somebody types them, on the site that a test module prepares."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm_rl_plugin.cli.entry import main
from tests.fakes.fake_cluster import FakeCluster


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
