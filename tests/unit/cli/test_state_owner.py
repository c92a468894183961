"""Whom root becomes before it heeds the state folder."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.site_options import become_state_owner
from slurm_rl_plugin.configuration import Configuration
from tests.attacks.another_user import DAEMON, STRANGER, as_user, needs_root

pytestmark = needs_root


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def becomes(state_file: Path, uid: int = 0) -> list[list[int]]:
    """The user and group ids of a process of `uid` afterwards."""
    configuration = Configuration(values={"hook": {"state_file": str(state_file)}})

    def act() -> list[list[int]]:
        become_state_owner(configuration)
        return [list(os.getresuid()), list(os.getresgid()), os.getgroups()]

    found: list[list[int]] = as_user(uid, act)
    return found


def given(folder: Path, uid: int) -> Path:
    folder.mkdir()
    os.chown(folder, uid, uid)
    return folder


def test_the_owner_of_the_folder_for_good(folder: Path) -> None:
    state = given(folder / "state", DAEMON)
    assert becomes(state / "state.json") == [[DAEMON] * 3, [DAEMON] * 3, []]


def test_home_and_folder_are_of_the_new_account(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = given(folder / "state", DAEMON)
    configuration = Configuration(values={"hook": {"state_file": str(state / "state.json")}})
    closed = given(folder / "closed", 0)
    monkeypatch.setenv("HOME", str(closed))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(closed))

    def act() -> list[str | None]:
        become_state_owner(configuration)
        return [os.environ["HOME"], os.environ.get("XDG_RUNTIME_DIR"), str(Path.cwd())]

    for mode, expected in ((0o700, "/"), (0o755, str(closed))):
        closed.chmod(mode)
        monkeypatch.chdir(closed)
        assert as_user(0, act) == ["/", None, expected]


def test_root_stays_root_where_the_folder_is_its_own_or_not_there(folder: Path) -> None:
    assert becomes(folder / "state.json")[0] == [0] * 3
    assert becomes(folder / "missing" / "state.json")[0] == [0] * 3


def test_a_folder_further_down_is_no_way_to_stay_root(folder: Path) -> None:
    """The owner of the folder above can put any folder of root's in its place."""
    outer = given(folder / "state", DAEMON)
    given(outer / "own", 0)
    (outer / "link").symlink_to("/etc")
    for name in ("own", "link", "missing"):
        assert becomes(outer / name / "state.json")[0] == [DAEMON] * 3


def test_a_link_of_roots_does_not_hide_whose_the_folder_is(folder: Path) -> None:
    """Head nodes keep such folders elsewhere: /var/lib/slurm-rl -> /srv/slurm-rl."""
    given(folder / "elsewhere", DAEMON)
    (folder / "state").symlink_to("elsewhere")
    assert becomes(folder / "state" / "state.json")[0] == [DAEMON] * 3
    assert becomes(folder / "state" / "missing" / "state.json")[0] == [DAEMON] * 3


def test_who_is_not_root_stays_who_he_is(folder: Path) -> None:
    state = given(folder / "state", DAEMON)
    assert becomes(state / "state.json", STRANGER)[0] == [STRANGER] * 3


def checked(folder: Path, model: str) -> tuple[int, str, str]:
    """What `check` of root says; the state folder is DAEMON's, that of the audit log root's."""
    given(folder / "state", DAEMON)
    given(folder / "audit", 0)
    (folder / "site.toml").write_text(
        f'[hook]\nstate_file = "{folder}/state/state.json"\n'
        f'audit_file = "{folder}/audit/audit.jsonl"\ndisable_file = "{folder}/DISABLE"\n'
        f'[policy]\nmodel = "{model}"\n[metrics]\nport = 0\n'
        '[batch_system]\nadapter = "slurm_commands"\n'
    )

    def act() -> tuple[int, str, str]:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            status = main(["check", "--json", "--config", f"{folder}/site.toml"])
        return status, out.getvalue(), err.getvalue()

    status, out, err = as_user(0, act)
    return status, out, err


def test_check_of_root_tells_of_the_daemons_account(folder: Path) -> None:
    """Root may write everything: for himself all would pass, and the daemon would not start."""
    status, out, _ = checked(folder, "sjf")
    found = {each["name"]: each["result"] for each in json.loads(out)["checks"]}
    assert (status, found["state_file"], found["audit_file"]) == (1, "pass", "fail")


def test_a_model_that_only_root_may_read_is_none(folder: Path) -> None:
    (folder / "own.onnx").touch(0o600)
    status, _, err = checked(folder, f"{folder}/own.onnx")
    assert (status, "own.onnx cannot be read (Permission denied)" in err) == (2, True)
