"""Waits until the daemon has taken its factors back, and says what stands if it has not."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.cli.assembly.batch_system import build_batch_system
from slurm_rl_plugin.cli.assembly.state_owner import become_state_owner
from slurm_rl_plugin.cli.daemon.metrics import daemon_metrics
from slurm_rl_plugin.configuration import KnownConfiguration
from slurm_rl_plugin.errors import SlurmRLError
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.outstanding import outstanding_at
from slurm_rl_plugin.whole_file import may_exist

#: Seconds between two looks at the daemon, and between two at Slurm, which costs it more.
_PAUSE, _SLURM_PAUSE = 0.3, 3.0
#: Seconds after which a daemon without metrics has noticed the file, unless it is in a cycle.
_NOTICED = 6.0
#: Modes in which a daemon writes nothing.
_QUIET = ("disabled", "standby")

#: Whose doing it is that no factor is left, by whether a daemon runs.
_WHOSE = {
    True: "the daemon has taken its factors back",
    False: "no daemon runs",
    None: "done, though this user may not see whether a daemon runs",
}


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left in the batch system.

    Attributes:
        pending: how many pending jobs carry a factor, or why that is not known.
        outstanding: the words of each entry that may be outstanding.
    """

    pending: int | str
    outstanding: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return self.pending == 0 and not self.outstanding


def wait_until_taken_back(known: KnownConfiguration, seconds: float) -> int:
    """Wait, print one sentence; 1 where a factor is left or nobody can tell.

    The daemon tells that it is disabled and empties its state file when its factors are gone;
    Slurm is asked then.

    Args:
        known: as much of the configuration as is known.
        seconds: how long to wait at most; 0 says at once what stands.
    """
    become_state_owner(known.configuration)  # whatever only root may write is written
    state = known.state_file
    if known.faults and not may_exist(state):
        print(f"whether a daemon runs and factors are left is not known: {state} is not there")
        return 1
    runs = daemon_runs(state)
    began, asked = time.monotonic(), -_SLURM_PAUSE
    left: _Left | None = None
    noticed = runs is False
    while runs is not False and time.monotonic() - began < seconds:
        waited = time.monotonic() - began
        told = daemon_metrics(known.configuration)
        if not isinstance(told, str):
            noticed = noticed or told.mode in _QUIET
        follows = noticed or (isinstance(told, str) and waited >= _NOTICED)
        done = follows and not _outstanding(known)
        if done and waited - asked >= _SLURM_PAUSE:
            asked, left = waited, _left(known)
            if left.is_clean:
                break
        time.sleep(_PAUSE)
    else:
        left = _left(known)
    print(_sentence(left, runs, noticed, seconds))
    return 0 if left.is_clean and noticed else 1


def _outstanding(known: KnownConfiguration) -> tuple[str, ...]:
    """What the daemon's files say is outstanding."""
    entries = outstanding_at(known.state_file)
    return tuple(entry.words for entry in entries if entry.is_outstanding())


def _left(known: KnownConfiguration) -> _Left:
    outstanding = _outstanding(known)
    try:
        pending = build_batch_system(known.configuration, []).snapshot().pending
    except SlurmRLError as error:
        return _Left(str(error), outstanding)
    return _Left(int(np.count_nonzero(pending.factor)), outstanding)


def _sentence(left: _Left, runs: bool | None, noticed: bool, seconds: float) -> str:
    if left.is_clean and noticed:
        return f"{_WHOSE[runs]}: no pending job carries a factor"
    if left.is_clean:
        return (
            f"no pending job carries a factor, but the daemon has not said within {seconds:g} s "
            "that it goes by this file: see `slurm-rl status` and its log, and reload it if "
            "[hook] disable_file was changed"
        )
    if isinstance(left.pending, str):
        return f"whether factors are left is not known: {left.pending}"
    what = "; ".join([f"{left.pending} pending jobs carry a factor", *left.outstanding])
    if runs is False:
        return f"no daemon runs, and {what}: take them back with `slurm-rl release`"
    return (
        f"after {seconds:g} s {what}: the daemon may be in the midst of a cycle, see `slurm-rl "
        "status`; if they stay, stop it and run `slurm-rl release`"
    )
