"""LOG arguments of every verb: the options that go with them, and how they are read.

LOG@jobs=FIRST:LAST,load=L,processors=N is a part of a log, busier, or on another machine;
LOG@weeks=N,seed=S some weeks of a log that is too large to be simulated whole.
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
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from slurm_rl_plugin.accounting.log_format import is_stored, read_log
from slurm_rl_plugin.accounting.port import NOT_READ, JobLog, ReadReport
from slurm_rl_plugin.batch_systems.registry import AUTO
from slurm_rl_plugin.cli.argument_types import LARGEST, at_least_one
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
from slurm_rl_plugin.simulator.workloads.generators import generated_log, is_generator_name
from slurm_rl_plugin.simulator.workloads.log_shares import (
    OTHER_ACCOUNT,
    SSHARE,
    check_shares,
    with_accounts,
)
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import DAY, FloatArray, IntArray
from slurm_rl_plugin.whole_file import read_whole

if TYPE_CHECKING:  # without the extra that parquet needs, other logs are read all the same
    from slurm_rl_plugin.accounting.stored.log import StoredLog

#: Accounts that a warning names.
_NAMED_ACCOUNTS = 8
#: What most verbs take of --config.
_CLASSES_AND_SHARES = "take job-class rules and shares from a TOML file"
_Number = TypeVar("_Number", int, float)
WEEK = 7 * DAY
#: Of a larger stored log `train` takes some weeks: as many as hold about this number of jobs.
MOST_JOBS = 500_000
FEWEST_WEEKS, MOST_WEEKS = 2, 26


def add_log_options(
    parser: argparse.ArgumentParser, *, or_model: bool = False, config: str = _CLASSES_AND_SHARES
) -> None:
    """Options that say where a log comes from and how it becomes a workload."""
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
        "--account-of",
        type=Path,
        metavar="FILE",
        help="accounts of users, `user,account` a line, in place of those in the log",
    )
    parser.add_argument(
        "--partitions",
        type=partial(_pairs, number=at_least_one, fault="partition: write name=processors"),
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
    kill = "end jobs at their requested time"
    parser.add_argument("--kill-at-limit", action="store_true", help=kill)
    add_cluster_option(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help=config)
    add_slurm_options(parser)


def read_named_logs(arguments: Sequence[str], options: LogOptions) -> list[NamedLog]:
    """The LOG arguments, or with `--from slurm` the cluster's own accounting, as options say."""
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
    """The same before the jobs are put on a machine."""
    check_slurm_options(options)
    if options.source is None and not arguments:
        raise ConfigurationError("no log is named: give a LOG, or --from slurm and --since.")
    if options.source is None:
        return [_read_jobs(each, options) for each in arguments]
    if arguments:
        raise ConfigurationError(
            f"--from slurm takes no LOG beside it: leave out {arguments[0]}, or write what sacct "
            "gives with --keep FILE and name all of them as LOGs."
        )
    return [_own_jobs(options)]


def _own_jobs(options: LogOptions) -> ReadJobs:
    """The log of this cluster; what the options give goes before what Slurm says."""
    log, report, origin = ask_accounting(options, datetime.now())
    if options.account_of is not None:
        raise ConfigurationError(
            "--account-of is for a LOG: accounting knows the accounts; leave it out."
        )
    given = _given_shares(options)
    shares = given or own_accounting().shares(log.accounts)
    sized = options.processors or options.partitions or options.cluster
    capacity = options.processors if sized else own_accounting().processors()
    billing = None if options.cluster else own_accounting().billing()
    whence = {  # not in the manifest: the command there gives both, and must make the same model
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
    whole = Path(argument).exists()  # a path may hold an @ of its own
    excerpt = LogExcerpt(log=argument) if whole else LogExcerpt.of(argument)
    given = excerpt.processors or options.processors
    log, report, capacity = _cut_log(excerpt, given)
    if options.account_of is not None:
        log = with_accounts(log, accounts_in_file(options.account_of))
    if options.shares is not None:
        _warn_of_shares(argument, log, options.shares)
    if excerpt.load is not None:
        log = excerpt.scaled(log, prepare_log(log, capacity=capacity).capacity)
    told = given or log.processors_available or options.partitions or options.cluster
    return ReadJobs(
        name=Path(argument).name,
        jobs=log,
        report=report,
        options=options,
        shares=_given_shares(options),
        capacity=capacity,
        whence={} if told or capacity is None else {"processors_from": PEAK},
    )


def _given_shares(options: LogOptions) -> Mapping[str, float] | None:
    """The shares of --shares, or else those of --config."""
    if options.shares or options.config is None:
        return options.shares
    return read_configuration(options.config).shares


def accounts_in_file(path: Path) -> dict[str, str]:
    """Accounts of users: `user,account` a line, after a line of these words or without it."""
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
                f"{path}:{number}: {printable(line)!r} is no user,account: write one pair a line."
            )
        if found.setdefault(user, account) != account:
            raise ConfigurationError(
                f"{path}:{number}: user {printable(user)} has two accounts, "
                f"{printable(found[user])} and {printable(account)}: keep one."
            )
    return found


