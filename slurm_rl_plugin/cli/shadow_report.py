"""`slurm-rl shadow-report`: what active mode would have changed, and what that would gain."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slurm_rl_plugin.cli.argument_types import add_time_options, at_least_one, result_file
from slurm_rl_plugin.cli.progress import parts_bar, say_of_compiling
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import print_json, print_table, slurm_duration, slurm_time
from slurm_rl_plugin.cli.this_cluster import SECONDS, SLURM, add_cluster_option, keep_dump
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.audit.log import AuditFilter, AuditReader, AuditSummary, audit_files
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.whole_file import write_whole

if TYPE_CHECKING:  # they import the simulator, which a head node need not have
    from slurm_rl_plugin.evaluation.named_log import NamedLog
    from slurm_rl_plugin.evaluation.site_replay import SiteReplay

#: Seconds of accounting that are asked for at least.
_SHORTEST = 60.0
#: Packages of the simulator, which a head node need not have.
_SIMULATOR = ("numba", "llvmlite", "onnx")
#: Accounts shown; --json has them all.
_ACCOUNTS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The time to report on, what counts as moved, and the log for the replay."""
    parser.add_argument(
        "log",
        nargs="?",
        metavar="LOG",
        help="replay this accounting log instead of Slurm's accounting",
    )
    add_configuration_options(parser)
    add_time_options(parser, "now-4weeks")
    parser.add_argument(
        "--moved",
        type=_ranks,
        default=10,
        metavar="N",
        help="count a job as moved if it moves by more than N ranks, 0 to 100 (default: 10)",
    )
    size = "size of the machine (default: sinfo's)"
    parser.add_argument("--processors", type=at_least_one, metavar="N", help=size)
    add_cluster_option(parser)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write sacct's output, a LOG")
    parser.add_argument("--no-replay", action="store_true", help="only the audit log")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw both parts as PNG")
    page = "write one page of HTML for the users' committee"
    parser.add_argument("--committee", type=Path, metavar="FILE", help=page)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _ranks(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 to 100")
    return int(text)


def main(options: argparse.Namespace) -> int:
    """Report; a sentence replaces each part that is not available."""
    # where no daemon runs there is a LOG and usually no configuration
    configuration = configuration_of(options, or_defaults=bool(options.log))
    _check(options)
    shadow, summary = _shadow(configuration, options)
    if not options.json:
        print_shadow(shadow)
    replay = _replayed(configuration, options, shadow)
    found = None if isinstance(replay, str) else replay
    warning = None
    document: dict[str, Any] = {"shadow": shadow}
    if found is None:
        document |= {name: {"unavailable": replay} for name in ("prediction", "study")}
    else:
        from slurm_rl_plugin.evaluation.study import as_json  # noqa: PLC0415 - the extra

        warning = _warning(shadow) or (_other_days(shadow, found.days) if options.log else None)
        document["prediction"] = {"warning": warning, **as_json(found.prediction)}
        document["study"] = as_json(found.study)
    document |= _files(options, found, summary, warning)
    if options.json:
        print_json(document)
    elif found is None:
        print(f"\n{printable(f'No replay: {replay}')}")
    else:
        from slurm_rl_plugin.cli.study_text import print_site_study  # noqa: PLC0415 - the extra

        print_site_study(found.prediction, found.study, warning)
    if options.committee is not None and found is None:
        raise ConfigurationError(f"--committee: there is no page without a replay: {replay}")
    kept = options.keep is not None and options.keep.exists()
    if isinstance(replay, str) and not shadow.get("cycles") and not kept:
        whys = [shadow["unavailable"], replay] if "unavailable" in shadow else [replay]
        raise ConfigurationError(f"there is nothing to report: {' '.join(dict.fromkeys(whys))}")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that exclude each other, and files that cannot be written, before the work."""
    if options.plot is not None and not options.plot.resolve().parent.is_dir():
        raise ConfigurationError(f"--plot {options.plot}: there is no such folder; make it.")
    if options.log and options.keep is not None:
        raise ConfigurationError("--keep writes what sacct prints: leave it out if you give a LOG.")
    if options.committee is not None:
        if options.no_replay:
            raise ConfigurationError("--committee needs the replay: leave out --no-replay.")
        result_file("--committee", options.committee)
        import slurm_rl_plugin.evaluation.committee_page  # noqa: PLC0415 - it may lack an extra
    if options.plot is not None:
        import slurm_rl_plugin.evaluation.figures  # noqa: F401, PLC0415 - as above


def _files(
    options: argparse.Namespace,
    found: SiteReplay | None,
    summary: AuditSummary,
    warning: str | None,
) -> dict[str, str]:
    paths = {}
    if options.plot is not None:
        from slurm_rl_plugin.evaluation.figures import draw_shadow  # noqa: PLC0415 - matplotlib

        study, schedules = (found.study, found.replayed.schedules) if found else (None, {})
        draw_shadow(options.plot, summary, options.moved, study, schedules)
        paths["figure"] = str(options.plot)
    if options.committee is not None and found is not None:
        from slurm_rl_plugin.evaluation.committee_page import replay_page  # noqa: PLC0415 - as above

        page = result_file("--committee", options.committee)
        write_whole(page, replay_page(found, warning))
        paths["committee"] = str(options.committee)
    return paths


def _shadow(
    configuration: Configuration, options: argparse.Namespace
) -> tuple[dict[str, Any], AuditSummary]:
    summary, audit_file = AuditSummary(), configuration.sections.hook.audit_file
    try:
        if not audit_file:
            raise ConfigurationError("no audit log is kept: give its path in [hook] audit_file.")
        reader = AuditReader(audit_files(Path(audit_file)))
    except ConfigurationError as error:
        if not options.log:
            raise
        return {"unavailable": str(error)}, summary
    since = -math.inf if options.since is None else options.since
    until = math.inf if options.until is None else options.until
    size = 0
    for path in reader.paths:
        with suppress(OSError):  # logrotate may take one away meanwhile
            size += path.stat().st_size
    with parts_bar("audit log", max(size, 1)) as reader.progress:
        for line in reader.lines(AuditFilter(since=since, until=until)):
            summary.add(line)
    document = summary.document(options.moved)
    return {**document, "bad_lines": reader.bad, "unread": reader.unread}, summary


def _replayed(
    configuration: Configuration, options: argparse.Namespace, shadow: Mapping[str, Any]
) -> SiteReplay | str:
    if options.no_replay:
        return "--no-replay was given."
    first, last = options.since, options.until
    if not options.log:  # accounting is asked for what is not given by the audited cycles' time
        first = shadow.get("first") if first is None else first
        last = shadow.get("last") if last is None else last
        if first is not None and last is not None and options.until is None:
            last = max(last, first + _SHORTEST)  # of a single cycle
    if not options.log and first is None:
        return "the audit log has no cycle in this time, so no time to replay: give --since."
    try:
        from slurm_rl_plugin.evaluation.site_replay import replay_site  # noqa: PLC0415 - the extra

        return replay_site(configuration, _log(configuration, options, first, last), parts_bar)
    except ModuleNotFoundError as error:
        if error.name not in _SIMULATOR:
            raise
        return _elsewhere(str(error.name), options, first, last)
    except SlurmRLError as error:
        if options.log:  # the user named it and must fix it
            raise
        return str(error)


def _log(
    configuration: Configuration,
    options: argparse.Namespace,
    first: float | None,
    last: float | None,
) -> NamedLog:
    """The log that is named, cut to the time; else the cluster's own accounting of it."""
    from slurm_rl_plugin.cli.log_arguments import read_named_logs  # noqa: PLC0415 - the extra
    from slurm_rl_plugin.evaluation.named_log import LogOptions  # noqa: PLC0415
    from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before  # noqa: PLC0415

    since, until = (
        None if each is None else datetime.fromtimestamp(each).replace(microsecond=0)
        for each in (first, last)
    )
    own = not options.log
    how = LogOptions(
        source=SLURM if own else None,
        since=since if own else None,
        until=until if own else None,
        keep=options.keep,
        sacct_timeout=SECONDS,
        processors=options.processors,
        cluster=options.cluster,
        shares=configuration.shares,
        config=options.config,
    )
    with parts_bar("reading the jobs", 1) as progress:
        (log,) = read_named_logs([] if own else [options.log], how)
        log = log.with_starts()
        progress(1)
    say_of_compiling(compiled_before)
    return log if own else _cut(log, first, last)


def _cut(log: NamedLog, first: float | None, last: float | None) -> NamedLog:
    """The jobs that ended in a time, as accounting gives them."""
    from slurm_rl_plugin.simulator.workloads.log_workload import select_prepared  # noqa: PLC0415 - the extra

    prepared = log.prepared
    end = prepared.log.start + prepared.log.run_time
    chosen = (end >= (-math.inf if first is None else first)) & (
        end <= (math.inf if last is None else last)
    )
    selected = select_prepared(prepared, np.flatnonzero(chosen))
    return replace(log, prepared=replace(selected, dropped=prepared.dropped))


def _warning(shadow: Mapping[str, Any]) -> str | None:
    """While the daemon wrote, the recorded order was not the site's own."""
    wrote = sum(shadow.get("modes", {}).get(mode, 0) for mode in ("active", "fallback"))
    if not wrote:
        return None
    return (
        f"In {wrote} cycles of this time the daemon wrote its own order, which is then what was "
        "recorded: give --since and --until of the time in shadow mode."
    )


def _other_days(shadow: Mapping[str, Any], days: tuple[float, float]) -> str | None:
    """Warn if the audit log and the replayed jobs are of different days."""
    first, last = shadow.get("first"), shadow.get("last")
    if first is None or last is None or (first <= days[1] and last >= days[0]):
        return None
    return (
        f"The audit log is of {slurm_time(first)} to {slurm_time(last)}, the jobs are of "
        f"{slurm_time(days[0])} to {slurm_time(days[1])}: the two parts have nothing in common."
    )


def _elsewhere(
    missing: str, options: argparse.Namespace, first: float | None, last: float | None
) -> str:
    """What to do where the simulator is not installed; a dump is written here if asked for."""
    if not options.log and options.keep is not None and first is not None:
        try:
            keep_dump(options.keep, first, last)
        except SlurmRLError as error:
            sys.stderr.write(f"slurm-rl shadow-report: {error}\n")
    return (
        f"the replay needs {missing}, which a head node need not have: pip install "
        "-r requirements/train.txt in a checkout, or write a dump with --keep FILE and run "
        "`slurm-rl shadow-report FILE` with the same --config where it is installed."
    )


def print_shadow(shadow: Mapping[str, Any]) -> None:
    """Print what the audit log says of shadow mode's cycles, and which jobs they would move."""
    if "unavailable" in shadow:
        print(f"The audit log is not reported: {shadow['unavailable']}")
        return
    for line in _shadow_lines(shadow):
        print(printable(line))
    if not shadow["moves"]["job_cycles"]:
        print("It is not known how far the order would differ: no two jobs were ordered together.")
        return
    tau = shadow["kendall_tau"]
    known = "unknown" if tau is None else f"{tau:.3f}"
    further = shadow["moved_further_than"]
    print(f"Kendall's tau of the decided order and the site's: {known} (1: the same).")
    print(f"EARLIER, LATER: of the jobs of every cycle, moved by more than {further} ranks.")
    rows = [["all jobs", *shadow["moves"].values()]]
    rows += [[name, *each.values()] for name, each in shadow["classes"].items()]
    largest = sorted(shadow["accounts"].items(), key=lambda each: -each[1]["job_cycles"])
    rows += [[f"account {name}", *each.values()] for name, each in largest[:_ACCOUNTS]]
    print_table(["JOBS", "JOB-CYCLES", "EARLIER", "LATER", "MEDIAN-MOVE"], rows)


def _shadow_lines(shadow: Mapping[str, Any]) -> Iterator[str]:
    if not shadow["cycles"]:
        yield "The audit log has no cycle in this time."
    else:
        yield (
            f"Audit log: {slurm_time(shadow['first'])} to {slurm_time(shadow['last'])}, "
            f"{shadow['cycles']} cycles ({_counts(shadow['modes'])}), "
            f"{shadow['cycles_with_jobs']} of them with jobs to order, longest gap "
            f"{slurm_duration(shadow['longest_gap_seconds'])}."
        )
    yield (
        f"Jobs seen: {shadow['jobs_seen']}; writes that active mode would have sent: "
        f"{shadow['would_be_writes']}; writes sent: {shadow['writes']}."
    )
    yield (
        f"Fallbacks: {_counts(shadow['fallbacks'])}. Failed cycles: "
        f"{_counts(shadow['failures'])}. Guard rails that acted: {_counts(shadow['guard_rails'])}."
    )
    limit = shadow["batch_limit"]
    if limit["changes"]:
        yield (
            f"Reserve: a limit on batch jobs for {slurm_duration(limit['limited_seconds'])}, "
            f"{limit['lowest_limit'] or 0} processors at the lowest; changes: "
            f"{_counts(limit['changes'])}; lifted for wide jobs: {limit['lifted_for_wide_jobs']}."
        )
    if old := shadow["cycles_without_site_order"]:
        yield f"{old} cycles of an earlier release do not hold the site's own order."
    if shadow["bad_lines"]:
        yield f"{shadow['bad_lines']} lines are no lines of an audit log: left out."
    yield from shadow["unread"]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
