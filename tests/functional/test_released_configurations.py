"""A configuration of an earlier release is valid, and its values mean what they meant."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main

#: Every key of each release, many with another value than the default.
RELEASED = sorted((Path(__file__).parents[1] / "assets/configuration").glob("*.toml"))


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_every_key_of_a_release_is_known_and_kept(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show-config", "--config", str(path), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    in_force = json.loads(printed.out)
    for section, keys in tomllib.loads(path.read_text()).items():
        assert keys.items() <= in_force[section].items()
