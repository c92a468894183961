"""A configuration of an earlier release is valid: kept keys mean what they meant, others warn."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.configuration.key import removal_of

#: Every key of each release, many with another value than the default.
RELEASED = sorted((Path(__file__).parents[1] / "assets/configuration").glob("*.toml"))


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_every_key_of_a_release_is_kept_or_told_to_be_gone(
    path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["show-config", "--config", str(path), "--json"]) == 0
    in_force = json.loads(capsys.readouterr().out)
    warnings = []
    for section, keys in tomllib.loads(path.read_text()).items():
        if gone := removal_of(section):
            warnings.append(f"[{section}] {gone}")
            continue
        kept = {name: value for name, value in keys.items() if not removal_of(section, name)}
        assert kept.items() <= in_force[section].items()
        warnings += [
            f"[{section}] {name} {removal_of(section, name)}" for name in keys - kept.keys()
        ]
    told = caplog.messages
    assert len(told) == len(warnings)
    for warning in warnings:
        assert any(line.endswith(warning) for line in told)
