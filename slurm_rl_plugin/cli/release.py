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
    parser.add_argument(
        "--force", action="store_true", help="beside a controller that is not in charge too"
    )


def main(options: argparse.Namespace) -> int:
    """Release every pending job, whoever gave it a factor; 1 where one keeps it for now."""
    configuration = read_configuration(options.config or DEFAULT_PATH)
    state = StateFile(Path(configuration.values["hook"]["state_file"]))
    with only_daemon(state.path):  # a running daemon would order the queue again at once
        slurm = build_batch_system(configuration, [])
        beside = configuration.values["hook"]["beside_controllers"]
        if beside and not options.force and not slurm.facts().in_charge:
            print("released nothing: another host's controller is in charge; give --force to do it")
            return 0
        # running jobs too: a requeued one comes back with the factor that it had
        known = np.array(sorted(state.read() or ()), dtype=np.int64)
        results = [slurm.release(None), slurm.release(known)]
        later = frozenset[int]().union(*(result.later for result in results))
        state.write(later)
    rejected = {job: why for result in results for job, why in result.rejected.items()}
    print(f"released {sum(result.applied for result in results)} jobs")
    for job, why in sorted(rejected.items()):
        print(f"job {job}: {why}")
    return 1 if later else 0
