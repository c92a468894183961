"""LOG arguments of every command: their options, and how they are read.

LOG@jobs=FIRST:LAST,load=L,processors=N is a part of a log, at another load or on another machine;
LOG@weeks=N,seed=S is a sample of weeks of a log that is too large to simulate whole.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from slurm_rl_plugin.accounting.log_format import is_stored, read_log
from slurm_rl_plugin.accounting.port import NOT_READ, JobLog, ReadReport
from slurm_rl_plugin.batch_systems.registry import AUTO
from slurm_rl_plugin.cli.argument_types import (
    at_least_one,
    number_from_zero,
    positive_number,
    whole_number,
)
from slurm_rl_plugin.cli.progress import said_if_long
from slurm_rl_plugin.cli.this_cluster import (
    PEAK,
    SLURM,
    SlurmOrModel,
    add_cluster_option,
    add_slurm_options,
    ask_accounting,
    check_slurm_options,
    named_machine,
    own_accounting,
)
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions, NamedLog, ReadJobs
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.simulator.kernel.class_limit import FREE, LIMIT, ClassLimit
from slurm_rl_plugin.simulator.workloads.generators import generated_log, is_generator_name
from slurm_rl_plugin.simulator.workloads.log_workload import (
    OTHER_ACCOUNT,
    SSHARE,
    check_shares,
    prepare_log,
    with_accounts,
)
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import DAY, FloatArray, IntArray
from slurm_rl_plugin.whole_file import read_whole

if TYPE_CHECKING:  # other logs can be read without the extra for parquet
    from slurm_rl_plugin.accounting.stored.log import StoredLog

#: Maximum accounts that a warning names.
_NAMED_ACCOUNTS = 8
#: Meaning of --config for most commands.
_CLASSES_AND_SHARES = "configuration file with the job-class rules and shares"
_Number = TypeVar("_Number", int, float)
WEEK = 7 * DAY
#: Setting after the `@` -> its type.
_SETTINGS: dict[str, Callable[[str], float]] = {
    "load": positive_number,
    "processors": at_least_one,
    "weeks": at_least_one,
    "seed": whole_number(0),
}
#: `train` samples weeks with about this number of jobs from a larger stored log.
MOST_JOBS = 500_000
FEWEST_WEEKS, MOST_WEEKS = 2, 26


def add_log_options(
    parser: argparse.ArgumentParser, *, or_model: bool = False, config: str = _CLASSES_AND_SHARES
) -> None:
    """Add the options on the source of a log and on its machine."""
    source = f"{SLURM}: read the jobs of this cluster's accounting with sacct; needs --since"
    if or_model:
        model = f"else start from this model (./{SLURM} for a file of that name)"
        parser.add_argument(
            "--from",
            action=SlurmOrModel,
            dest="source",
            metavar=f"{SLURM}|NAME|MODEL.onnx",
            help=f"{source}; {model}; may be repeated",
        )
        parser.set_defaults(start=None)
    else:
        parser.add_argument("--from", dest="source", choices=[SLURM], help=source)
    parser.add_argument(
        "--processors",
        type=at_least_one,
        metavar="N",
        help="size of the machine (default: from the log; with --from slurm, from the cluster)",
    )
    parser.add_argument(
        "--shares",
        type=_shares,
        metavar="A=0.7,B=0.3",
        help="share of each account (default: its fraction of the log's work; with --from slurm, "
        "Slurm's own)",
    )
    parser.add_argument(
        "--account-of",
        type=Path,
        metavar="FILE",
        help="accounts of users, one `user,account` a line, instead of those in the log",
    )
    parser.add_argument(
        "--partitions",
        type=partial(_pairs, number=at_least_one, form="name=processors"),
        metavar="A=64,B=16",
        help="processors of each partition, if partitions share no processors",
    )
    parser.add_argument(
        "--whole-nodes-of",
        type=at_least_one,
        default=1,
        metavar="N",
        help="give each job whole nodes of N processors (default: 1)",
    )
    kill = "end each job at its requested time"
    parser.add_argument("--kill-at-limit", action="store_true", help=kill)
    add_cluster_option(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help=config)
    add_slurm_options(parser)


def add_reserve_option(parser: argparse.ArgumentParser) -> None:
    """Add --reserve-as; see `class_limit_of`."""
    parser.add_argument(
        "--reserve-as",
        choices=[FREE, LIMIT],
        default=FREE,
        help="how a reserve is kept: free processors, or the limit on batch jobs of [reserve] with "
        "its default numbers (default: free)",
    )


def class_limit_of(options: argparse.Namespace) -> ClassLimit | None:
    """The limit that --reserve-as asks for; None if processors are kept free."""
    return ClassLimit() if options.reserve_as == LIMIT else None


def read_named_logs(arguments: Sequence[str], options: LogOptions) -> list[NamedLog]:
    """Read the LOG arguments or, with `--from slurm`, the accounting, and put them on a machine."""
    machine, found = None, list[NamedLog]()
    for read in read_logs(arguments, options):
        if options.cluster is not None and machine is None:
            check_machine_options(options)
            machine = named_machine(options.cluster, site_adapter(options), os.environ)
        found.append(read.on(machine))
    for each in found:
        if each.notice:
            print(f"slurm-rl: {printable(each.notice)}", file=sys.stderr)
    return found


def read_logs(arguments: Sequence[str], options: LogOptions) -> list[ReadJobs]:
    """Read the LOG arguments or, with `--from slurm`, the accounting."""
    check_slurm_options(options)
    if options.source is None and not arguments:
        raise ConfigurationError("no log is given: give a LOG, or --from slurm and --since.")
    if options.source is None:
        return [_read_jobs(each, options) for each in arguments]
    if arguments:
        raise ConfigurationError(
            f"--from slurm excludes LOG arguments: leave out {arguments[0]}, or write the "
            "accounting with --keep FILE and give all files as LOG."
        )
    return [_own_jobs(options)]


def _own_jobs(options: LogOptions) -> ReadJobs:
    """The accounting of this cluster; options override what Slurm says."""
    log, report, origin = ask_accounting(options, datetime.now())
    if options.account_of is not None:
        raise ConfigurationError(
            "--account-of needs a LOG: accounting knows the accounts. Leave it out."
        )
    given = _given_shares(options)
    shares = given or own_accounting().shares(log.accounts)
    sized = options.processors or options.partitions or options.cluster
    capacity = options.processors if sized else own_accounting().processors()
    billing = None if options.cluster else own_accounting().billing()
    whence = {  # not in the manifest, whose command gives both and must make the same model
        "processors_from": "cluster" if options.cluster else "options" if sized else "sinfo",
        "shares_from": "options" if given else SSHARE if shares else "work",
    }
    if billing is not None and not billing.counts_cpus:
        whence["billing_from"] = "scontrol"
    return ReadJobs(
        name=SLURM,
        jobs=log,
        report=report,
        options=options,
        shares=shares,
        capacity=capacity,
        billing=billing,
        origin=origin,
        whence=whence,
    )


def _read_jobs(argument: str, options: LogOptions) -> ReadJobs:
    whole = Path(argument).exists()  # a path may contain an @
    excerpt = LogExcerpt(log=argument) if whole else LogExcerpt.of(argument)
    given = excerpt.processors or options.processors
    log, report, capacity = _cut_log(excerpt, given)
    if options.account_of is not None:
        log = with_accounts(log, accounts_in_file(options.account_of))
    if options.shares is not None:
        _warn_of_shares(argument, log, options.shares)
    if excerpt.load is not None:
        log = excerpt.scaled(log, prepare_log(log, capacity=capacity).capacity)
    known = given or log.processors_available or options.partitions or options.cluster
    return ReadJobs(
        name=Path(argument).name,
        jobs=log,
        report=report,
        options=options,
        shares=_given_shares(options),
        capacity=capacity,
        whence={} if known or capacity is None else {"processors_from": PEAK},
    )


def _given_shares(options: LogOptions) -> Mapping[str, float] | None:
    if options.shares or options.config is None:
        return options.shares
    return read_configuration(options.config).shares


def accounts_in_file(path: Path) -> dict[str, str]:
    """Accounts of users: `user,account` a line, with or without a header of these words."""
    try:
        lines = read_whole(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"--account-of {path} cannot be read: {why}.") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        user, _, account = (part.strip() for part in line.partition(","))
        if not line.strip() or (number == 1 and (user, account) == ("user", "account")):
            continue
        if not user or not account or "," in account:
            raise ConfigurationError(
                f"{path}:{number}: {printable(line)!r} is not user,account: give one pair a line."
            )
        if found.setdefault(user, account) != account:
            raise ConfigurationError(
                f"{path}:{number}: user {printable(user)} has two accounts, "
                f"{printable(found[user])} and {printable(account)}: keep one."
            )
    return found


def _warn_of_shares(argument: str, log: JobLog, shares: Mapping[str, float]) -> None:
    """Warn of accounts with a share and no job, or jobs and no share: fairness hides them."""
    there = {log.accounts[place] for place in np.unique(log.account)}
    missing = [name for name in shares if name not in there and name != OTHER_ACCOUNT]
    others = [] if OTHER_ACCOUNT in shares else sorted(there.difference(shares))
    parts = [f"{_named(missing)} have no jobs"] * bool(missing)
    parts += [f"{_named(others)} have jobs and no share"] * bool(others)
    if parts:
        print(f"slurm-rl: --shares and {argument}: {'; '.join(parts)}.", file=sys.stderr)


def _named(accounts: Sequence[str]) -> str:
    names = [printable(name) or "''" for name in accounts[:_NAMED_ACCOUNTS]]
    left = len(accounts) - len(names)
    return ", ".join(names) + (f" and {left} more" if left else "")


def check_machine_options(options: LogOptions) -> None:
    """Refuse options that contradict --cluster."""
    if options.processors or options.partitions or options.whole_nodes_of > 1:
        raise ConfigurationError(
            "--cluster already gives processors, partitions and nodes: leave out --processors, "
            "--partitions and --whole-nodes-of."
        )


def site_adapter(options: LogOptions) -> str:
    """The batch system that --config names; AUTO without --config."""
    if options.config is None:
        return AUTO
    return read_configuration(options.config).sections.batch_system.adapter


def _cut_log(excerpt: LogExcerpt, given: int | None) -> tuple[JobLog, ReadReport, int | None]:
    """The jobs of an argument, the reader's report and the size of the machine, if known."""
    path = Path(excerpt.log)
    if is_stored(path):
        from slurm_rl_plugin.accounting.stored.log import StoredLog  # noqa: PLC0415 - an extra's

        with said_if_long(f"reading {path}"):
            stored = StoredLog(path)
            _check_report(excerpt.log, stored.report)
            log = excerpt.stored(stored)
        return log, stored.report, _capacity(log, given, stored if excerpt.weeks else None)
    if is_generator_name(excerpt.log) and not path.exists():
        with said_if_long(f"drawing {excerpt.log}"):
            read = generated_log(excerpt.log)
        report = ReadReport(read=len(read), kept=len(read))
    else:
        with said_if_long(f"reading {excerpt.log}"):
            read, report = read_log(path)
        warn_of_malformed(report)
    _check_report(excerpt.log, report)
    log = excerpt.cut(read)
    return log, report, _capacity(log, given, read if excerpt.weeks else None)


