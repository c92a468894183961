"""What can be known from a broken configuration and a state file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.configuration import (
    Flag,
    KnownConfiguration,
    known_configuration,
    rollback_values,
)
from slurm_rl_plugin.configuration.files import readable_lines
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from tests.unit.configuration.given_content import configuration_of

LEFT = rollback_values(
    configuration_of(
        {
            "hook": {"disable_file": "/left/DISABLE", "beside_controllers": True, "cycle": 7.0},
            "batch_system": {"adapter": "slurm_commands", "timeout": 3.5},
            "reserve": {"mechanism": "qos", "qos": "batch", "most_processors": 9},
        }
    )
)


def known_of(
    path: Path, left: Mapping[str, Any] = LEFT, *flags: str, **environment: str
) -> tuple[KnownConfiguration, list[str]]:
    """What is known, and the state files that were looked at."""
    asked: list[str] = []

    def left_behind(state: StateFile) -> Mapping[str, Any]:
        asked.append(str(state.path))
        return left

    words = [Flag(flag, f"--set {flag}") for flag in flags]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateFile, "left_behind", left_behind)
        return known_configuration(path, environment=environment, flags=words), asked


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "known.toml"


def test_a_whole_configuration_asks_nobody_else(path: Path) -> None:
    path.write_text('[hook]\nstate_file = "/s/state.json"\n')
    known, asked = known_of(path)
    assert (known.is_read, known.faults, asked) == (True, (), [])
    assert known.beside_controllers is False
    assert known.configuration.values["batch_system"]["adapter"] == "auto"


def test_of_a_faulty_one_what_is_right_goes_before_what_was_left(path: Path) -> None:
    path.write_text('[hook]\nstate_file = "/s/state.json"\n[batch_system]\nadapter = "cron"\n')
    path.write_text(path.read_text() + "timeout = 8.0\n")
    known, asked = known_of(path)
    assert (known.is_read, asked) == (True, ["/s/state.json"])
    assert len(known.faults) == 1
    assert known.configuration.values["batch_system"]["adapter"] == "slurm_commands"
    assert known.configuration.values["batch_system"]["timeout"] == 8.0
    assert known.beside_controllers is True


def test_one_that_cannot_be_read_is_told_by_the_state_file(path: Path) -> None:
    path.write_text('[hook\nstate_file = "/s/state.json"\ndisable_file = "/s/DISABLE"\n')
    known, asked = known_of(path)
    assert (known.is_read, asked) == (False, ["/s/state.json"])
    assert str(known.state_file) == "/s/state.json"
    assert str(known.configuration.disable_file) == "/s/DISABLE"
    assert known.configuration.reserve is not None
    assert known.configuration.values["hook"]["cycle"] == 7.0


def test_without_anything_left_the_lines_that_stand_count(path: Path) -> None:
    path.write_text('[hook\nstate_file = "/s/state.json\ndisable_file = "/s/DISABLE"\n')
    known, _ = known_of(path, {})
    assert str(known.state_file) == "/s/state.json"
    assert str(known.configuration.disable_file) == "/s/DISABLE"
    assert known.beside_controllers is None


def test_environment_and_flags_go_before_all(path: Path) -> None:
    path.write_text('[hook\nstate_file = "/s/state.json"\n')
    assert known_of(path, LEFT, SLURM_RL_HOOK_STATE_FILE="/e/state.json")[1] == ["/e/state.json"]
    flag = "hook.state_file=/f/state.json"
    assert known_of(path, LEFT, flag, SLURM_RL_HOOK_STATE_FILE="/e/s")[1] == ["/f/state.json"]
    with pytest.raises(ConfigurationError, match="is not a key"):
        known_of(path, LEFT, "hook.state=/f")


def test_a_configuration_that_is_not_there_is_told_by_the_default_file(path: Path) -> None:
    known, asked = known_of(path)
    assert asked == ["/var/lib/slurm-rl/state.json"]
    assert "does not exist" in known.faults[0]


def test_the_daemons_account_chooses_no_path_that_root_writes_to(path: Path) -> None:
    path.write_text("[hook\n")
    left = {
        "hook": {"disable_file": "/etc/passwd", "state_file": "/etc/shadow"},
        "policy": {"model": "/tmp/evil.onnx"},
    }
    values = known_of(path, left)[0].configuration.values
    assert values["hook"]["disable_file"] == "/etc/slurm-rl/DISABLE"
    assert values["hook"]["state_file"] == "/var/lib/slurm-rl/state.json"
    assert values["policy"]["model"] == "default"


@pytest.mark.parametrize("left", [{"hook": 3}, {"batch_system": {"timeout": "soon"}}, {"x": {}}])
def test_what_was_left_and_is_no_value_is_the_default(path: Path, left: dict[str, Any]) -> None:
    path.write_text("[hook\n")
    assert known_of(path, left)[0].configuration.values["batch_system"]["timeout"] == 10.0


def test_lines_stand_by_themselves(path: Path) -> None:
    (path.parent / "conf.d").mkdir()
    (path.parent / "conf.d" / "more.toml").write_text('state_file = "/d/state.json"\n')
    path.write_bytes(
        b'[hook\n# state_file = "/no"\n\xff\nstate_file = "/s"\nmode = "activ"\n'
        b"port = 3\nbeside_controllers = true\nadapter = 'pbs' # words\nfairness = 0.9\n"
    )
    assert readable_lines(path, ("hook", "batch_system", "metrics")) == {
        "hook": {"state_file": "/d/state.json", "beside_controllers": True},
        "batch_system": {"adapter": "pbs"},
    }