def _warn_of_shares(argument: str, log: JobLog, shares: Mapping[str, float]) -> None:
    """Say which accounts have a share and no job, or jobs and no share: fairness hides it."""
    there = {log.accounts[place] for place in np.unique(log.account)}
    missing = [name for name in shares if name not in there and name != OTHER_ACCOUNT]
    others = [] if OTHER_ACCOUNT in shares else sorted(there.difference(shares))
    parts = [f"no job is of {_named(missing)}"] * bool(missing)
    parts += [f"jobs of {_named(others)} have no share"] * bool(others)
    if parts:
        print(f"slurm-rl: --shares and {argument}: {'; '.join(parts)}.", file=sys.stderr)


def _named(accounts: Sequence[str]) -> str:
    names = [printable(name) or "''" for name in accounts[:_NAMED_ACCOUNTS]]
    left = len(accounts) - len(names)
    return ", ".join(names) + (f" and {left} more" if left else "")


def check_machine_options(options: LogOptions) -> None:
    """Refuse options that tell another machine than --cluster does."""
    if options.processors or options.partitions or options.whole_nodes_of > 1:
        raise ConfigurationError(
            "--cluster tells processors, partitions and nodes: leave out --processors, "
            "--partitions and --whole-nodes-of."
        )


def site_adapter(options: LogOptions) -> str:
    """Which batch system --config says that is here; AUTO where it is not given."""
    if options.config is None:
        return AUTO
    return read_configuration(options.config).sections.batch_system.adapter


def _cut_log(excerpt: LogExcerpt, given: int | None) -> tuple[JobLog, ReadReport, int | None]:
    """The jobs of an argument, the reader's report and the size of the machine."""
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
    """Refuse a log without a job that ran; say what jobs asked for and no policy will see."""
    if why := report.why_none_kept():
        raise ConfigurationError(f"{log}: {why}.")
    for oddity, count in report.noticed.items():
        if oddity.endswith(NOT_READ):
            print(f"slurm-rl: {log}: {printable(oddity)}; {count} jobs have it.", file=sys.stderr)


def warn_of_malformed(report: ReadReport) -> None:
    """Print the broken records; they are left out and counted among the dropped ones."""
    for place in report.malformed:
        print(f"slurm-rl: left out {place}", file=sys.stderr)
    more = report.dropped.get("malformed record", 0) - len(report.malformed)
    if report.malformed and more > 0:
        print(f"slurm-rl: left out {more} more malformed records", file=sys.stderr)


def _capacity(log: JobLog, given: int | None, whole: JobLog | StoredLog | None) -> int | None:
    """Most sacct dumps do not say the machine's size: then the most that was ever in use."""
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


def _pairs(text: str, number: Callable[[str], _Number], fault: str) -> dict[str, _Number]:
    """`NAME=NUMBER,...`; `fault` says what a part without a number is not."""
    pairs = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        try:
            pairs[name.strip()] = number(value if sign else "none")
        except (ValueError, argparse.ArgumentTypeError) as error:
            if sign and not isinstance(error, ValueError):
                raise
            raise argparse.ArgumentTypeError(f"{part!r} is no {fault}") from None
    return pairs


