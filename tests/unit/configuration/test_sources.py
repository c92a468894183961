"""Files, conf.d, environment and flags: which wins, and every fault with file, line and key."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurm_rl_plugin.configuration import KEYS, Configuration, Flag, Key, read_configuration
from slurm_rl_plugin.configuration.generated import toml_value
from slurm_rl_plugin.configuration.key import REMOVED, environment_name
from slurm_rl_plugin.errors import ConfigurationError
from tests.architecture.markdown_documents import TOP
from tests.functional.typed import rows_of

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

    def test_conf_d_is_read_by_name_and_other_files_are_left(self, tmp_path: Path) -> None:
        further = {name: f"[hook]\ncycle = {number}\n" for number, name in enumerate("cab", 1)}
        path = write(tmp_path, "", **further)
        (tmp_path / "conf.d" / ".#z.toml").write_text("no toml")
        (tmp_path / "conf.d" / "z.toml.bak").write_text("no toml")
        assert read(path).values["hook"]["cycle"] == 1
        assert read(path).origins["hook"]["cycle"] == f"{tmp_path}/conf.d/c.toml:2"

    def test_shares_and_rules_of_a_later_file_replace_earlier_ones(self, tmp_path: Path) -> None:
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


#: Keys with further conditions on their value.
NOT_ANY_TEXT = {
    *(("reserve", name) for name in ("mechanism", "qos", "license", "reservation")),
    *(("reserve", f"{what}_resources") for what in ("most", "widest_batch")),
    *(("offer", name) for name in ("address", "price")),
    *(("forecast", name) for name in ("address", "user_header")),
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

    @rows_of("environment")
    def test_faults_name_variables(self, tmp_path: Path, words: str, said: str) -> None:
        variable, _, value = words.partition("=")
        assert faults_of(write(tmp_path, ""), {variable: value}) == [f"{variable}: {said}"]

    def test_our_own_other_names_are_no_slips(self, tmp_path: Path) -> None:
        """Every such name in the tree, of tests and scripts too."""
        elsewhere = ("--", ":!tests/unit/configuration", ":!tests/assets/cases/refused.toml")
        words = ["git", "grep", "-IohE", r"SLURM_RL_[A-Z_]*[A-Z]", *elsewhere]
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
    @rows_of("--set")
    def test_a_fault_names_the_flag(self, tmp_path: Path, words: str, said: str) -> None:
        assert faults_of(write(tmp_path, ""), {}, (words,)) == [f"--set {words}: {said}"]

    def test_a_text_may_hold_an_equals_sign(self, tmp_path: Path) -> None:
        found = read(write(tmp_path, ""), {}, ("hook.audit_file=/a=b",))
        assert found.values["hook"]["audit_file"] == "/a=b"


@rows_of("configuration")
def test_a_fault_names_its_line(tmp_path: Path, words: str, said: str) -> None:
    (found,) = faults_of(write(tmp_path, words))
    where = f"slurm-rl.toml:{said}" if said[0].isdigit() else said
    assert "\n" not in found
    assert where in found
    assert "slurm-rl.toml" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[hook]\ncycle = {'9' * 5000}", "is not TOML: Exceeds the limit"),
        ("a = " + "[" * 5000, "is not readable TOML: it is nested too deeply."),
    ],
    ids=["digits", "brackets"],
)
def test_endless_values_are_faults(tmp_path: Path, text: str, said: str) -> None:
    (found,) = faults_of(write(tmp_path, text))
    assert said in found


def test_a_rule_behind_a_faulty_one_keeps_its_number_and_line(tmp_path: Path) -> None:
    text = "[[job_class]]\nclas = 'batch'\n[[job_class]]\nclass = 'quick'\nuser = 'ada'\n"
    first, second = faults_of(write(tmp_path, text))
    assert first.startswith("slurm-rl.toml:2: [[job_class]] rule 1: clas is unknown")
    assert second.startswith("slurm-rl.toml:3: [[job_class]] rule 2: job class 'quick' is unknown")


def test_a_pair_of_keys_may_come_from_two_sources(tmp_path: Path) -> None:
    path = write(tmp_path, "[metrics]\ntls_certificate = 'c.pem'\n")
    found = read(path, {"SLURM_RL_METRICS_TLS_KEY": "k.pem"})
    assert found.values["metrics"]["tls_key"] == "k.pem"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "[hook]\ncycle = 0\n")
    (tmp_path / "conf.d" / "a.toml").write_bytes(b"# \xff\n")
    (tmp_path / "conf.d" / "b.toml").mkdir()
    (tmp_path / "conf.d" / "c.toml").symlink_to(tmp_path / "conf.d" / "c.toml")
    assert faults_of(path) == [
        "configuration conf.d/a.toml cannot be read: byte 2 is not UTF-8.",
        "configuration conf.d/b.toml cannot be read: Is a directory.",
        "configuration conf.d/c.toml cannot be read: Too many levels of symbolic links.",
        "slurm-rl.toml:2: [hook] cycle must be at least 0.1, not 0.",
    ]


@pytest.mark.parametrize("what", ["file", "dangling link"])
def test_a_conf_d_that_is_no_folder(tmp_path: Path, what: str) -> None:
    path = write(tmp_path, "")
    (tmp_path / "conf.d").rmdir()
    if what == "file":
        (tmp_path / "conf.d").write_text("[hook]\ncycle = 3\n")
    else:
        (tmp_path / "conf.d").symlink_to(tmp_path / "none")
    (fault,) = faults_of(path)
    assert fault.startswith("configuration conf.d cannot be read: No")


def test_no_key_is_missed_where_a_file_could_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "[metrics]\ntls_key = 'k'\n", a="[metrics]\ntls_certificate = \n")
    assert faults_of(path) == ["conf.d/a.toml:2: is not TOML: Invalid value, in column 19."]


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