def _check_report(log: str, report: ReadReport) -> None:
    """Refuse a log in which no job ran; warn of requests that no policy will see."""
    if why := report.why_none_kept():
        raise ConfigurationError(f"{log}: {why}.")
    for oddity, count in report.noticed.items():
        if oddity.endswith(NOT_READ):
            print(f"slurm-rl: {log}: {printable(oddity)}; {count} jobs have it.", file=sys.stderr)


def warn_of_malformed(report: ReadReport) -> None:
    """Warn of broken records, which are counted among the dropped ones."""
    for place in report.malformed:
        print(f"slurm-rl: left out {place}", file=sys.stderr)
    more = report.dropped.get("malformed record", 0) - len(report.malformed)
    if report.malformed and more > 0:
        print(f"slurm-rl: left out {more} more malformed records", file=sys.stderr)


def _capacity(log: JobLog, given: int | None, whole: JobLog | StoredLog | None) -> int | None:
    """The size of the machine; if no source has it, the most processors ever in use."""
    if given or log.processors_available or log.kind == "swf":
        return given
    if whole is None or isinstance(whole, JobLog):
        whole = whole or log
        return peak_processors(whole.start, whole.run_time, whole.processors)
    return peak_processors(*(whole.column(name) for name in ("start", "run_time", "processors")))


