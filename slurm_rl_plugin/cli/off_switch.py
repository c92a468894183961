"""`slurm-rl disable`, `pause` and `enable`: the disable file, and waiting for the daemon."""

from __future__ import annotations

import argparse
import math
import os
import pwd
import sys
import time
from pathlib import Path

import numpy as np

from slurm_rl_plugin.cli.argument_types import number_from_zero, parse_slurm_duration
from slurm_rl_plugin.cli.site_options import (
    add_rollback_options,
    become_state_owner,
    known_configuration_of,
)
from slurm_rl_plugin.configuration import Configuration, KnownConfiguration
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.memory.disable_file import (
    Disablement,
    read_disable_file,
    remove_disable_file,
    write_disable_file,
)
from slurm_rl_plugin.hook.outstanding import outstanding_at
from slurm_rl_plugin.services.configured_site import build_batch_system, daemon_state
from slurm_rl_plugin.whole_file import may_exist

#: Seconds that a command waits for the daemon by default.
WAIT = 20.0
#: Seconds between two questions to the daemon, and between two to Slurm, which cost it more.
_PAUSE, _SLURM_PAUSE = 0.3, 3.0
#: Seconds after which a daemon without metrics has noticed the file, unless it is in a cycle.
_NOTICED = 6.0
#: Modes in which a daemon writes nothing.
_QUIET = ("disabled", "standby")
#: The answer if it is known that no factor is left.
_CLEAN = (True, "")
#: Whether a daemon runs -> who restored the factors.
_WHOSE = {
    True: "the daemon has restored its factors",
    False: "no daemon runs",
    None: "done, though this user may not see whether a daemon runs",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How long the daemon must not write and why, and how many seconds to wait for it."""
    add_rollback_options(parser)
    verb = parser.get_default("verb")
    if verb == "pause":
        parser.add_argument(
            "--for",
            dest="span",
            type=parse_slurm_duration,
            required=True,
            metavar="TIME",
            help="such as 30m, 2h or 1-00:00:00; a plain number is minutes, as in Slurm",
        )
    if verb != "enable":
        parser.add_argument("--reason", default="", metavar="TEXT", help="for status and the log")
    parser.add_argument(
        "--wait",
        type=number_from_zero(),
        default=WAIT,
        metavar="SECONDS",
        help=f"maximum wait for the daemon to follow; 0: do not wait (default: {WAIT:g})",
    )


def main(options: argparse.Namespace) -> int:
    """Do as the command says; 1 if a factor is left, the daemon does not follow, or unknown."""
    known = known_configuration_of(options)
    path = known.configuration.disable_file
    if path is None:
        raise ConfigurationError(
            "no disable file is configured: give its path in [hook] disable_file and reload the "
            "daemon."
        )
    if options.verb == "enable":
        return _enable(known, path, options.wait)
    now = time.time()  # noqa: TID251 - the composition root
    # the file holds whole seconds
    until = float(math.ceil(now + options.span)) if options.verb == "pause" else math.inf
    try:
        own = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        own = str(os.getuid())
    behind = os.environ.get("SUDO_USER", own)  # who types
    by = f"{behind} as {own}" if behind and behind != own else own
    made = Disablement(by=by, at=now, until=until, reason=options.reason)
    found = read_disable_file(path)
    if options.verb == "pause" and found is not None and found.until > until:
        sys.stderr.write(
            f"slurm-rl pause: it is disabled {found.words} already: a pause would end that early; "
            "`slurm-rl enable` first if that is meant.\n"
        )
        return 1
    if options.verb == "disable" and found is not None and math.isinf(found.until):
        print(f"disabled already {found.words}")
    else:
        write_disable_file(path, made)
        print(f"{options.verb}d {made.words}: {path}")
    return _wait_until_taken_back(known, options.wait)


def _enable(known: KnownConfiguration, path: Path, seconds: float) -> int:
    found = read_disable_file(path)
    remove_disable_file(path)
    print(f"enabled: it was disabled {found.words}" if found else "it was not disabled")
    become_state_owner(known.configuration)
    if daemon_runs(known.state_file) is False:
        print("no daemon runs: start it to order the queue")
        return 0
    return _wait_until_it_goes_on(known.configuration, seconds)


def _wait_until_it_goes_on(configuration: Configuration, seconds: float) -> int:
    """Query the daemon itself; it reads the file every few seconds."""
    if not configuration.sections.metrics.port or not seconds:
        print("the daemon resumes within seconds")
        return 0
    deadline = time.monotonic() + seconds
    while True:
        told = daemon_state(configuration)
        if not isinstance(told, str) and told.mode not in ("disabled", ""):
            print(f"the daemon has resumed: mode {told.mode}")
            return 0
        if time.monotonic() >= deadline:
            break
        time.sleep(_PAUSE)
    what = told if isinstance(told, str) else "it still reports that it is disabled"
    print(f"it is not known whether the daemon has resumed after {seconds:g} s: {what}")
    return 1


def _wait_until_taken_back(known: KnownConfiguration, seconds: float) -> int:
    """Wait `seconds` at most and print the result; 1 if a factor is left or that is not known.

    The daemon reports that it is disabled, and empties its state file when it has restored its
    factors; only then is Slurm queried.
    """
    become_state_owner(known.configuration)  # whatever only root may write is written
    state = known.state_file
    if known.faults and not may_exist(state):
        print(f"it is not known whether a daemon runs or factors are left: {state} is missing")
        return 1
    runs = daemon_runs(state)
    began, asked = time.monotonic(), -_SLURM_PAUSE
    left: tuple[bool, str] | None = None
    noticed = runs is False
    while runs is not False and time.monotonic() - began < seconds:
        waited = time.monotonic() - began
        told = daemon_state(known.configuration)
        if not isinstance(told, str):
            noticed = noticed or told.mode in _QUIET
        follows = noticed or (isinstance(told, str) and waited >= _NOTICED)
        done = follows and not _outstanding(known)
        if done and waited - asked >= _SLURM_PAUSE:
            asked, left = waited, _left(known)
            if left == _CLEAN:
                break
        time.sleep(_PAUSE)
    else:
        left = _left(known)
    print(_sentence(left, runs, noticed, seconds))
    return 0 if left == _CLEAN and noticed else 1


def _outstanding(known: KnownConfiguration) -> tuple[str, ...]:
    entries = outstanding_at(known.state_file)
    return tuple(entry.words for entry in entries if entry.is_outstanding())


def _left(known: KnownConfiguration) -> tuple[bool, str]:
    """Whether it is known what is left in the batch system; then what, else why it is not."""
    outstanding = _outstanding(known)
    try:
        pending = build_batch_system(known.configuration, []).snapshot().pending
    except SlurmRLError as error:
        return False, f"it is not known whether factors are left: {error}"
    count = int(np.count_nonzero(pending.factor))
    words = [f"{count} pending jobs carry a factor", *outstanding] if count or outstanding else []
    return True, "; ".join(words)


def _sentence(left: tuple[bool, str], runs: bool | None, noticed: bool, seconds: float) -> str:
    is_known, what = left
    if not is_known:
        return what
    if not what and noticed:
        return f"{_WHOSE[runs]}: no pending job carries a factor"
    if not what:
        return (
            f"no pending job carries a factor, but the daemon has not said within {seconds:g} s "
            "that it goes by this file: see `slurm-rl status` and its log, and reload it if "
            "[hook] disable_file was changed"
        )
    if runs is False:
        return f"no daemon runs, and {what}: restore them with `slurm-rl release`"
    return (
        f"after {seconds:g} s {what}: the daemon may be in a cycle, see `slurm-rl status`; if they "
        "stay, stop the daemon and run `slurm-rl release`"
    )