def _shares(text: str) -> dict[str, float]:
    shares = _pairs(text, float, "share: write account=fraction")
    try:
        check_shares(shares)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExcerpt:
    """What a LOG argument asks of its log."""

    log: str  #: the argument without the excerpt
    #: first, last: jobs taken, counted from 0 in order of submission, `last` not included; None for
    #: all
    first: int | None = None
    last: int | None = None
    #: mean fraction of the processors that the jobs ask for; None as recorded
    load: float | None = None
    processors: int | None = None  #: size of the machine; None as elsewhere given
    #: so many weeks, one out of each of as many equal stretches of the log; None for all
    weeks: int | None = None
    seed: int = 1

    @classmethod
    def of(cls, argument: str) -> LogExcerpt:
        """Split a LOG argument at its `@` into the log and the part of it that is wanted."""
        log, sign, words = argument.rpartition("@")
        if not sign or "=" not in words:
            return cls(log=argument)
        found: dict[str, int | float] = {}
        for part in words.split(","):
            key, _, text = part.partition("=")
            if key == "jobs":
                first, _, last = text.partition(":")
                found["first"] = _setting(argument, key, first, int, 0)
                found["last"] = _setting(argument, key, last, int, int(found["first"]) + 1)
            elif key == "load":
                found[key] = _setting(argument, key, text, float, 1e-6)
            elif key in ("processors", "weeks", "seed"):
                found[key] = _setting(argument, key, text, int, 0 if key == "seed" else 1)
            else:
                raise ConfigurationError(
                    f"{argument!r}: unknown setting {key!r} behind the @; give jobs=FIRST:LAST, "
                    "load, processors, weeks or seed."
                )
        if "weeks" in found and "last" in found:
            raise ConfigurationError(f"{argument!r}: give either jobs or weeks behind the @.")
        return cls(log=log, **found)  # type: ignore[arg-type]

    def cut(self, log: JobLog) -> JobLog:
        """Those jobs of the log that the settings behind the `@` choose."""
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
        """The jobs asked for out of a parquet file, of which no others are read."""
        if self.weeks is not None and len(stored):
            return stored.stretches(self.drawn_weeks(*stored.first_and_last_submit()))
        if self.last is not None:
            self._check_jobs(len(stored))
        return stored.log(self.first or 0, self.last)

    def drawn_weeks(self, first: float, last: float) -> list[tuple[float, float]]:
        """Begin and end of each week drawn, seconds."""
        there = int((last - first) // WEEK)
        if self.weeks is None or self.weeks > there:
            held = f"{there} whole {'week' if there == 1 else 'weeks'}"
            raise ConfigurationError(f"{self.log} holds {held}: weeks={self.weeks} are more.")
        edges = np.linspace(0, there, self.weeks + 1).round().astype(np.int64)
        drawn = np.random.default_rng(self.seed).integers(edges[:-1], edges[1:])
        return [(first + week * WEEK, first + (week + 1) * WEEK) for week in drawn.tolist()]

    def _check_jobs(self, jobs: int) -> None:
        if self.last is not None and self.last > jobs:
            raise ConfigurationError(
                f"{self.log} holds {jobs} jobs that ran: jobs={self.first}:{self.last} goes beyond."
            )

    def scaled(self, log: JobLog, processors: int) -> JobLog:
        """The same jobs arriving so that they ask for `load` of the processors on average."""
        if self.load is None:
            return log
        span = float(log.submit[-1] - log.submit[0])
        asked = float((log.run_time * log.processors).sum()) / (processors * max(span, 1.0))
        return scale_load(log, self.load / asked)


def sampled(argument: str) -> str:
    """The LOG argument, with the weeks that are drawn of it where the log is a large one."""
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
        f"slurm-rl: {argument} holds {len(stored):,} jobs of {there} weeks: {weeks} weeks are "
        "drawn; @weeks=N behind it takes others.",
        file=sys.stderr,
    )
    return f"{argument}@weeks={weeks}"


def _setting(
    argument: str, key: str, text: str, kind: Callable[[str], int | float], least: float
) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not least <= value < float("inf"):
        raise ConfigurationError(
            f"{argument!r}: {key} has {text!r}, which is no number of at least {least:g}."
        )
    if value > LARGEST:
        raise ConfigurationError(
            f"{argument!r}: {key} has {text!r}, which is too large: give {LARGEST} at most."
        )
    return value
