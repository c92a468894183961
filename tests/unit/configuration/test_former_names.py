"""A key that was renamed: its old name works in every source, with a warning that says the new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin import configuration
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.configuration import Configuration, Flag, Key, read_configuration
from slurm_rl_plugin.errors import ConfigurationError

KEYS = {
    "hook": {
        "cycle": Key(
            kind=float,
            default=30.0,
            least=0.1,
            meaning="seconds",
            former_names=("hook.period", "daemon.interval"),
        ),
        "mode": Key(kind=str, default="shadow", meaning="mode"),
    }
}


def read(folder: Path, text: str, *flags: str, **environment: str) -> Configuration:
    path = folder / "site.toml"
    path.write_text(text)
    given = [Flag(each, f"--set {each}") for each in flags]
    return read_configuration(path, environment=environment, flags=given, keys=KEYS)


def test_an_old_name_of_the_same_section(tmp_path: Path) -> None:
    found = read(tmp_path, "[hook]\nmode = 'x'\nperiod = 5\n")
    assert found.values["hook"] == {"cycle": 5, "mode": "x"}
    assert found.origins["hook"]["cycle"] == f"{tmp_path}/site.toml:3"
    assert found.warnings == (
        f"{tmp_path}/site.toml:3: [hook] period is now called [hook] cycle: rename it.",
    )


def test_an_old_name_of_a_section_that_is_gone(tmp_path: Path) -> None:
    found = read(tmp_path, "[daemon]\ninterval = 5\n")
    assert found.values["hook"]["cycle"] == 5
    assert len(found.warnings) == 1


def test_an_old_name_in_the_environment_and_on_the_command_line(tmp_path: Path) -> None:
    found = read(tmp_path, "", SLURM_RL_HOOK_PERIOD="5")
    assert (found.values["hook"]["cycle"], len(found.warnings)) == (5, 1)
    found = read(tmp_path, "", "daemon.interval=6", SLURM_RL_HOOK_PERIOD="5")
    assert (found.values["hook"]["cycle"], len(found.warnings)) == (6, 2)


def test_of_two_variables_the_new_name_wins(tmp_path: Path) -> None:
    for old in ("SLURM_RL_HOOK_PERIOD", "SLURM_RL_DAEMON_INTERVAL"):
        found = read(tmp_path, "", **{old: "6", "SLURM_RL_HOOK_CYCLE": "5"})
        assert (found.values["hook"]["cycle"], len(found.warnings)) == (5, 1)


def test_the_new_name_needs_no_warning(tmp_path: Path) -> None:
    assert read(tmp_path, "[hook]\ncycle = 5\n").warnings == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[hook]\nperiod = 0\n", "site.toml:2: [hook] period is 0, give at least 0.1."),
        (
            "[hook]\ncycle = 1\nperiod = 2\n",
            "site.toml:3: [hook] period and [hook] cycle are the same key: give [hook] cycle only.",
        ),
        (
            "[daemon]\ninterval = 1\n[hook]\ncycle = 2\n",
            "site.toml:4: [hook] cycle and [daemon] interval are the same key: give [hook] cycle "
            "only.",
        ),
        ("[daemon]\nx = 1\n", "site.toml:2: [daemon] x is unknown."),
    ],
)
def test_faults_of_old_names(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert caught.value.faults == (f"{tmp_path}/{fault}",)


def test_a_verb_says_the_new_name_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renamed = replace(configuration.KEYS["hook"]["cycle"], former_names=("hook.period",))
    monkeypatch.setitem(configuration.KEYS["hook"], "cycle", renamed)
    (tmp_path / "site.toml").write_text("[hook]\nperiod = 5\n")
    assert main(["show-config", "--config", f"{tmp_path}/site.toml"]) == 0
    assert caplog.messages == [
        f"{tmp_path}/site.toml:2: [hook] period is now called [hook] cycle: rename it."
    ]


def test_a_later_source_may_use_the_new_name(tmp_path: Path) -> None:
    found = read(tmp_path, "[hook]\nperiod = 1\n", SLURM_RL_HOOK_CYCLE="2")
    assert found.values["hook"]["cycle"] == 2
