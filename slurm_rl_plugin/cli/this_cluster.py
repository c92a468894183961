"""The jobs and nodes of this host's batch system: `--from slurm` and `--cluster`.

A head node without the simulator reads its accounting too, so nothing here imports the simulator.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.batch_systems.port import BatchSystemKind, LogDump, OwnAccounting
from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS, choose_batch_system
from slurm_rl_plugin.cli.argument_types import positive_number, result_file, time_argument
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

#: Word for this cluster's accounting with `--from`, and for its nodes with `--cluster`.
SLURM, LIVE = "slurm", "live"
#: Time-outs of a query of one month and of any other command, seconds.
SECONDS, SECONDS_OF_OTHERS = 600.0, 60.0
#: `processors_from` if the size of the machine is unknown: the most processors in use at once.
PEAK = "peak"
_WHENCE = {
    "sinfo": "the whole cluster, from sinfo; --processors changes it",
    "sshare": "Slurm's own, from sshare; --shares changes them",
    "work": "fractions of the work: sshare has no shares of these accounts",
    "scontrol": "by its billing weights and factors",
    "options": "as given",
    "cluster": "from --cluster",
}


class SlurmOrModel(argparse.Action):
    """`--from slurm` gives the source of jobs, `--from MODEL` the model to start from."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the word `slurm` as `source`, and any other as `start`."""
        del parser, option_string
        setattr(namespace, "source" if values == SLURM else "start", values)


def add_cluster_option(parser: argparse.ArgumentParser) -> None:
    """Add --cluster, the machine on whose nodes jobs are simulated."""
    parser.add_argument(
        "--cluster",
        metavar=f"SLURM.CONF|{LIVE}",
        help="simulate the nodes of this slurm.conf, with gres.conf and sacctmgr's output next to "
        f"it, or of openb's list of nodes; {LIVE}: the nodes of this host's batch system",
    )


def add_slurm_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `--from slurm` except `--from`."""
    group = parser.add_argument_group("the cluster's own accounting (--from slurm)")
    since, until = "first end time of jobs", "last end time of jobs (default: now)"
    group.add_argument("--since", type=_local_time, metavar="TIME", help=since)
    group.add_argument("--until", type=_local_time, metavar="TIME", help=until)
    keep = "also write the output of sacct to this file, which can be used as LOG"
    group.add_argument("--keep", type=Path, metavar="FILE", help=keep)
    group.add_argument(
        "--sacct-timeout",
        type=positive_number,
        default=SECONDS,
        metavar="SECONDS",
        help=f"time-out of each query of one month (default: {SECONDS:g})",
    )


def named_machine(cluster: str, adapter: str, environment: Mapping[str, str]) -> Machine:
    """The machine that --cluster names: a path, or LIVE for the batch system of this host.

    Args:
        adapter: as configured, or AUTO.
        environment: shows which batch system is installed.
    """
    if cluster != LIVE:
        return read_machine(Path(cluster))
    kind = _kind_here(adapter, environment)
    if kind.machine is None:
        raise ConfigurationError(f"--cluster {LIVE}: {kind.title} cannot list its nodes.")
    return kind.machine(SECONDS_OF_OTHERS)


def described_cluster(
    cluster: str, adapter: str, environment: Mapping[str, str]
) -> DescribedCluster:
    """The description of the cluster that --cluster names, to which changes can be applied."""
    if cluster == LIVE:
        kind = _kind_here(adapter, environment)
        if kind.cluster is None:
            raise ConfigurationError(
                f"--cluster {LIVE}: {kind.title} has no slurm.conf to change: give --cluster FILE."
            )
        return kind.cluster(SECONDS_OF_OTHERS)
    if is_node_list(Path(cluster)):
        raise ConfigurationError(
            f"--cluster {cluster}: a list of nodes has nothing to change: give a slurm.conf."
        )
    return read_cluster(Path(cluster))


def _kind_here(adapter: str, environment: Mapping[str, str]) -> BatchSystemKind:
    kind = choose_batch_system(adapter, environment).kind
    if lacks := kind.lacks(environment):
        problem = f"no {kind.title} is here ({lacks})"
        raise ConfigurationError(f"--cluster {LIVE}: {problem}: give the path of a slurm.conf.")
    return kind


def own_accounting(timeout: float = SECONDS_OF_OTHERS) -> OwnAccounting:
    """Slurm's accounting, sinfo, sshare and scontrol, each with this time-out in seconds."""
    asks = BATCH_SYSTEMS[SLURM].accounting
    assert asks is not None
    return asks(timeout)


def check_slurm_options(options: LogOptions) -> None:
    """Refuse options that exclude each other, before any query."""
    if options.source is None:
        for name in ("since", "until", "keep"):
            if getattr(options, name) is not None:
                raise ConfigurationError(f"--{name} needs --from slurm: give both.")
        return
    if options.since is None:
        raise ConfigurationError("--from slurm needs --since: give such as --since 2026-01-01.")
    if options.keep is not None:
        result_file("--keep", options.keep)
    own_accounting(options.sacct_timeout).check()


def ask_accounting(options: LogOptions, now: datetime) -> tuple[JobLog, ReadReport, dict[str, Any]]:
    """The jobs that ended between --since and --until, the report, and the queries."""
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
    """Write the accounting of a time span, for a host that has the simulator."""
    begin = datetime.fromtimestamp(since).replace(microsecond=0)
    end = datetime.now() if until is None else datetime.fromtimestamp(until)
    end = end.replace(microsecond=0)
    dump = _dump(own_accounting(SECONDS), begin, end)
    if not dump.lines:
        raise ConfigurationError(
            f"--keep {path} is not written: no job ended between {begin} and {end}: give another "
            "--since."
        )
    _keep(path, dump)


def _keep(path: Path, dump: LogDump) -> None:
    """Write a dump; ConfigurationError if that fails, so that a report is printed without it."""
    try:
        write_whole(path, dump.text.encode())
    except OSError as error:
        raise ConfigurationError(
            f"--keep {path}: the file cannot be written ({error.strerror}): name another."
        ) from None


def _dump(accounting: OwnAccounting, since: datetime, until: datetime) -> LogDump:
    if since >= until:
        raise ConfigurationError(f"--since {since} is not before --until {until}: exchange them.")
    queries = accounting.queries(since, until)
    with progress_bar("sacct, month by month", queries, "lines") as progress:
        return accounting.dump(since, until, progress)


def print_origin(
    origin: Mapping[str, Any], whence: Mapping[str, str], prepared: PreparedLog
) -> None:
    """Print the number of jobs, the size of the machine and the shares, with their sources."""
    if not origin:
        return
    dropped = ", ".join(f"{count} {reason}" for reason, count in origin["dropped"].items())
    both = zip(prepared.accounts, prepared.shares.tolist(), strict=True)
    shares = ", ".join(f"{name}={share:.3g}" for name, share in both)
    print(
        f"accounting: {origin['records']} jobs ended {origin['since']} to {origin['until']}; "
        f"used: {len(prepared.log)}" + (f" (not: {dropped})" if dropped else "")
    )
    print(f"processors: {prepared.capacity} ({_WHENCE[whence['processors_from']]})")
    print(f"shares: {shares} ({_WHENCE[whence['shares_from']]})")
    if "billing_from" in whence:
        print(f"usage: as the site bills it ({_WHENCE[whence['billing_from']]})")


def _local_time(text: str) -> datetime:
    return datetime.fromtimestamp(time_argument(text.strip().replace(" ", "T"))).replace(
        microsecond=0
    )
