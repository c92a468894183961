"""`slurm-rl release`: take back every factor that the daemon wrote, running or not."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from slurm_rl_plugin.cli.hook_assembly import build_batch_system
from slurm_rl_plugin.configuration import DEFAULT_PATH, read_configuration
from slurm_rl_plugin.hook.daemon import only_daemon
from slurm_rl_plugin.hook.state_file import StateFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"default {DEFAULT_PATH}")


def main(options: argparse.Namespace) -> int:
    """Release every pending job, whoever gave it a factor."""
    configuration = read_configuration(options.config or DEFAULT_PATH)
    state = StateFile(Path(configuration.values["hook"]["state_file"]))
    with only_daemon(state.path):  # a running daemon would order the queue again at once
        slurm = build_batch_system(configuration, [])
        # running jobs too: a requeued one comes back with the factor that it had
        known = np.array(sorted(state.read() or ()), dtype=np.int64)
        results = [slurm.release(None), slurm.release(known)]
        state.write(())
    rejected = {job: why for result in results for job, why in result.rejected.items()}
    print(f"released {sum(result.applied for result in results)} jobs")
    for job, why in sorted(rejected.items()):
        print(f"job {job}: {why}")
    return 0
