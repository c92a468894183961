"""`slurm-rl pause`: disables for some time; the daemon goes on by itself afterwards."""

from __future__ import annotations

import argparse
import math
import sys
import time

from slurm_rl_plugin.cli.argument_types.slurm_times import parse_slurm_duration
from slurm_rl_plugin.cli.off_switch.disable_file_options import (
    acting_user,
    add_common_options,
    configured_file,
)
from slurm_rl_plugin.cli.off_switch.factors_taken_back import wait_until_taken_back
from slurm_rl_plugin.hook.memory.disable_file import (
    Disablement,
    read_disable_file,
    write_disable_file,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How long writing stops and why, and how many seconds to wait until all factors are back."""
    parser.add_argument(
        "--for",
        dest="span",
        type=parse_slurm_duration,
        required=True,
        metavar="TIME",
        help="30m, 2h, 1-00:00:00; a number alone is minutes, as everywhere in Slurm",
    )
    add_common_options(parser, reason=True)


def main(options: argparse.Namespace) -> int:
    """Pause; 1 where somebody has switched off for longer, a factor is left, or nobody can tell."""
    known, path = configured_file(options)
    now = time.time()  # noqa: TID251 - the composition root
    until = float(math.ceil(now + options.span))  # the file holds whole seconds
    made = Disablement(by=acting_user(), at=now, until=until, reason=options.reason)
    found = read_disable_file(path)
    if found is not None and found.until > made.until:
        sys.stderr.write(
            f"slurm-rl pause: it is disabled {found.words} already: a pause would end that early; "
            "`slurm-rl enable` first if that is meant.\n"
        )
        return 1
    write_disable_file(path, made)
    print(f"paused {made.words}: {path}")
    return wait_until_taken_back(known, options.wait)
