"""LOG arguments and what goes with them: reading, shares, processors, estimates."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slurm_rl_plugin.accounting.log_format import is_stored, read_log
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.batch_systems.registry import AUTO
from slurm_rl_plugin.cli.logs.cluster_option import add_cluster_option, named_machine
from slurm_rl_plugin.cli.logs.excerpt import LogExcerpt
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.slurm_log import (
    SLURM,
    SlurmOrModel,
    add_slurm_options,
    check_slurm_options,
    cluster_processors,
    read_slurm_log,
    slurm_billing,
    slurm_shares,
)
from slurm_rl_plugin.cli.number_arguments import at_least_one
from slurm_rl_plugin.configuration import Configuration, read_configuration
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.generators import generated_log, is_generator_name
from slurm_rl_plugin.simulator.workloads.log_shares import check_shares
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.started_jobs import jobs_with_starts
from slurm_rl_plugin.units import FloatArray, IntArray

if TYPE_CHECKING:
    from slurm_rl_plugin.accounting.stored.log import StoredLog


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLog:
    """A log, where it came from and what its reader dropped.

    Attributes:
        name: file name without its folder, or the generator's words.
        prepared: ready to be simulated.
        report: of the reader; a generated log drops nothing.
        origin: what else a manifest tells of a log that came from no file; empty for others.
        whence: of such a log, who told its processors and its shares.
    """

    name: str
    prepared: PreparedLog
    report: ReadReport
    origin: Mapping[str, Any] = field(default_factory=dict)
    whence: Mapping[str, str] = field(default_factory=dict)

    @property
    def dropped(self) -> dict[str, int]:
        """Reason -> jobs left out by the reader or because they do not fit the machine."""
        return {**self.report.dropped, **self.prepared.dropped}

    def with_starts(self) -> NamedLog:
        """The same without the few jobs whose start is not recorded, where starts are replayed."""
        return replace(self, prepared=jobs_with_starts(self.prepared))

    @property
    def words(self) -> str:
        """What names the log on a command line, but for its folder."""
        if not self.origin:
            return self.name
        return "--from {source} --since {since} --until {until}".format(**self.origin)

    @property
    def source(self) -> dict[str, Any]:
        """For manifests: the name and the checksum of what was read."""
        return {
            "log": self.name,
            "sha256": self.report.checksum,
            "jobs": len(self.prepared.log),
            "processors": self.prepared.capacity,
            "class_rule": self.prepared.class_rule,
            **self.origin,
        }


#: What most verbs take of --config.
_CLASSES_AND_SHARES = "take job-class rules and shares from a TOML file"


def add_log_options(
    parser: argparse.ArgumentParser, *, or_model: bool = False, config: str = _CLASSES_AND_SHARES
) -> None:
    """Options that say where a log comes from and how it becomes a workload.

    Args:
        parser: of the verb.
        or_model: `--from` may also name a model, which is then `start`.
        config: what --config does.
    """
    source = f"{SLURM}: jobs of this cluster's own accounting, by sacct, with --since"
    if or_model:
        model = f"else start from this model (write ./{SLURM} for a file of that name)"
        parser.add_argument(
            "--from",
            action=SlurmOrModel,
            dest="source",
            metavar=f"{SLURM}|NAME|MODEL.onnx",
            help=f"{source}; {model}; may be given for both",
        )
        parser.set_defaults(start=None)
    else:
        parser.add_argument("--from", dest="source", choices=[SLURM], help=source)
    parser.add_argument(
        "--processors",
        type=at_least_one,
        metavar="N",
        help="size of the machine (default: the log's; with --from slurm the cluster's)",
    )
    parser.add_argument(
        "--shares",
        type=_shares,
        metavar="A=.7,B=.3",
        help="share of each account (default: its fraction of the log's work; with --from slurm "
        "Slurm's own)",
    )
    parser.add_argument(
        "--partitions",
        type=_partitions,
        metavar="A=64,B=16",
        help="processors of each partition, where partitions share none",
    )
    parser.add_argument(
        "--whole-nodes-of",
        type=at_least_one,
        default=1,
        metavar="N",
        help="jobs get whole nodes of N processors",
    )
    parser.add_argument(
        "--kill-at-limit", action="store_true", help="end jobs at their requested time"
    )
    add_cluster_option(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help=config)
    add_slurm_options(parser)


def site_in_file(config: Path) -> Configuration:
    """What --config says of a site; from the file alone, so that a command gives the same again.

    Raises:
        ConfigurationError: lists every fault.
    """
    return read_configuration(config)


def configured_classifier(config: Path | None) -> JobClassifier | None:
    """The job-class rules of --config; None where it is not given or names none."""
    if config is None:
        return None
    configuration = site_in_file(config)
    return configuration.classifier if configuration.has_class_rules else None


def read_named_logs(arguments: Sequence[str], options: LogOptions) -> list[NamedLog]:
    """The LOG arguments, or with `--from slurm` the cluster's own accounting.

    Raises:
        AccountingLogError: a log cannot be read, or holds no job.
        BatchSystemError: Slurm does not answer.
        ConfigurationError: no log, or options that do not fit.
    """
    check_slurm_options(options)
    if options.source is None and not arguments:
        raise ConfigurationError("no log is named: give a LOG, or --from slurm and --since.")
    if options.source is None:
        return [read_named_log(each, options) for each in arguments]
    if arguments:
        raise ConfigurationError(
            f"--from slurm takes no LOG beside it: leave out {arguments[0]}, or write what sacct "
            "gives with --keep FILE and name all of them as LOGs."
        )
    return [_own_accounting(options)]


def _own_accounting(options: LogOptions) -> NamedLog:
    """The log of this cluster; what the options give goes before what Slurm says."""
    own = read_slurm_log(options, datetime.now())
    given = _given_shares(options)
    shares = given or slurm_shares(own.log.accounts)
    sized = options.processors or options.partitions or options.cluster
    capacity = options.processors if sized else cluster_processors()
    billing = None if options.cluster else slurm_billing()
    prepared = _prepared(own.log, options, shares, capacity, billing)
    whence = {  # not in the manifest: the command there gives both, and must make the same model
        "processors_from": "cluster" if options.cluster else "options" if sized else "sinfo",
        "shares_from": "options" if given else "sshare" if shares else "work",
    }
    if billing is not None and billing.has_weights:
        whence["billing_from"] = "scontrol"
    return NamedLog(
        name=SLURM, prepared=prepared, report=own.report, origin=own.origin, whence=whence
    )


def read_named_log(argument: str, options: LogOptions) -> NamedLog:
    """Read or generate one LOG argument.

    Raises:
        AccountingLogError: it cannot be read.
        ConfigurationError: the options do not fit it.
    """
    whole = Path(argument).exists()  # a path may hold an @ of its own
    excerpt = LogExcerpt(log=argument) if whole else LogExcerpt.of(argument)
    given = excerpt.processors or options.processors
    log, report, capacity = _cut_log(excerpt, given)
    shares = _given_shares(options)
    if excerpt.load is not None:
        log = excerpt.scaled(log, prepare_log(log, capacity=capacity).capacity)
    prepared = _prepared(log, options, shares, capacity)
    return NamedLog(name=Path(argument).name, prepared=prepared, report=report)


def _given_shares(options: LogOptions) -> Mapping[str, float] | None:
    """The shares of --shares, or else those of --config."""
    if options.shares or options.config is None:
        return options.shares
    return site_in_file(options.config).shares


def _prepared(
    log: JobLog,
    options: LogOptions,
    shares: Mapping[str, float] | None,
    capacity: int | None,
    billing: Billing | None = None,
) -> PreparedLog:
    return prepare_log(
        log,
        capacity=capacity,
        shares=shares,
        classifier=configured_classifier(options.config),
        whole_nodes_of=options.whole_nodes_of,
        kill_at_limit=options.kill_at_limit,
        partitions=options.partitions,
        machine=_machine(options),
        billing=billing,
    )


def _machine(options: LogOptions) -> Machine | None:
    """The machine of --cluster.

    Raises:
        BatchSystemError: the cluster does not answer.
        ConfigurationError: its files are not understood, or other options say another machine.
    """
    if options.cluster is None:
        return None
    if options.processors or options.partitions or options.whole_nodes_of > 1:
        raise ConfigurationError(
            "--cluster tells processors, partitions and nodes: leave out --processors, "
            "--partitions and --whole-nodes-of."
        )
    adapter = AUTO
    if options.config is not None:
        adapter = site_in_file(options.config).sections.batch_system.adapter
    return named_machine(options.cluster, adapter, os.environ)


def _cut_log(excerpt: LogExcerpt, given: int | None) -> tuple[JobLog, ReadReport, int | None]:
    """The jobs of an argument, the reader's report and the size of the machine."""
    path = Path(excerpt.log)
    if is_stored(path):
        from slurm_rl_plugin.accounting.stored.log import StoredLog  # noqa: PLC0415 - an extra's

        stored = StoredLog(path)
        log = excerpt.stored(stored)
        whole = stored if excerpt.weeks is not None else None
        return log, stored.report, _capacity(log, given, whole)
    read, report = _log_and_report(excerpt.log)
    log = excerpt.cut(read)
    return log, report, _capacity(log, given, read if excerpt.weeks is not None else None)


