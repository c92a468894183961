"""`slurm-rl release`: take back every factor that the daemon wrote, running or not."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import BatchSystem, LimitsBatch
from slurm_rl_plugin.cli.configuration_arguments import (
    add_configuration_options,
    configuration_in_part,
    configuration_of,
)
from slurm_rl_plugin.cli.hook_assembly import (
    build_batch_system,
    class_defaults_path,
    limits_path,
)
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import BatchSystemUnavailable, SlurmRLError
from slurm_rl_plugin.hook.carried_factors import CarriedFactors
from slurm_rl_plugin.hook.class_defaults import (
    factors_may_stand,
    forget_given,
    mark_given,
)
from slurm_rl_plugin.hook.cycle import NOBODY_IN_CHARGE
from slurm_rl_plugin.hook.daemon import daemon_runs, only_daemon
from slurm_rl_plugin.hook.state_file import StateFile
from slurm_rl_plugin.whole_file import may_exist

NOT_OURS = "released nothing: another host's controller is in charge; give --force to do it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_configuration_options(parser)
    parser.add_argument(
        "--force", action="store_true", help="beside a controller that is not in charge too"
    )
    parser.add_argument(
        "--unattended",
        action="store_true",
        help="nothing while a daemon runs or no factor of ours stands; for systemd",
    )


def main(options: argparse.Namespace) -> int:
    """Release every job, whoever gave it a factor; 1 where one keeps it for now."""
    if options.unattended:
        return _release_unattended(options)
    configuration = configuration_of(options)
    beside = configuration.values["hook"]["beside_controllers"]
    return _release(configuration, beside and not options.force)


def _release_unattended(options: argparse.Namespace) -> int:
    """A fault in the configuration may be why the daemon is gone: factors must not stand for it."""
    configuration, faults = configuration_in_part(options)
    said = "".join(f"slurm-rl release: {fault}\n" for fault in faults)
    if configuration is None:  # nobody knows where the state file is
        sys.stderr.write(f"{said}slurm-rl release: nothing is taken back until it can be read.\n")
        return 1
    state = Path(configuration.values["hook"]["state_file"])
    nothing_stands = StateFile(state).read() == set() and not may_exist(limits_path(state))
    nothing_stands &= not factors_may_stand(class_defaults_path(configuration))
    if daemon_runs(state) or nothing_stands:
        return 0
    sys.stderr.write(said)
    beside = configuration.values["hook"]["beside_controllers"]
    # the faulty key may be the one that says that there are two daemons
    return _release(configuration, bool(beside or faults) and not options.force, quiet=True)


def _release(configuration: Configuration, heeds_others: bool, *, quiet: bool = False) -> int:
    """Release all.

    Args:
        configuration: of the site.
        heeds_others: not beside a controller that is not in charge.
        quiet: says nothing then.
    """
    state = StateFile(Path(configuration.values["hook"]["state_file"]))
    with only_daemon(state.path):  # a running daemon would order the queue again at once
        slurm = build_batch_system(configuration, [])
        in_charge = slurm.facts().in_charge if heeds_others else True
        if in_charge is None:
            raise BatchSystemUnavailable(NOBODY_IN_CHARGE)
        if not in_charge:
            if not quiet:
                print(NOT_OURS)
            return 0
        limited = _take_limit_back(slurm, state.path)
        defaults = class_defaults_path(configuration)
        if defaults is not None:
            mark_given(defaults)  # or new jobs would go on to get factors
        # running jobs too: a requeued one comes back with the factor that it had
        results = [CarriedFactors(state).release(slurm)]
        # what then still carries a factor is in no state file
        results.append(slurm.release(None))
        later = frozenset[int]().union(*(result.later for result in results))
        state.write(later)
        if defaults is not None and not later:
            forget_given(defaults)
    rejected = {job: why for result in results for job, why in result.rejected.items()}
    print(f"released {sum(result.applied for result in results)} jobs")
    for job, why in sorted(rejected.items()):
        print(f"job {job}: {why}")
    return 1 if later or limited else 0


def _take_limit_back(slurm: BatchSystem, state: Path) -> bool:
    """Give batch jobs back what a reserve takes from them; whether that has to be done later.

    Factors are taken back whatever becomes of it.
    """
    if not may_exist(limits_path(state)) or not isinstance(slurm, LimitsBatch):
        return False
    try:
        slurm.limit_batch(None)
    except SlurmRLError as error:
        sys.stderr.write(f"slurm-rl release: the limit on batch jobs stays for now: {error}\n")
        return True
    print("released the limit on batch jobs")
    return False
