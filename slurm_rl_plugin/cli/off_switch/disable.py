"""`slurm-rl disable`: makes the disable file, and waits until no factor of ours is left."""

from __future__ import annotations

import argparse
import math
import time

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
    """Why writing stops, and how many seconds to wait until all factors are back."""
    add_common_options(parser, reason=True)


def main(options: argparse.Namespace) -> int:
    """Disable without end; 1 where a factor is left, or nobody can tell."""
    known, path = configured_file(options)
    now = time.time()  # noqa: TID251 - the composition root
    found = read_disable_file(path)
    if found is not None and math.isinf(found.until):
        print(f"disabled already {found.words}")
    else:
        made = Disablement(by=acting_user(), at=now, reason=options.reason)
        write_disable_file(path, made)
        print(f"disabled {made.words}: {path}")
    return wait_until_taken_back(known, options.wait)
