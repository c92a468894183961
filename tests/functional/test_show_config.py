"""`show-config`: what is in force, and where each value comes from."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.configuration import KEYS, read_configuration
from slurm_rl_plugin.configuration.generated import example_text
from tests.architecture.markdown_documents import TOP, code_blocks
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
