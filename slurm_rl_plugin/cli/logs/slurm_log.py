"""`--from slurm`: the log straight from the cluster's accounting, with its size and its shares."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.batch_systems.kind import LogDump, OwnAccounting
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.cli.argument_types import number_above_zero
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import write_whole

if TYPE_CHECKING:  # a head node has no simulator, and reads its accounting all the same
    from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog

#: What `--from` calls this source.
SLURM = "slurm"
#: Seconds that a query of one month may take.
SECONDS = 600.0
#: Seconds that `sinfo` and `sshare` may take.
_SECONDS_OF_OTHERS = 60.0
_WHENCE = {
    "sinfo": "all of the cluster's, by sinfo; --processors gives others",
    "sshare": "Slurm's own, by sshare; --shares gives others",
    "work": "fractions of the work: sshare has none of these accounts",
    "scontrol": "by its billing weights and factors",
    "options": "as given",
    "cluster": "of --cluster",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLog:
    """A log read from this cluster's accounting by `sacct`, and how it was read.

    Attributes:
        log: jobs that ran and ended in the time asked for.
        report: of the reader.
        origin: for manifests and reports: source, since, until, commands, records, dropped.
    """

    log: JobLog
    report: ReadReport
    origin: dict[str, Any]


class SlurmOrModel(argparse.Action):
    """`--from slurm` names the source of jobs, `--from MODEL` the network to start from."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the word `slurm` as `source`, and anything else as `start`, a model."""
        del parser, option_string
        setattr(namespace, "source" if values == SLURM else "start", values)


def add_slurm_options(parser: argparse.ArgumentParser) -> None:
    """Options of the source, but for `--from` itself."""
    group = parser.add_argument_group("the cluster's own accounting (--from slurm)")
    group.add_argument(
        "--since", type=_local_time, metavar="TIME", help="jobs that ended from this day or time on"
    )
    group.add_argument(
        "--until", type=_local_time, metavar="TIME", help="and until then (default: now)"
    )
    group.add_argument(
        "--keep", type=Path, metavar="FILE", help="also write what sacct gave; it is a LOG"
    )
    group.add_argument(
        "--sacct-timeout",
        type=number_above_zero("number of seconds"),
        default=SECONDS,
        metavar="SECONDS",
        help=f"allowed for each query, one a month (default: {SECONDS:g})",
    )


def check_slurm_options(options: LogOptions) -> None:
    """Refuse what does not go together, before anything is asked.

    Raises:
        ConfigurationError: an option of another source, a time that is none, or no `sacct`.
    """
    if options.source is None:
        for name in ("since", "until", "keep"):
            if getattr(options, name) is not None:
                raise ConfigurationError(f"--{name} belongs to --from slurm: give both.")
        return
    if options.since is None:
        raise ConfigurationError("--from slurm needs a beginning: give --since 2026-01-01.")
    if options.keep is not None and not options.keep.resolve().parent.is_dir():
        raise ConfigurationError(f"--keep {options.keep}: there is no such folder; make it.")
    _accounting(options.sacct_timeout).check()


def read_slurm_log(options: LogOptions, now: datetime) -> SlurmLog:
    """Ask accounting for the jobs that ended between --since and --until.

    Args:
        options: checked by `check_slurm_options`.
        now: local time.

    Raises:
        ConfigurationError: times that are none, or a cluster without accounting.
        AccountingLogError: no job ran, or an answer that is no dump.
        BatchSystemError: Slurm does not answer.
    """
    until = options.until or now.replace(microsecond=0)
    since = options.since or until
    if since >= until:
        raise ConfigurationError(f"--since {since} is not before --until {until}: turn them.")
    accounting = _accounting(options.sacct_timeout)
    dump = _dump(accounting, since, until)
    if options.keep is not None:
        _keep(options.keep, dump)
    log, report = accounting.read(dump, f"from {since} to {until}")
    origin = {
        "source": SLURM,
        "since": since.isoformat(),
        "until": until.isoformat(),
        "commands": list(dump.commands),
        "records": report.read,
        "dropped": report.dropped,
    }
    return SlurmLog(log=log, report=report, origin=origin)


def keep_dump(path: Path, since: float, until: float | None) -> None:
    """Write what accounting gives of a time; for those who have no simulator to use it here.

    Args:
        path: of the file, a LOG for other verbs.
        since: seconds since the epoch.
        until: seconds since the epoch; None for now.

    Raises:
        BatchSystemError: accounting does not answer.
        ConfigurationError: times that are none, no accounting, or the file cannot be written.
    """
    begin = datetime.fromtimestamp(since).replace(microsecond=0)
    end = (datetime.now() if until is None else datetime.fromtimestamp(until)).replace(
        microsecond=0
    )
    if begin >= end:
        raise ConfigurationError(f"--since {begin} is not before --until {end}: turn them.")
    dump = _dump(_accounting(SECONDS), begin, end)
    if not dump.lines:
        raise ConfigurationError(
            f"--keep {path} is not written: accounting has no job that ended between {begin} and "
            f"{end}: give another --since."
        )
    _keep(path, dump)


def _accounting(timeout: float) -> OwnAccounting:
    asks = BATCH_SYSTEMS[SLURM].accounting
    assert asks is not None
    return asks(timeout)


def _dump(accounting: OwnAccounting, since: datetime, until: datetime) -> LogDump:
    queries = accounting.queries(since, until)
    with progress_bar("sacct, month by month", queries, "lines") as progress:
        return accounting.dump(since, until, progress)


def _keep(path: Path, dump: LogDump) -> None:
    try:
        write_whole(path, dump.text.encode())
    except OSError as error:
        raise ConfigurationError(
            f"--keep {path}: the file cannot be written ({error.strerror}); name another."
        ) from None


def cluster_processors() -> int:
    """All processors of the cluster; see `OwnAccounting.processors`."""
    return _accounting(_SECONDS_OF_OTHERS).processors()


def slurm_shares(accounts: Sequence[str]) -> dict[str, float] | None:
    """Slurm's shares of these accounts; see `OwnAccounting.shares`."""
    return _accounting(_SECONDS_OF_OTHERS).shares(accounts)


def slurm_billing() -> Billing:
    """What the cluster bills; see `OwnAccounting.billing`."""
    return _accounting(_SECONDS_OF_OTHERS).billing()


def print_origin(
    origin: Mapping[str, Any], whence: Mapping[str, str], prepared: PreparedLog
) -> None:
    """Print how many jobs, the machine's size and the shares, and who told them; else nothing."""
    if not origin:
        return
    dropped = ", ".join(f"{count} {reason}" for reason, count in origin["dropped"].items())
    shares = ", ".join(
        f"{name}={share:.3g}"
        for name, share in zip(prepared.accounts, prepared.shares.tolist(), strict=True)
    )
    print(
        f"accounting: {origin['records']} jobs ended {origin['since']} to {origin['until']}; "
        f"taken: {len(prepared.log)}" + (f" (not: {dropped})" if dropped else "")
    )
    print(f"processors: {prepared.capacity} ({_WHENCE[whence['processors_from']]})")
    print(f"shares: {shares} ({_WHENCE[whence['shares_from']]})")
    if "billing_from" in whence:
        print(f"usage: what the site bills ({_WHENCE[whence['billing_from']]})")


def _local_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is not None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no local time: write 2026-01-31 or 2026-01-31T12:00"
        )
    return time.replace(microsecond=0)
