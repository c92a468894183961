"""`slurm-rl release`: take back every factor that the daemon wrote, running or not."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from contextlib import suppress

import numpy as np

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem
from slurm_rl_plugin.batch_systems.registry import taken_back_by_hand
from slurm_rl_plugin.cli.site_options import (
    add_rollback_options,
    become_state_owner,
    known_configuration_of,
    print_faults,
)
from slurm_rl_plugin.configuration import KnownConfiguration
from slurm_rl_plugin.errors import BatchSystemUnavailable, SlurmRLError
from slurm_rl_plugin.hook.cycle.settings import NOBODY_IN_CHARGE
from slurm_rl_plugin.hook.daemon.lock import is_looked_after, only_daemon
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.outstanding import Outstanding, outstanding_at
from slurm_rl_plugin.services.configured_site import build_batch_system
from slurm_rl_plugin.whole_file import may_exist

NOT_OURS = "released nothing: another host's controller is in charge; give --force to do it"
NOT_KNOWN = (
    "neither the configuration nor a state file can be read, so nobody knows what was written: "
    "mend one, give --state-file, or take factors back by"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The state file, and whether to act beside another controller or unattended."""
    add_rollback_options(parser)
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
    known = known_configuration_of(options, quiet=True)
    become_state_owner(known.configuration)
    if options.unattended and _rests(known):
        return 0
    print_faults("release", known)
    if not (known.is_read or may_exist(known.state_file)):
        return _tell(f"{NOT_KNOWN} {taken_back_by_hand(os.environ)}.")
    if options.unattended and not may_exist(known.state_file) and not _is_outstanding(known):
        return _look_for_factors(known)
    return _release(known, force=options.force, unattended=options.unattended)


def _rests(known: KnownConfiguration) -> bool:
    """Whether nothing is to be done: no factor of ours can stand, or a daemon runs.

    A fault in the configuration may be why the daemon is gone: factors must not stand for it. A
    state file that is not there tells nothing of a site that is to be ordered, or that is not
    known: a daemon of ours may have lost it.

    Raises:
        LockHeld: factors may stand, and what holds the daemon's lock is no daemon.
    """
    is_active = known.configuration.sections.hook.mode == "active"
    tells = may_exist(known.state_file) or not (known.faults or is_active)
    if tells and not _is_outstanding(known):
        return True
    return is_looked_after(known.state_file)


def _is_outstanding(known: KnownConfiguration) -> bool:
    """Whether a file of the daemon says that something may be outstanding."""
    return any(entry.is_outstanding() for entry in outstanding_at(known.state_file))


def _look_for_factors(known: KnownConfiguration) -> int:
    """Nobody remembers a factor: those that stand may be somebody else's, so a person decides."""
    pending = build_batch_system(known.configuration, []).snapshot().pending
    standing = int(np.count_nonzero(pending.factor))
    if not standing:
        return 0
    return _tell(
        f"{standing} pending jobs carry a factor, and {known.state_file} is not there to tell "
        "whether it is ours: `slurm-rl release` takes all of them back."
    )


def _release(known: KnownConfiguration, *, force: bool, unattended: bool) -> int:
    """Take every factor and limit of ours back, holding the daemon's lock meanwhile."""
    with only_daemon(known.state_file):  # a running daemon would order the queue again at once
        system = build_batch_system(known.configuration, [])
        # a faulty key may be the one that says that there are two daemons
        beside_others = known.beside_controllers is not False and not force
        in_charge = system.facts().in_charge if beside_others else True
        if in_charge is None:
            raise BatchSystemUnavailable(NOBODY_IN_CHARGE)
        if not in_charge:
            return 0 if unattended and known.beside_controllers else _tell(NOT_OURS)
        return _take_all_back(known, system)


def _take_all_back(known: KnownConfiguration, system: BatchSystem) -> int:
    """Restore all that is outstanding, and say so; 1 if something of it is left."""
    state, report = StateFile(known.state_file), ApplyReport()
    is_lost = bool(known.faults) and not may_exist(state.path)
    is_left, failed = False, list[Outstanding]()
    bug: Exception | None = None
    for entry in outstanding_at(known.state_file):
        if not entry.is_outstanding():
            continue
        words = entry.words
        try:
            restored = entry.restore(system)
        except SlurmRLError as error:
            failed.append(entry)
            _tell(f"{words}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - raised below, when the others are restored
            failed.append(entry)
            bug = bug or error
            continue
        if entry.path != state.path:  # it concerns no single job
            print(f"released the {entry.name.replace('_', ' ')}")
        report |= restored
    report |= system.release(None)  # a factor that no state file remembers
    if bug is not None:
        raise bug
    if all(entry.path != state.path for entry in failed):  # else its jobs are still to be restored
        try:
            state.write(report.later)
        except SlurmRLError as error:
            _tell(str(error))
            is_left = True
    if is_lost:
        _tell(f"{state.path} is not there: running jobs may keep a factor.")
    _tell_report(report)
    return 1 if report.later or failed or is_lost or is_left else 0


def _tell_report(report: ApplyReport) -> None:
    """How many jobs were released, and which were not."""
    print(f"released {report.applied} jobs")
    for job in sorted(report.later & report.rejected.keys()):
        print(f"job {job}: {report.rejected[job]}")
    gone = Counter(why for job, why in report.rejected.items() if job not in report.later)
    if gone:
        reasons = ", ".join(f"{count} {why!r}" for why, count in gone.most_common())
        print(f"{gone.total()} jobs have started or ended and carry no factor: {reasons}")


def _tell(sentence: str) -> int:
    """On standard error; the exit code of what is not done."""
    with suppress(OSError):
        print(f"slurm-rl release: {sentence}", file=sys.stderr)
    return 1
