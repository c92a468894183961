"""`slurm-rl enable`: removes the disable file, and waits until the daemon has gone on."""

from __future__ import annotations

import argparse
import time

from slurm_rl_plugin.cli.assembly.state_owner import become_state_owner
from slurm_rl_plugin.cli.daemon.metrics import daemon_metrics
from slurm_rl_plugin.cli.off_switch.disable_file_options import add_common_options, configured_file
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file, remove_disable_file

#: Seconds between two questions.
_PAUSE = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which daemon goes on, and how many seconds to wait until it does."""
    add_common_options(parser, reason=False)


def main(options: argparse.Namespace) -> int:
    """Enable; 1 where a daemon runs and does not go on."""
    known, path = configured_file(options)
    found = read_disable_file(path)
    remove_disable_file(path)
    print(f"enabled: it was disabled {found.words}" if found else "it was not disabled")
    become_state_owner(known.configuration)
    if daemon_runs(known.state_file) is False:
        print("no daemon runs: start it where the queue is to be ordered")
        return 0
    return _wait_until_it_goes_on(known.configuration, options.wait)


def _wait_until_it_goes_on(configuration: Configuration, seconds: float) -> int:
    """Ask the daemon itself; it looks at the file every few seconds."""
    if not configuration.sections.metrics.port or not seconds:
        print("the daemon goes on within seconds")
        return 0
    deadline = time.monotonic() + seconds
    while True:
        told = daemon_metrics(configuration)
        if not isinstance(told, str) and told.mode not in ("disabled", ""):
            print(f"the daemon goes on: mode {told.mode}")
            return 0
        if time.monotonic() >= deadline:
            break
        time.sleep(_PAUSE)
    what = told if isinstance(told, str) else "it still says that it is disabled"
    print(f"whether the daemon goes on is not known after {seconds:g} s: {what}")
    return 1
