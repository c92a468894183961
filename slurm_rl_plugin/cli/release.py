"""`slurm-rl release`: restore every factor that the daemon wrote, whether it runs or not."""

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
from slurm_rl_plugin.hook.cycle_report import NOBODY_IN_CHARGE
from slurm_rl_plugin.hook.daemon.lock import is_looked_after, only_daemon
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.outstanding import Outstanding, outstanding_at
from slurm_rl_plugin.services.configured_site import build_batch_system
from slurm_rl_plugin.whole_file import may_exist

NOT_OURS = "released nothing: another host's controller is in charge; give --force to do it"
NOT_KNOWN = (
    "neither the configuration nor a state file can be read, so it is not known what was written: "
    "repair one, give --state-file, or restore the factors by"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The state file, and whether to act next to another controller or unattended."""
    add_rollback_options(parser)
    parser.add_argument(
        "--force", action="store_true", help="act even if the controller here is not in charge"
    )
    parser.add_argument(
        "--unattended",
        action="store_true",
        help="do nothing if a daemon runs or no factor is outstanding; for systemd",
    )


def main(options: argparse.Namespace) -> int:
    """Release every job, whatever wrote its factor; 1 if a job keeps its factor for now."""
    known = known_configuration_of(options, quiet=True)
    become_state_owner(known.configuration)
    if options.unattended and _rests(known):
        return 0
    print_faults("release", known)
    if not (known.is_read or may_exist(known.state_file)):
        return _fail(f"{NOT_KNOWN} {taken_back_by_hand(os.environ)}.")
    if options.unattended and not may_exist(known.state_file) and not _is_outstanding(known):
        return _look_for_factors(known)
    return _release(known, force=options.force, unattended=options.unattended)


def _rests(known: KnownConfiguration) -> bool:
    """Whether there is nothing to do: no factor can be outstanding, or a daemon runs.

    A fault in the configuration may have ended the daemon: its factors must not stay because of
    it. A missing state file proves nothing if the mode is active or not known: the daemon may have
    lost it. LockHeld if factors may be outstanding and the lock's holder is not a daemon.
    """
    is_active = known.configuration.sections.hook.mode == "active"
    is_proof = may_exist(known.state_file) or not (known.faults or is_active)
    if is_proof and not _is_outstanding(known):
        return True
    return is_looked_after(known.state_file)


def _is_outstanding(known: KnownConfiguration) -> bool:
    return any(entry.is_outstanding() for entry in outstanding_at(known.state_file))


def _look_for_factors(known: KnownConfiguration) -> int:
    """No file remembers a factor: those in the queue may be another program's, so ask a person."""
    pending = build_batch_system(known.configuration, []).snapshot().pending
    carrying = int(np.count_nonzero(pending.factor))
    if not carrying:
        return 0
    return _fail(
        f"{carrying} pending jobs carry a factor, and {known.state_file} is missing, so it is not "
        "known whether the daemon wrote them: `slurm-rl release` restores all of them."
    )


def _release(known: KnownConfiguration, *, force: bool, unattended: bool) -> int:
    """Restore every factor and limit of the daemon, holding its lock meanwhile."""
    with only_daemon(known.state_file):  # a running daemon would order the queue again at once
        system = build_batch_system(known.configuration, [])
        # a faulty key may be the one that says that two daemons run
        beside_others = known.beside_controllers is not False and not force
        in_charge = system.facts().in_charge if beside_others else True
        if in_charge is None:
            raise BatchSystemUnavailable(NOBODY_IN_CHARGE)
        if not in_charge:
            return 0 if unattended and known.beside_controllers else _fail(NOT_OURS)
        return _take_all_back(known, system)


def _take_all_back(known: KnownConfiguration, system: BatchSystem) -> int:
    """Restore all that is outstanding, and report it; 1 if a part is left."""
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
            _fail(f"{words}: {error}")
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
            _fail(str(error))
            is_left = True
    if is_lost:
        _fail(f"{state.path} is missing: running jobs may keep a factor.")
    _print_report(report)
    return 1 if report.later or failed or is_lost or is_left else 0


def _print_report(report: ApplyReport) -> None:
    print(f"released {report.applied} jobs")
    for job in sorted(report.later & report.rejected.keys()):
        print(f"job {job}: {report.rejected[job]}")
    gone = Counter(why for job, why in report.rejected.items() if job not in report.later)
    if gone:
        reasons = ", ".join(f"{count} {why!r}" for why, count in gone.most_common())
        print(f"{gone.total()} jobs have started or ended and carry no factor: {reasons}")


def _fail(sentence: str) -> int:
    with suppress(OSError):
        print(f"slurm-rl release: {sentence}", file=sys.stderr)
    return 1