def _log_and_report(argument: str) -> tuple[JobLog, ReadReport]:
    if is_generator_name(argument) and not Path(argument).exists():
        log = generated_log(argument)
        return log, ReadReport(read=len(log), kept=len(log))
    log, report = read_log(Path(argument))
    warn_of_malformed(report)
    return log, report


def warn_of_malformed(report: ReadReport) -> None:
    """Say where records are broken; they are left out, and counted beside the other reasons."""
    for place in report.malformed:
        print(f"slurm-rl: left out {place}", file=sys.stderr)
    more = report.dropped.get("malformed record", 0) - len(report.malformed)
    if report.malformed and more > 0:
        print(f"slurm-rl: left out {more} more malformed records", file=sys.stderr)


def _capacity(
    log: JobLog, given: int | None, whole: JobLog | StoredLog | None = None
) -> int | None:
    """Most sacct dumps do not say the machine's size: then the most that was ever in use.

    Args:
        log: the jobs.
        given: by the options.
        whole: what the jobs were drawn from, if other jobs ran beside them.
    """
    if given or log.processors_available or log.kind == "swf":
        return given
    if whole is None or isinstance(whole, JobLog):
        return peak_processors(whole or log)
    return _peak(whole.column("start"), whole.column("run_time"), whole.column("processors"))


def peak_processors(log: JobLog) -> int | None:
    """The largest number of processors in use at one instant of the recorded schedule."""
    return _peak(log.start, log.run_time, log.processors)


def _peak(start: FloatArray, run_time: FloatArray, processors: IntArray) -> int | None:
    if len(start) == 0 or np.isnan(start).any():
        return None
    times = np.concatenate([start, start + run_time])
    change = np.concatenate([processors, -processors])
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max())


def _partitions(text: str) -> dict[str, int]:
    partitions: dict[str, int] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign:
            raise argparse.ArgumentTypeError(f"{part!r} is no partition: write name=processors")
        partitions[name.strip()] = at_least_one(value)
    return partitions


def _shares(text: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        try:
            shares[name.strip()] = float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{part!r} is no share: write account=fraction"
            ) from None
        if not sign:
            raise argparse.ArgumentTypeError(f"{part!r} is no share: write account=fraction")
    try:
        check_shares(shares)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return shares
