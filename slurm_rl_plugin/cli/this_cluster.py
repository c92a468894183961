"""What this host's batch system says of its own jobs and nodes: `--from slurm` and `--cluster`.

A head node has no simulator and asks its accounting all the same, so nothing here imports one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.batch_systems.kind import BatchSystemKind, LogDump, OwnAccounting
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS, choose_batch_system
from slurm_rl_plugin.cli.argument_types import positive_number
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.reader import (
    DescribedCluster,
    is_node_list,
    read_cluster,
    read_machine,
)
from slurm_rl_plugin.whole_file import write_whole

if TYPE_CHECKING:
    from slurm_rl_plugin.evaluation.named_log import LogOptions
    from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog

#: What `--from` calls this cluster's accounting, and `--cluster` its nodes.
SLURM, LIVE = "slurm", "live"
#: Seconds that a query of one month may take, and that any other command may.
SECONDS, SECONDS_OF_OTHERS = 600.0, 60.0
#: `processors_from` if the machine's size is not known: the most that was in use at once.
PEAK = "peak"
_WHENCE = {
    "sinfo": "all of the cluster's, by sinfo; --processors gives others",
    "sshare": "Slurm's own, by sshare; --shares gives others",
    "work": "fractions of the work: sshare has none of these accounts",
    "scontrol": "by its billing weights and factors",
    "options": "as given",
    "cluster": "of --cluster",
}


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


def add_cluster_option(parser: argparse.ArgumentParser) -> None:
    """Add --cluster: the machine on whose nodes jobs are simulated, of a file or of this host."""
    parser.add_argument(
        "--cluster",
        metavar=f"SLURM.CONF|{LIVE}",
        help="the jobs run on the nodes that this slurm.conf describes, with gres.conf and "
        "sacctmgr's output beside it, or openb's list of nodes; "
        f"{LIVE}: on those of this host's batch system, by its commands",
    )


def add_slurm_options(parser: argparse.ArgumentParser) -> None:
    """Options of --from slurm, but for `--from` itself."""
    group = parser.add_argument_group("the cluster's own accounting (--from slurm)")
    since, until = "jobs that ended from this day or time on", "and until then (default: now)"
    group.add_argument("--since", type=_local_time, metavar="TIME", help=since)
    group.add_argument("--until", type=_local_time, metavar="TIME", help=until)
    keep = "also write what sacct gave; it is a LOG"
    group.add_argument("--keep", type=Path, metavar="FILE", help=keep)
    group.add_argument(
        "--sacct-timeout",
        type=positive_number,
        default=SECONDS,
        metavar="SECONDS",
        help=f"allowed for each query, one a month (default: {SECONDS:g})",
    )


def named_machine(cluster: str, adapter: str, environment: Mapping[str, str]) -> Machine:
    """The machine that --cluster names: by a path, or LIVE for the batch system that is here.

    `adapter` is as configured, AUTO where nobody has; `environment` tells what is here.
    """
    if cluster != LIVE:
        return read_machine(Path(cluster))
    kind = _kind_here(adapter, environment)
    if kind.machine is None:
        raise ConfigurationError(f"--cluster {LIVE}: {kind.title} tells of no nodes here.")
    return kind.machine(SECONDS_OF_OTHERS)


def described_cluster(
    cluster: str, adapter: str, environment: Mapping[str, str]
) -> DescribedCluster:
    """What is said of the cluster that --cluster names, so that changes can be tried on it."""
    if cluster == LIVE:
        kind = _kind_here(adapter, environment)
        if kind.cluster is None:
            raise ConfigurationError(
                f"--cluster {LIVE}: changes are those of a slurm.conf, and {kind.title} has none."
            )
        return kind.cluster(SECONDS_OF_OTHERS)
    if is_node_list(Path(cluster)):
        raise ConfigurationError(
            f"--cluster {cluster}: a list of nodes says nothing that could be changed: give a "
            "slurm.conf."
        )
    return read_cluster(Path(cluster))


def _kind_here(adapter: str, environment: Mapping[str, str]) -> BatchSystemKind:
    kind = choose_batch_system(adapter, environment).kind
    here = kind.presence(environment)
    if not here.is_here:
        problem = f"no {kind.title} is here ({here.lacks})"
        raise ConfigurationError(f"--cluster {LIVE}: {problem}: give the path of a slurm.conf.")
    return kind


def own_accounting(timeout: float = SECONDS_OF_OTHERS) -> OwnAccounting:
    """Slurm's accounting, sinfo, sshare and scontrol, each with this timeout in seconds."""
    asks = BATCH_SYSTEMS[SLURM].accounting
    assert asks is not None
    return asks(timeout)


def check_slurm_options(options: LogOptions) -> None:
    """Refuse what does not go together, before anything is asked."""
    if options.source is None:
        for name in ("since", "until", "keep"):
            if getattr(options, name) is not None:
                raise ConfigurationError(f"--{name} belongs to --from slurm: give both.")
        return
    if options.since is None:
        raise ConfigurationError("--from slurm needs a beginning: give --since 2026-01-01.")
    if options.keep is not None and not options.keep.resolve().parent.is_dir():
        raise ConfigurationError(f"--keep {options.keep}: there is no such folder; make it.")
    own_accounting(options.sacct_timeout).check()


def ask_accounting(options: LogOptions, now: datetime) -> tuple[JobLog, ReadReport, dict[str, Any]]:
    """The jobs that ended between --since and --until, the report, and how they were asked for."""
    until = options.until or now.replace(microsecond=0)
    since = options.since or until
    accounting = own_accounting(options.sacct_timeout)
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
    return log, report, origin


def keep_dump(path: Path, since: float, until: float | None) -> None:
    """Write what accounting gives of a time; for those who have no simulator to use it here."""
    begin = datetime.fromtimestamp(since).replace(microsecond=0)
    end = datetime.now() if until is None else datetime.fromtimestamp(until)
    end = end.replace(microsecond=0)
    dump = _dump(own_accounting(SECONDS), begin, end)
    if not dump.lines:
        raise ConfigurationError(
            f"--keep {path} is not written: accounting has no job that ended between {begin} and "
            f"{end}: give another --since."
        )
    _keep(path, dump)


def _dump(accounting: OwnAccounting, since: datetime, until: datetime) -> LogDump:
    if since >= until:
        raise ConfigurationError(f"--since {since} is not before --until {until}: turn them.")
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


def print_origin(
    origin: Mapping[str, Any], whence: Mapping[str, str], prepared: PreparedLog
) -> None:
    """Print the number of jobs, the machine's size and the shares, each with its source."""
    if not origin:
        return
    dropped = ", ".join(f"{count} {reason}" for reason, count in origin["dropped"].items())
    both = zip(prepared.accounts, prepared.shares.tolist(), strict=True)
    shares = ", ".join(f"{name}={share:.3g}" for name, share in both)
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