def peak_processors(start: FloatArray, run_time: FloatArray, processors: IntArray) -> int | None:
    """The largest number of processors in use at one instant of the recorded schedule."""
    if len(start) == 0 or np.isnan(start).any():
        return None
    times = np.concatenate([start, start + run_time])
    change = np.concatenate([processors, -processors])
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max())


def _pairs(text: str, number: Callable[[str], _Number], form: str) -> dict[str, _Number]:
    """`NAME=NUMBER,...`; `form` is such a part in words."""
    pairs = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign:
            raise argparse.ArgumentTypeError(f"{part!r} is not {form}")
        pairs[name.strip()] = number(value)
    return pairs


def _shares(text: str) -> dict[str, float]:
    shares = _pairs(text, number_from_zero(), "account=fraction")
    try:
        check_shares(shares)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExcerpt:
    """The part of a log that a LOG argument asks for."""

    log: str  #: the argument before the `@`
    #: first, last: jobs taken, from 0 in order of submission, without `last`; None for all
    first: int | None = None
    last: int | None = None
    #: mean fraction of the processors that the jobs ask for; None as recorded
    load: float | None = None
    processors: int | None = None  #: size of the machine; None if the argument does not give it
    #: number of weeks, one out of each of as many equal stretches of the log; None for all
    weeks: int | None = None
    seed: int = 1

    @classmethod
    def of(cls, argument: str) -> LogExcerpt:
        """Split a LOG argument at its `@` into the log and the wanted part."""
        log, sign, words = argument.rpartition("@")
        if not sign or "=" not in words:
            return cls(log=argument)
        found: dict[str, Any] = {}
        for part in words.split(","):
            key, _, text = part.partition("=")
            try:
                if key == "jobs":
                    first, _, last = text.partition(":")
                    found["first"] = whole_number(0)(first)
                    found["last"] = whole_number(found["first"] + 1)(last)
                elif key in _SETTINGS:
                    found[key] = _SETTINGS[key](text)
                else:
                    raise ConfigurationError(
                        f"{argument!r}: unknown setting {key!r} after the @: give jobs=FIRST:LAST, "
                        f"{', '.join(_SETTINGS)}."
                    )
            except argparse.ArgumentTypeError as error:
                raise ConfigurationError(f"{argument!r}: {key} {error}.") from None
        if "weeks" in found and "last" in found:
            raise ConfigurationError(f"{argument!r}: give either jobs or weeks after the @.")
        return cls(log=log, **found)

    def cut(self, log: JobLog) -> JobLog:
        """The wanted jobs of the log."""
        if self.weeks is not None:
            wanted = np.zeros(len(log), dtype=np.bool_)
            for begin, end in self.drawn_weeks(float(log.submit[0]), float(log.submit[-1])):
                wanted |= (log.submit >= begin) & (log.submit < end)
            return log.select(wanted)
        if self.last is None:
            return log
        self._check_jobs(len(log))
        return log.select(np.arange(self.first or 0, self.last))

    def stored(self, stored: StoredLog) -> JobLog:
        """The wanted jobs of a parquet file; no others are read."""
        if self.weeks is not None and len(stored):
            return stored.stretches(self.drawn_weeks(*stored.first_and_last_submit()))
        if self.last is not None:
            self._check_jobs(len(stored))
        return stored.log(self.first or 0, self.last)

    def drawn_weeks(self, first: float, last: float) -> list[tuple[float, float]]:
        """Begin and end of each sampled week, seconds."""
        there = int((last - first) // WEEK)
        if self.weeks is None or self.weeks > there:
            held = f"{there} whole {'week' if there == 1 else 'weeks'}"
            raise ConfigurationError(f"{self.log} has {held}: weeks={self.weeks} are more.")
        edges = np.linspace(0, there, self.weeks + 1).round().astype(np.int64)
        drawn = np.random.default_rng(self.seed).integers(edges[:-1], edges[1:])
        return [(first + week * WEEK, first + (week + 1) * WEEK) for week in drawn.tolist()]

    def _check_jobs(self, jobs: int) -> None:
        if self.last is not None and self.last > jobs:
            raise ConfigurationError(
                f"{self.log} has {jobs} jobs that ran: jobs={self.first}:{self.last} goes beyond."
            )

    def scaled(self, log: JobLog, processors: int) -> JobLog:
        """The same jobs with arrivals at which they ask for `load` of the processors on average."""
        if self.load is None:
            return log
        span = float(log.submit[-1] - log.submit[0])
        asked = float((log.run_time * log.processors).sum()) / (processors * max(span, 1.0))
        return scale_load(log, self.load / asked)


def sampled(argument: str) -> str:
    """The LOG argument, with a sample of weeks if the log is large."""
    path = Path(argument)
    if not is_stored(path):
        return argument
    from slurm_rl_plugin.accounting.stored.log import StoredLog  # noqa: PLC0415 - an extra's

    stored = StoredLog(path)
    if len(stored) <= MOST_JOBS:
        return argument
    first, last = stored.first_and_last_submit()
    there = int((last - first) // WEEK)
    weeks = min(max(MOST_JOBS * there // len(stored), FEWEST_WEEKS), MOST_WEEKS)
    if there <= weeks:
        return argument
    print(
        f"slurm-rl: {argument} has {len(stored):,} jobs in {there} weeks: sampling {weeks} weeks; "
        "@weeks=N after it changes the number.",
        file=sys.stderr,
    )
    return f"{argument}@weeks={weeks}"
