"""What is in force, where it comes from, and what each fault of it says."""

from __future__ import annotations

import json
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.configuration import KEYS, read_configuration
from slurm_rl_plugin.configuration.generated import example_text
from slurm_rl_plugin.configuration.key import removal_of
from slurm_rl_plugin.hook.daemon.lock import only_daemon
from tests.architecture.markdown_documents import TOP, code_blocks
from tests.functional.fake_site import FakeSite
from tests.functional.typed import Typed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file, one in conf.d, and a variable."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "site.toml").write_text(
        '[hook]\nmode = "active"\ncycle = 10\n[shares]\nphysics = 0.7\n"b io" = 0.3\n'
    )
    (tmp_path / "conf.d" / "rules.toml").write_text(
        "[hook]\ncycle = 20\n[[job_class]]\nclass = 'batch'\nname = 'a\"b'\n"
    )
    monkeypatch.setenv("SLURM_RL_GUARD_RAILS_EXEMPT_QOS", "debug,test")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(typed: Typed, *words: str) -> str:
    status, out, err = typed("show-config", *words)
    assert (status, err) == (0, "")
    return out


def test_each_value_says_where_it_comes_from(site: Path, typed: Typed) -> None:
    words = ("--config", "site.toml", "--set", "metrics.port=0")
    lines = printed(typed, *words).splitlines()
    assert 'mode = "active"  # site.toml:2' in lines
    assert "cycle = 20  # conf.d/rules.toml:2" in lines
    assert "max_writes = 2000  # default" in lines
    assert 'exempt_qos = ["debug", "test"]  # SLURM_RL_GUARD_RAILS_EXEMPT_QOS' in lines
    assert "port = 0  # --set metrics.port=0" in lines
    assert '"b io" = 0.3  # site.toml:6' in lines
    assert "[[job_class]]  # conf.d/rules.toml:3" in lines


