"""A look at the daemon's lock takes nothing away."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.daemon import daemon_runs, lock_path, only_daemon


def test_whether_a_daemon_runs(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert daemon_runs(state) is False
    assert not lock_path(state).exists()
    with only_daemon(state):
        assert daemon_runs(state) is True
        assert daemon_runs(state) is True
    assert daemon_runs(state) is False


def test_two_lookers_do_not_take_each_other_for_a_daemon(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with only_daemon(state):
        pass
    with lock_path(state).open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert daemon_runs(state) is False


def test_a_daemon_that_starts_during_a_look_starts(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with only_daemon(state):
        pass
    other = lock_path(state).open()
    fcntl.flock(other, fcntl.LOCK_SH)
    threading.Timer(0.06, other.close).start()
    with only_daemon(state):
        assert daemon_runs(state) is True


def test_a_lock_that_root_made_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `slurm-rl release` by root does, before the daemon first ran."""
    state = tmp_path / "state.json"
    with only_daemon(state):
        pass

    def may_only_read(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, flags, *mode)

    real_open = os.open
    monkeypatch.setattr(os, "open", may_only_read)
    with only_daemon(state):
        assert daemon_runs(state) is True
        with (
            pytest.raises(ConfigurationError, match="another slurm-rl run holds"),
            only_daemon(state),
        ):
            pass
    lock_path(state).unlink()
    with pytest.raises(ConfigurationError, match="Permission denied"), only_daemon(state):
        pass
