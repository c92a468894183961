"""The daemon's lock: a look takes nothing away, and only a live daemon counts as one."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import ConfigurationError, LockHeld
from slurm_rl_plugin.hook.daemon.lock import daemon_runs, is_looked_after, lock_path, only_daemon


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the state file would be; the lock beside it is there and free."""
    with only_daemon(tmp_path / "state.json"):
        pass
    return tmp_path / "state.json"


def test_whether_a_daemon_runs(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert daemon_runs(state) is False
    assert is_looked_after(state) is False
    assert not lock_path(state).exists()
    with only_daemon(state):
        assert daemon_runs(state) is True
        assert daemon_runs(state) is True
        assert is_looked_after(state) is True
    assert daemon_runs(state) is False


def test_the_lock_is_for_its_owner_alone(state: Path) -> None:
    assert stat.S_IMODE(lock_path(state).stat().st_mode) == 0o600
    assert not lock_path(state).name.endswith(".lock")  # a release before left that to all


def test_two_lookers_do_not_take_each_other_for_a_daemon(state: Path) -> None:
    with lock_path(state).open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert daemon_runs(state) is False


def test_a_daemon_that_starts_during_a_look_starts(state: Path) -> None:
    other = lock_path(state).open()
    fcntl.flock(other, fcntl.LOCK_SH)
    threading.Timer(0.06, other.close).start()
    with only_daemon(state):
        assert daemon_runs(state) is True


def test_a_second_daemon_is_told_of_the_first(state: Path) -> None:
    with (
        only_daemon(state),
        pytest.raises(ConfigurationError, match=rf"another slurm-rl run .*pid {os.getpid()}\)"),
        only_daemon(state),
    ):
        pass


@pytest.mark.parametrize("written", ["", "x", "0 1", "4194999 7", "{pid} 1", f"{'9' * 90}"])
def test_who_holds_it_and_is_no_daemon_is_named(state: Path, written: str) -> None:
    """A child that inherited the descriptor, say; nobody else can open the file."""
    with lock_path(state).open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.truncate(0)
        other.write(written.format(pid=os.getpid()))
        other.flush()
        assert daemon_runs(state) is True
        with pytest.raises(LockHeld, match=rf"held by pid {os.getpid()} of uid {os.getuid()}"):
            is_looked_after(state)
        with pytest.raises(LockHeld, match="end that process"), only_daemon(state):
            pass


def test_the_process_of_before_is_no_proof(state: Path) -> None:
    """Its number stays in the file, and may be another process's by now."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    with lock_path(state).open("r+") as other:
        other.truncate(0)
        other.write(f"{gone.pid} 1\n")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LockHeld):
            is_looked_after(state)


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


def _second_name(path: Path) -> None:
    path.with_name("elsewhere").touch(mode=0o600)
    path.hardlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (_link, "cannot be opened"),
        (Path.mkdir, "cannot be opened"),
        (lambda path: os.mkfifo(path, 0o600), "no plain file"),
        (_second_name, "no plain file"),
        (lambda path: path.touch(mode=0o644), "others may open it"),
    ],
)
def test_nothing_else_is_taken_for_the_lock(tmp_path: Path, place, words: str) -> None:  # type: ignore[no-untyped-def]
    state = tmp_path / "state.json"
    place(lock_path(state))
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ConfigurationError, match=words), only_daemon(state):
        pass
    assert daemon_runs(state) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_without_its_folder_there_is_no_lock(tmp_path: Path) -> None:
    state = tmp_path / "missing" / "state.json"
    with pytest.raises(ConfigurationError, match="make its folder exist"), only_daemon(state):
        pass


def test_a_daemon_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left = [f".state.json.{'0a' * 8}.part", ".state.json.limits.417.part"]
    others = ["state.json", ".state.json.part", ".bashrc.part", f".state.json.{'0b' * 8}.part"]
    for name in [*left, *others]:
        (tmp_path / name).touch()
        if name != others[-1]:  # which another host may be writing
            os.utime(tmp_path / name, (0, 0))
    with only_daemon(tmp_path / "state.json"):
        found = {path.name for path in tmp_path.iterdir()}
    assert found == {*others, lock_path(tmp_path / "state.json").name}
