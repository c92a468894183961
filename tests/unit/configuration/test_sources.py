"""Files, conf.d, environment and flags: which wins, where values come from, what is a fault."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurm_rl_plugin.configuration import (
    KEYS,
    Configuration,
    Flag,
    Key,
    read_configuration,
)
from slurm_rl_plugin.configuration.generated import toml_value
from slurm_rl_plugin.configuration.key import environment_name
from slurm_rl_plugin.errors import ConfigurationError
from tests.architecture.markdown_documents import TOP

NOTHING: dict[str, str] = {}


def write(folder: Path, text: str, **further: str) -> Path:
    """The file, and those of conf.d by their names without the ending."""
    path = folder / "slurm-rl.toml"
    path.write_text(text)
    (folder / "conf.d").mkdir(exist_ok=True)
    for name, content in further.items():
        (folder / "conf.d" / f"{name}.toml").write_text(content)
    return path


def faults_of(
    path: Path, environment: dict[str, str] = NOTHING, flags: tuple[str, ...] = ()
) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(path, environment, flags)
    return [fault.replace(f"{path.parent}/", "") for fault in caught.value.faults]


def read(
    path: Path, environment: dict[str, str] = NOTHING, flags: tuple[str, ...] = ()
) -> Configuration:
    given = [Flag(each, f"--set {each}") for each in flags]
    return read_configuration(path, environment=environment, flags=given)


class TestOrder:
    def test_flags_go_over_environment_over_files_over_defaults(self, tmp_path: Path) -> None:
        path = write(
            tmp_path,
            "[hook]\ncycle = 1\nsoonest_cycle = 1\nbusy_share = 0.2\nmax_writes = 1\n",
            a="[hook]\nsoonest_cycle = 2\nbusy_share = 0.3\nmax_writes = 2\n",
            b="\n[hook]\nbusy_share = 0.4\nmax_writes = 3\n",
        )
        environment = {"SLURM_RL_HOOK_BUSY_SHARE": "0.5", "SLURM_RL_HOOK_MAX_WRITES": "4"}
        found = read(path, environment, ("hook.max_writes=5", "hook.max_writes=6"))
        hook, origins = found.values["hook"], found.origins["hook"]
        wanted = {
            "cycle": (1, f"{path}:2"),
            "soonest_cycle": (2, f"{tmp_path}/conf.d/a.toml:2"),
            "busy_share": (0.5, "SLURM_RL_HOOK_BUSY_SHARE"),
            "max_writes": (6, "--set hook.max_writes=6"),
            "mode": ("shadow", "default"),
        }
        assert {name: (hook[name], origins[name]) for name in wanted} == wanted

    def test_names_of_conf_d_are_read_in_their_order_and_others_are_left(
        self, tmp_path: Path
    ) -> None:
        further = {name: f"[hook]\ncycle = {number}\n" for number, name in enumerate("cab", 1)}
        path = write(tmp_path, "", **further)
        (tmp_path / "conf.d" / ".#z.toml").write_text("no toml")
        (tmp_path / "conf.d" / "z.toml.bak").write_text("no toml")
        assert read(path).values["hook"]["cycle"] == 1
        assert read(path).origins["hook"]["cycle"] == f"{tmp_path}/conf.d/c.toml:2"

    def test_shares_and_rules_of_a_later_file_replace_all_of_earlier_ones(
        self, tmp_path: Path
    ) -> None:
        rules = "".join(f"[[job_class]]\nclass = 'batch'\nname = '{name}'\n" for name in "xyz")
        path = write(
            tmp_path,
            f"{rules}[shares]\nphysics = 0.5\nbiology = 0.5\n",
            a="[shares]\nchemistry = 1\n[[job_class]]\nclass = 'interactive'\nname = 'q'\n",
            b="[hook]\ncycle = 3\n",
        )
        found = read(path)
        assert found.shares == {"chemistry": 1.0}
        assert [str(rule) for rule in found.classifier.rules] == ["interactive if name='q'"]
        assert found.origins["shares"] == {"chemistry": f"{tmp_path}/conf.d/a.toml:2"}
        assert found.origins["job_class"] == {"1": f"{tmp_path}/conf.d/a.toml:3"}

    def test_without_conf_d_the_file_is_enough(self, tmp_path: Path) -> None:
        path = write(tmp_path, "[hook]\ncycle = 3\n")
        (tmp_path / "conf.d").rmdir()
        assert read(path).values["hook"]["cycle"] == 3


#: Keys of which more is asked than their kind.
NOT_ANY_TEXT = {
    *(("reserve", name) for name in ("mechanism", "qos", "license", "reservation")),
    *(("reserve", f"{what}_resources") for what in ("most", "widest_batch")),
    *(("offer", name) for name in ("address", "price")),
    ("forecast", "address"),
    ("route", "formula"),
}


class TestEnvironment:
    @pytest.mark.parametrize("section", KEYS)
    def test_every_key_can_be_given(self, section: str) -> None:
        for name, key in KEYS[section].items():
            if section == "reward" or name.startswith("tls_") or (section, name) in NOT_ANY_TEXT:
                continue  # right only together with others
            text, value = other_value(key)
            variable = environment_name(section, name)
            found = read_configuration(None, environment={variable: text})
            assert found.values[section][name] == value != key.default, variable
            assert type(found.values[section][name]) is key.kind

    @pytest.mark.parametrize(
        ("variable", "value", "fault"),
        [
            ("SLURM_RL_HOOK_CYCLE", "soon", "[hook] cycle is 'soon', give a number."),
            ("SLURM_RL_HOOK_CYCLE", "nan", "[hook] cycle is nan, give at least 0.1."),
            ("SLURM_RL_HOOK_CYCLE", "", "[hook] cycle is '', give a number."),
            ("SLURM_RL_METRICS_PORT", "1.5", "[metrics] port is '1.5', give a whole number."),
            (
                *("SLURM_RL_HOOK_BESIDE_CONTROLLERS", "yes"),
                "[hook] beside_controllers is 'yes', give true or false.",
            ),
            ("SLURM_RL_HOOK_MODE", "on", "[hook] mode is 'on', give one of shadow, active."),
            ("SLURM_RL_HOOK_MOD", "on", "is no key, did you mean SLURM_RL_HOOK_MODE?"),
            ("SLURM_RL_HOK_MODE", "on", "is no key, did you mean SLURM_RL_HOOK_MODE?"),
            ("SLURM_RL_METRIC_PORT", "1", "is no key, did you mean SLURM_RL_METRICS_PORT?"),
            (
                "SLURM_RL_HOOK_COLOUR",
                "1",
                "is no key: see `slurm-rl show-config --defaults` for all keys.",
            ),
            ("SLURM_RL_SHARES_PHYSICS", "1", "[shares] is given in files only: write it there."),
            ("SLURM_RL_JOB_CLASS", "1", "[job_class] is given in files only: write it there."),
        ],
    )
    def test_a_fault_names_the_variable(
        self, tmp_path: Path, variable: str, value: str, fault: str
    ) -> None:
        assert faults_of(write(tmp_path, ""), {variable: value}) == [f"{variable}: {fault}"]

    def test_our_own_other_names_are_no_slips(self, tmp_path: Path) -> None:
        """Every such name in the tree, of tests and scripts too."""
        words = [
            "git",
            "grep",
            "-ohE",
            r"SLURM_RL_[A-Z_]*[A-Z]",
            "--",
            ":!tests/unit/configuration",
        ]
        found = subprocess.run(words, cwd=TOP, capture_output=True, text=True, check=False)
        if found.returncode:
            pytest.skip("this is no git checkout: run it in one")
        keys = {environment_name(*place) for place in all_keys()}
        others = set(found.stdout.split()) - keys - {"SLURM_RL_SECTION_KEY"}
        assert {"SLURM_RL_TRACES", "SLURM_RL_TEST_RELEASES", "SLURM_RL_KILLS"} <= others
        environment = dict.fromkeys(others | {"SLURM_RLX", "SLURM_JOB_ID", "PATH"}, "x")
        assert read(write(tmp_path, ""), environment).origins["hook"]["mode"] == "default"

    def test_the_real_environment_is_not_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(os.environ, "SLURM_RL_HOOK_MODE", "active")
        assert read_configuration(None).values["hook"]["mode"] == "shadow"


def all_keys() -> list[tuple[str, str]]:
    return [(section, name) for section, keys in KEYS.items() for name in keys]


def other_value(key: Key) -> tuple[str, object]:
    """A right value that is not the default, and its text."""
    if key.kind is bool:
        return ("false", False) if key.default else ("true", True)
    if key.kind is list:
        return " debug, test ,", ["debug", "test"]
    if key.kind is dict:
        names = key.choices[:2]
        return f" {names[0]} = 2, {names[1]}=0.5,", {names[0]: 2.0, names[1]: 0.5}
    if key.kind is str:
        text = key.choices[-1] if key.choices else "/some where"
        return text, text
    value = key.kind(key.default / 2 if key.default else 7) or 2
    return toml_value(value), value


class TestFlags:
    @pytest.mark.parametrize(
        ("flag", "fault"),
        [
            ("hook.mode", "write section.key=value, such as hook.cycle=10."),
            ("mode=active", "write section.key=value, such as hook.cycle=10."),
            ("hook.mod=active", "is no key, did you mean hook.mode?"),
            ("x.y=1", "is no key: see `slurm-rl show-config --defaults` for all keys."),
            ("shares.physics=1", "[shares] is given in files only: write it there."),
            ("hook.cycle=0", "[hook] cycle is 0.0, give at least 0.1."),
        ],
    )
    def test_a_fault_names_the_flag(self, tmp_path: Path, flag: str, fault: str) -> None:
        assert faults_of(write(tmp_path, ""), {}, (flag,)) == [f"--set {flag}: {fault}"]

    def test_a_text_may_hold_an_equals_sign(self, tmp_path: Path) -> None:
        found = read(write(tmp_path, ""), {}, ("hook.audit_file=/a=b",))
        assert found.values["hook"]["audit_file"] == "/a=b"
