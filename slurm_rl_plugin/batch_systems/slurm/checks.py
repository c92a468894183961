"""What `slurm-rl check` asks of Slurm alone: clock, accounting, shares, resources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.load import SDIAG
from slurm_rl_plugin.batch_systems.slurm.answers.shares import parse_shares
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.resource_checks import resource_check
from slurm_rl_plugin.errors import BatchSystemError

#: One question to slurmdbd that costs it nothing.
SACCT = ("sacct", "--noheader", "-X", "-S", "now-1minutes", "-o", "JobIDRaw")
#: Seconds between the clocks: slurmctld tells whole ones; munge refuses from 300 on.
_NEAR, _FAR = 2.0, 30.0
#: Names that one line shows.
_SHOWN = 5
_ANSWERED = re.compile(r"^sdiag output at .*\((?P<time>\d+)\)", re.MULTILINE)


def slurm_checks(
    site: AdapterParts, commands: CommandRunner, sshare: Sequence[str], *, wants_runs: bool
) -> Iterator[Check]:
    """Every check of a site with Slurm.

    Args:
        site: as configured.
        commands: runs Slurm's commands.
        sshare: words of the command that tells shares.
        wants_runs: the policy wants the runs of the past.
    """
    yield _clock(commands, site.clock)
    yield _accounting(commands, wants_runs=wants_runs)
    yield _shares(commands, sshare, site.shares)
    yield resource_check(commands)


def _clock(commands: CommandRunner, clock: Callable[[], float]) -> Check:
    """The clock of this host beside the time at which slurmctld says that it answered."""
    before = clock()
    try:
        found = _ANSWERED.search(commands.read(SDIAG))
    except BatchSystemError as error:
        return Check(FAIL, "clock", str(error))
    if found is None:
        return Check(WARN, "clock", "not compared: sdiag does not say when slurmctld answered")
    told, after = float(found["time"]), clock()
    apart = max(before - 1.0 - told, told - after, 0.0)  # whole seconds, rounded down
    what = f"slurmctld's is {apart:.0f} s off this host's"
    if apart > _FAR:
        return Check(FAIL, "clock", f"{what}: waits are wrong; set both by NTP")
    if apart > _NEAR:
        return Check(WARN, "clock", f"{what}: set both by NTP")
    return Check(PASS, "clock", "slurmctld's and this host's agree")


def _accounting(commands: CommandRunner, *, wants_runs: bool) -> Check:
    """Whether `sacct` answers; a model that learns from runs begins with nothing otherwise."""
    try:
        commands.read(SACCT)
    except BatchSystemError as error:
        rest = "the model begins without past runs" if wants_runs else "only reports need it"
        return Check(FAIL if wants_runs else WARN, "accounting", f"{error}; {rest}")
    return Check(PASS, "accounting", "sacct answers")


def _shares(
    commands: CommandRunner, sshare: Sequence[str], configured: Mapping[str, float] | None
) -> Check:
    """Configured accounts that Slurm does not know, and the reverse."""
    try:
        tree = parse_shares(commands.read(sshare))
    except BatchSystemError as error:
        return Check(FAIL, "shares", str(error))
    if configured is None:
        if any(tree.shares.values()):
            return Check(PASS, "shares", f"Slurm's own, of {len(tree.shares)} accounts")
        return Check(WARN, "shares", "sshare tells none: give them with sacctmgr, or in [shares]")
    unknown = sorted(set(configured) - set(tree.shares))
    if unknown:
        return Check(
            FAIL,
            "shares",
            f"Slurm has no account with users called {_names(unknown)}: write the names as "
            "`sacctmgr show assoc` does, or leave them out of [shares]",
        )
    missing = sorted(set(tree.shares) - set(configured))
    if missing:
        return Check(WARN, "shares", f"not in [shares], so with share 0: {_names(missing)}")
    return Check(PASS, "shares", f"all {len(configured)} accounts are Slurm's too")


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
