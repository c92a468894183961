"""A removed key or section: one warning, whatever source gives it, and no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.configuration import Flag, read_configuration
from slurm_rl_plugin.configuration.key import REMOVED
from slurm_rl_plugin.errors import ConfigurationError


@pytest.fixture(autouse=True)
def removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REMOVED, "attic", "held old things and is gone: delete it.")
    monkeypatch.setitem(REMOVED, "hook.lamp", "lit the stairs and is gone: delete it.")


def test_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text("[hook]\ncycle = 5\nlamp = true\n\n[attic]\nbox = 'any'\n")
    found = read_configuration(path)
    assert found.values["hook"]["cycle"] == 5
    assert found.warnings == (
        f"{path}:3: [hook] lamp lit the stairs and is gone: delete it.",
        f"{path}:5: [attic] held old things and is gone: delete it.",
    )


def test_in_the_environment_and_on_the_command_line() -> None:
    found = read_configuration(
        None,
        environment={"SLURM_RL_HOOK_LAMP": "1", "SLURM_RL_ATTIC_BOX": "any"},
        flags=[Flag("attic.box=any", "--set attic.box=any"), Flag("hook.lamp=1", "--set lamp")],
    )
    assert found.warnings == (
        "SLURM_RL_ATTIC_BOX: [attic] held old things and is gone: delete it.",
        "SLURM_RL_HOOK_LAMP: [hook] lamp lit the stairs and is gone: delete it.",
        "--set attic.box=any: [attic] box held old things and is gone: delete it.",
        "--set lamp: [hook] lamp lit the stairs and is gone: delete it.",
    )


def test_a_neighbour_with_a_slip_is_still_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text("[hook]\nlamps = true\n")
    with pytest.raises(ConfigurationError, match="lamps is unknown"):
        read_configuration(path)
