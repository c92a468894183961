"""Waits until the daemon has taken its factors back, and says what stands if it has not."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.cli.assembly.batch_system import (
    build_batch_system,
    limits_path,
)
from slurm_rl_plugin.cli.assembly.state_owner import become_state_owner
from slurm_rl_plugin.cli.daemon.metrics import daemon_metrics
from slurm_rl_plugin.configuration import KnownConfiguration
from slurm_rl_plugin.errors import SlurmRLError
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.memory.state_file import StateFile
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
class _Standing:
    """What is left: jobs in the queue, by Slurm; jobs that the daemon has yet to look after.

    `remembered` is None where the daemon's file cannot be trusted, `limited` where a limit of ours
    on batch jobs may stand.
    """

    pending: int | str
    remembered: int | None
    limited: bool

    @property
    def clean(self) -> bool:
        return self.pending == 0 and self.remembered == 0 and not self.limited


def wait_until_taken_back(known: KnownConfiguration, seconds: float) -> int:
    """Wait, print one sentence; 1 where a factor is left or nobody can tell.

    The daemon tells that it is disabled and empties its state file when its factors are gone;
    Slurm is asked then.

    Args:
        known: as much of the configuration as is known.
        seconds: how long to wait at most; 0 says at once what stands.
    """
    become_state_owner(known.configuration)  # whatever only root may write is written
    state = StateFile(known.state_file)
    if known.faults and not may_exist(state.path):
        print(f"whether a daemon runs and factors are left is not known: {state.path} is not there")
        return 1
    runs = daemon_runs(state.path)
    began, asked = time.monotonic(), -_SLURM_PAUSE
    standing: _Standing | None = None
    noticed = runs is False
    while runs is not False and time.monotonic() - began < seconds:
        waited = time.monotonic() - began
        told = daemon_metrics(known.configuration)
        if not isinstance(told, str):
            noticed = noticed or told.mode in _QUIET
        follows = noticed or (isinstance(told, str) and waited >= _NOTICED)
        done = follows and _forgotten(state)
        if done and waited - asked >= _SLURM_PAUSE:
            asked, standing = waited, _standing(known, state)
            if standing.clean:
                break
        time.sleep(_PAUSE)
    else:
        standing = _standing(known, state)
    print(_sentence(standing, runs, noticed, seconds))
    return 0 if standing.clean and noticed else 1


def _forgotten(state: StateFile) -> bool:
    """The daemon's files say that nothing of ours is left."""
    return state.read() == set() and not may_exist(limits_path(state.path))


def _standing(known: KnownConfiguration, state: StateFile) -> _Standing:
    jobs, limited = state.read(), may_exist(limits_path(state.path))
    remembered = None if jobs is None else len(jobs)
    try:
        pending = build_batch_system(known.configuration, []).snapshot().pending
    except SlurmRLError as error:
        return _Standing(str(error), remembered, limited)
    factors = int(np.count_nonzero(pending.factor))
    return _Standing(factors, remembered, limited)


def _sentence(standing: _Standing, runs: bool | None, noticed: bool, seconds: float) -> str:
    if standing.clean and noticed:
        return f"{_WHOSE[runs]}: no pending job carries a factor"
    if standing.clean:
        return (
            f"no pending job carries a factor, but the daemon has not said within {seconds:g} s "
            "that it goes by this file: see `slurm-rl status` and its log, and reload it if "
            "[hook] disable_file was changed"
        )
    if isinstance(standing.pending, str):
        return f"whether factors are left is not known: {standing.pending}"
    what = f"{standing.pending} pending jobs carry a factor"
    if standing.remembered is None:
        what += ", running ones may have one, since the state file cannot be trusted"
    elif standing.remembered:
        what += f", {standing.remembered} jobs are remembered to have one"
    if standing.limited:
        what += ", a limit on batch jobs may stand"
    if runs is False:
        return f"no daemon runs, and {what}: take them back with `slurm-rl release`"
    return (
        f"after {seconds:g} s {what}: the daemon may be in the midst of a cycle, see `slurm-rl "
        "status`; if they stay, stop it and run `slurm-rl release`"
    )