def test_what_is_printed_reads_back_as_what_is_in_force(
    site: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(typed, "--config", "site.toml", "--set", "hook.audit_file=/a # \x7f\n")
    monkeypatch.delenv("SLURM_RL_GUARD_RAILS_EXEMPT_QOS")
    again = site / "again" / "site.toml"
    again.parent.mkdir()
    again.write_text(text)
    found = read_configuration(again)
    assert found.values["hook"]["audit_file"] == "/a # \x7f\n"
    assert found.values["guard_rails"]["exempt_qos"] == ["debug", "test"]
    assert found.shares == {"physics": 0.7, "b io": 0.3}
    assert [str(rule) for rule in found.classifier.rules] == ["batch if name='a\"b'"]


def test_json_has_values_and_their_origins(site: Path, typed: Typed) -> None:
    document: dict[str, Any] = json.loads(printed(typed, "--config", "site.toml", "--json"))
    origins = document.pop("origins")
    assert document["hook"]["cycle"] == 20
    assert document["job_class"] == [{"class": "batch", "name": 'a"b'}]
    assert document["shares"] == {"physics": 0.7, "b io": 0.3}
    assert origins["hook"]["cycle"] == "conf.d/rules.toml:2"
    assert origins["shares"] == {"physics": "site.toml:5", "b io": "site.toml:6"}
    assert origins["job_class"] == {"1": "conf.d/rules.toml:3"}
    for section, keys in KEYS.items():
        assert list(origins[section]) == list(document[section]) == list(keys)


def test_rules_of_the_product_are_comments(site: Path, typed: Typed) -> None:
    (site / "conf.d" / "rules.toml").unlink()
    text = printed(typed, "--config", "site.toml")
    assert "job_class" not in tomllib.loads(text)
    assert text.count("# [[job_class]]  # default\n") == 4


def test_defaults_are_the_example_file_whatever_the_site_says(site: Path, typed: Typed) -> None:
    assert printed(typed, "--defaults") == example_text()
    document = json.loads(printed(typed, "--defaults", "--json"))
    assert document["hook"]["cycle"] == 30.0
    assert document["origins"]["guard_rails"]["exempt_qos"] == "default"


def test_shares_of_pbs_keep_their_word(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "site.toml"
    path.write_text("[shares]\nfrom = 'pbs'\n")
    assert f'from = "pbs"  # {path}:2\n' in typed.out("show-config", "--config", path)


def test_documented_classes_read_back_and_those_of_a_later_file_win(
    site: Path, typed: Typed
) -> None:
    blocks = code_blocks(TOP / "docs" / "configuration.md")
    [example] = [each.text for each in blocks if "[utility." in each.text]
    (site / "site.toml").write_text(example)
    later = '[utility.SDJ]\nform = "deadline"\nsigma = 90\n[utility.batch]\nbeta = 0.5\n'
    (site / "conf.d" / "rules.toml").write_text(later)
    found = json.loads(printed(typed, "--config", "site.toml", "--json"))
    assert found["utility"]["SDJ"] == {"form": "deadline", "sigma": 90}
    assert found["utility"]["nightly"]["points"] == [[1, 0.9], [12, 0.2], [24, 0]]
    assert found["utility"]["due"] == {"form": "deadline", "hours": 48, "users": True}
    assert found["utility"]["batch"] == {"form": "power", "beta": 0.5}
    assert found["origins"]["utility"]["SDJ"] == "conf.d/rules.toml:1"
    again = site / "again" / "site.toml"
    again.parent.mkdir()
    again.write_text(printed(typed, "--config", "site.toml"))
    assert read_configuration(again).classifier == read_configuration(site / "site.toml").classifier


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


def said_of(site: FakeSite, *words: str, code: int = 2) -> list[str]:
    """The lines with which a command, `run` by default, ends with an exit code; none of its log."""
    verb = words[0] if words else "run"
    status, _, err = site(*(words or ("run",)))
    lines = [line for line in err.splitlines() if " slurm_rl_plugin." not in line]
    assert status == code, err
    assert lines[0].startswith(f"slurm-rl {verb}: ")
    return [lines[0].partition(": ")[2], *lines[1:]]


def fault_of(site: FakeSite, *words: str) -> str:
    (line,) = said_of(site, *words)
    return line


def test_a_port_that_is_in_use(empty_site: FakeSite) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        empty_site.configure("metrics", port=port)
        assert f"metrics cannot listen on 127.0.0.1:{port}" in fault_of(empty_site)


@pytest.mark.parametrize("verb", ["run", "check"])
def test_a_model_that_is_no_file(empty_site: FakeSite, verb: str) -> None:
    path = empty_site.folder / "model.onnx"
    empty_site.configure("policy", model=str(path))
    for why in ("No such file or directory", "Is a directory"):
        assert fault_of(empty_site, verb) == (
            f"model {path} cannot be read ({why}): give the path of a model, or the name of a "
            "rule, in [policy] model."
        )
        path.mkdir(exist_ok=True)


def test_a_model_that_is_there_and_broken_does_not_stop_the_daemon(
    empty_site: FakeSite, caplog: pytest.LogCaptureFixture
) -> None:
    """It may break while the site relies on the daemon; docs/troubleshooting.md says what then."""
    path = empty_site.folder / "model.onnx"
    path.write_text("no graph")
    empty_site.configure("policy", model=str(path))
    empty_site.out("run", "--once")
    assert "model=refused" in caplog.text


def test_a_second_daemon_and_a_state_folder_that_is_not_there(empty_site: FakeSite) -> None:
    with only_daemon(empty_site.state_file):
        assert "another slurm-rl run holds" in fault_of(empty_site)
    empty_site.configure("hook", state_file=f"{empty_site.folder}/none/state.json")
    assert "(No such file or directory): make its folder exist" in fault_of(empty_site)


def test_a_missing_file_and_no_toml(empty_site: FakeSite) -> None:
    empty_site.append("[hook]\n")
    said = fault_of(empty_site, "run")
    assert "site.toml:" in said
    assert "hook is given twice, first in line " in said
    (empty_site.folder / "site.toml").unlink()
    assert "does not exist: write it or give --config." in fault_of(empty_site, "run")


def test_thirty_faults_are_thirty_lines_of_every_verb(
    empty_site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = empty_site
    (site.folder / "conf.d").mkdir()
    for number in range(4):
        lines = [f"key{number}{place} = 1" for place in range(6)]
        path = site.folder / "conf.d" / f"{number}.toml"
        path.write_text("\n".join(["[hook]", *lines]))
    site.configure("hook", max_writes=-1, mode=3)
    monkeypatch.setenv("SLURM_RL_HOOK_CYCLE", "x")
    monkeypatch.setenv("SLURM_RL_METRICS_PORT", "-1")
    flags = ("--set", "hook.cycle=y", "--set", "hook.cyle=1")
    for verb in ("run", "check", "show-config", "queue", "audit"):
        lines = said_of(site, verb, *flags)
        assert len(lines) == 30
        assert "[hook] mode must be a text, not 3" in lines[0]
        assert lines[25].startswith("conf.d/3.toml:7: [hook] key35 is unknown, give one of mode")
    assert len(said_of(site, "release", *flags)) == 2  # what was typed, before anything is done
    lines = said_of(site, "release", code=1)  # and the others keep no factor
    assert len(lines) == 29
    assert lines[28].endswith("is missing: running jobs may keep a factor.")


def test_a_fault_of_the_environment_or_a_flag_needs_no_file_to_be_wrong(
    empty_site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = "[hook] cycle must be a number, not 'x'."
    assert fault_of(empty_site, "run", "--set", "hook.cycle=x") == f"--set hook.cycle=x: {fault}"
    monkeypatch.setenv("SLURM_RL_HOOK_CYCLE", "x")
    assert fault_of(empty_site) == f"SLURM_RL_HOOK_CYCLE: {fault}"
