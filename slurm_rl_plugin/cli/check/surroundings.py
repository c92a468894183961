"""Checks of `slurm-rl check` on what stands around the daemon: files, port, clock, accounting."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.slurm.answers.load import SDIAG
from slurm_rl_plugin.batch_systems.slurm.answers.shares import parse_shares
from slurm_rl_plugin.batch_systems.slurm.cluster import SSHARE
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.cli.check.batch_system import FAIL, PASS, WARN, SiteCheck
from slurm_rl_plugin.cli.check.class_defaults import class_defaults_of
from slurm_rl_plugin.cli.daemon.metrics import daemon_metrics
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from slurm_rl_plugin.metrics.served import ServedMetrics

#: One question to slurmdbd that costs it nothing.
SACCT = ("sacct", "--noheader", "-X", "-S", "now-1minutes", "-o", "JobIDRaw")
#: Seconds between the clocks: slurmctld tells whole ones; munge refuses from 300 on.
_NEAR, _FAR = 2.0, 30.0
#: Names that one line shows.
_SHOWN = 5
_ANSWERED = re.compile(r"^sdiag output at .*\((?P<time>\d+)\)", re.MULTILINE)


def files_of(configuration: Configuration, now: float) -> Iterator[SiteCheck]:
    """Whether the daemon's files can be written by this user, and nothing is switched off."""
    hook = configuration.values["hook"]
    for name in ("state_file", "audit_file"):
        if not hook[name]:
            continue
        folder = Path(hook[name]).parent
        if os.access(folder, os.W_OK | os.X_OK):
            yield SiteCheck(PASS, name, f"{folder} is writable for this user")
        else:
            yield SiteCheck(FAIL, name, f"{folder} is missing or not writable for this user")
    path = configuration.disable_file
    found = None if path is None else read_disable_file(path)
    if found is not None and found.counts(now):
        yield SiteCheck(WARN, "disable_file", f"disabled {found.words}: `slurm-rl enable` ends it")
    elif path is not None and not path.parent.is_dir():
        yield SiteCheck(WARN, "disable_file", f"{path.parent} is missing: make it, or nobody can")
    else:
        yield SiteCheck(PASS, "disable_file", "nothing is disabled")


def port_of(configuration: Configuration) -> SiteCheck:
    """Whether the port of the metrics is free, or ours."""
    where = configuration.values["metrics"]
    address, port = where["address"], where["port"]
    if port == 0:
        return SiteCheck(
            WARN, "metrics port", "0 is any free one, which nobody can ask: set [metrics] port"
        )
    fault = why_not_listen(address, port)
    if fault is None:
        return SiteCheck(PASS, "metrics port", f"{port} is free")
    if isinstance(daemon_metrics(configuration), ServedMetrics):
        return SiteCheck(PASS, "metrics port", f"{port}: a daemon of ours answers there")
    return SiteCheck(
        FAIL, "metrics port", f"{address}:{port}: {fault}; set [metrics] port to another"
    )


def why_not_listen(address: str, port: int) -> str | None:
    """Why nobody could listen there now; None where one could."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemon does
            probe.bind(target)
    except OSError as error:
        return str(error.strerror)
    return None


def clock_of(runner: CommandRunner, clock: Callable[[], float]) -> SiteCheck:
    """The clock of this host beside the time at which slurmctld says that it answered."""
    before = clock()
    try:
        found = _ANSWERED.search(runner.read(SDIAG))
    except BatchSystemError as error:
        return SiteCheck(FAIL, "clock", str(error))
    if found is None:
        return SiteCheck(WARN, "clock", "not compared: sdiag does not say when slurmctld answered")
    told, after = float(found["time"]), clock()
    apart = max(before - 1.0 - told, told - after, 0.0)  # whole seconds, rounded down
    what = f"slurmctld's is {apart:.0f} s off this host's"
    if apart > _FAR:
        return SiteCheck(FAIL, "clock", f"{what}: waits are wrong; set both by NTP")
    if apart > _NEAR:
        return SiteCheck(WARN, "clock", f"{what}: set both by NTP")
    return SiteCheck(PASS, "clock", "slurmctld's and this host's agree")


def accounting_of(configuration: Configuration, runner: CommandRunner, learns: bool) -> SiteCheck:
    """Whether `sacct` answers; a model that learns from runs begins with nothing otherwise."""
    try:
        runner.read(SACCT)
    except BatchSystemError as error:
        wanted = learns and configuration.values["batch_system"]["history_days"] > 0
        rest = "the model begins without past runs" if wanted else "only reports need it"
        return SiteCheck(FAIL if wanted else WARN, "accounting", f"{error}; {rest}")
    return SiteCheck(PASS, "accounting", "sacct answers")


def shares_of(configuration: Configuration, runner: CommandRunner) -> SiteCheck:
    """Configured accounts that Slurm does not know, and the reverse."""
    try:
        tree = parse_shares(runner.read(SSHARE))
    except BatchSystemError as error:
        return SiteCheck(FAIL, "shares", str(error))
    if configuration.shares is None:
        if any(tree.shares.values()):
            return SiteCheck(PASS, "shares", f"Slurm's own, of {len(tree.shares)} accounts")
        return SiteCheck(
            WARN, "shares", "sshare tells none: give them with sacctmgr, or in [shares]"
        )
    unknown = sorted(set(configuration.shares) - set(tree.shares))
    if unknown:
        return SiteCheck(
            FAIL,
            "shares",
            f"Slurm has no account with users called {_names(unknown)}: write the names as "
            "`sacctmgr show assoc` does, or leave them out of [shares]",
        )
    missing = sorted(set(tree.shares) - set(configuration.shares))
    if missing:
        return SiteCheck(WARN, "shares", f"not in [shares], so with share 0: {_names(missing)}")
    return SiteCheck(PASS, "shares", f"all {len(configuration.shares)} accounts are Slurm's too")


def surroundings_of(
    configuration: Configuration, learns: bool, clock: Callable[[], float]
) -> Iterator[SiteCheck]:
    """Those that ask Slurm's commands.

    Args:
        configuration: of the site.
        learns: whether the model wants to know past runs.
        clock: seconds since the epoch.
    """
    timeout = float(configuration.values["batch_system"]["timeout"])
    runner = CommandRunner(environment=None, timeout=timeout, on_call=None)
    yield clock_of(runner, clock)
    yield accounting_of(configuration, runner, learns)
    yield shares_of(configuration, runner)
    yield from class_defaults_of(configuration, runner)


def now() -> float:
    """The clock of this host."""
    return time.time()  # noqa: TID251 - the composition root


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
