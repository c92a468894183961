"""`slurm-rl shadow-report`: what shadow mode would have changed, and what that would be worth."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin.cli.argument_types import at_least_one, result_file, time_argument
from slurm_rl_plugin.cli.evaluate.study.text import print_site_study
from slurm_rl_plugin.cli.logs.cluster_option import add_cluster_option
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.shadow.text import print_shadow
from slurm_rl_plugin.cli.site_options import (
    add_configuration_options,
    configuration_of,
)
from slurm_rl_plugin.cli.tables import print_json, slurm_time
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.audit.reader import AuditFilter, AuditReader, audit_files
from slurm_rl_plugin.hook.audit.summary import AuditSummary
from slurm_rl_plugin.whole_file import write_whole

if TYPE_CHECKING:  # it imports the simulator, which a head node need not have
    from slurm_rl_plugin.cli.evaluate.study.site_replay import SiteReplay

#: Writes the page of a replay, with what is wrong with what was recorded.
PageWriter = Callable[["SiteReplay", str | None], None]
#: Seconds of accounting that are asked for at least.
_SHORTEST = 60.0
#: Packages of the simulator, which a head node need not have.
_SIMULATOR = ("numba", "llvmlite", "onnx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The time that is reported, what counts as moved, and the log for the replay."""
    parser.add_argument(
        "log",
        nargs="?",
        metavar="LOG",
        help="replay the jobs of this accounting log instead of asking accounting",
    )
    add_configuration_options(parser)
    form = "YYYY-MM-DD[THH:MM[:SS]] or now-4weeks"
    begin, end = f"from this time on: {form}", f"up to this time: {form}"
    parser.add_argument("-S", "--since", type=time_argument, metavar="TIME", help=begin)
    parser.add_argument("-E", "--until", type=time_argument, metavar="TIME", help=end)
    parser.add_argument(
        "--moved",
        type=_ranks,
        default=10,
        metavar="N",
        help="a job counts as moved beyond so many ranks, 0 to 100 (default: 10)",
    )
    parser.add_argument(
        "--processors",
        type=at_least_one,
        metavar="N",
        help="size of the machine (default: sinfo's)",
    )
    add_cluster_option(parser)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write what sacct gave; a LOG")
    parser.add_argument("--no-replay", action="store_true", help="the audit log alone")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw both parts as PNG")
    page = "write one page of HTML for the users' committee"
    parser.add_argument("--committee", type=Path, metavar="FILE", help=page)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Report; what cannot be told is a sentence, and the rest is told all the same."""
    configuration = _configuration(options)
    if options.plot is not None and not options.plot.resolve().parent.is_dir():
        raise ConfigurationError(f"--plot {options.plot}: there is no such folder; make it.")
    if options.log and options.keep is not None:
        raise ConfigurationError("--keep writes what sacct gives: leave it out beside a LOG.")
    write_page = page_writer(options.committee, is_replayed=not options.no_replay)
    draw = _drawing() if options.plot is not None else None
    shadow, summary = _shadow(configuration, options)
    if not options.json:
        print_shadow(shadow)
    prediction, study, replay = _prediction(configuration, options, shadow)
    document: dict[str, Any] = {"shadow": shadow, "prediction": prediction, "study": study}
    if draw is not None:
        schedules = {} if replay is None else replay.replayed.schedules
        draw(options.plot, summary, options.moved, study, schedules)
        document["figure"] = str(options.plot)
    if write_page is not None and replay is not None:
        write_page(replay, prediction["warning"])
        document["committee"] = str(options.committee)
    if options.json:
        print_json(document)
    else:
        print_site_study(prediction, study)
    if write_page is not None and replay is None:
        raise ConfigurationError(
            f"--committee: there is no page without a replay: {study['unavailable']}"
        )
    if replay is None and not shadow.get("cycles") and not _kept(options):
        whys = [each["unavailable"] for each in (shadow, study) if "unavailable" in each]
        raise ConfigurationError(f"there is nothing to report: {' '.join(dict.fromkeys(whys))}")
    return 0


def _kept(options: argparse.Namespace) -> bool:
    return options.keep is not None and options.keep.exists()


def _drawing() -> Callable[..., None]:
    """The function that draws, looked for before the work: matplotlib may be missing."""
    from slurm_rl_plugin.cli.shadow.figure import draw_shadow  # noqa: PLC0415 - matplotlib

    return draw_shadow


def _configuration(options: argparse.Namespace) -> Configuration:
    """Elsewhere than on the head node there is a LOG and mostly no configuration."""
    return configuration_of(options, or_defaults=bool(options.log))


def _shadow(
    configuration: Configuration, options: argparse.Namespace
) -> tuple[dict[str, Any], AuditSummary]:
    summary = AuditSummary()
    try:
        reader = _reader(configuration.sections.hook.audit_file)
    except ConfigurationError as error:
        if not options.log:
            raise
        return {"unavailable": str(error)}, summary
    since = -math.inf if options.since is None else options.since
    until = math.inf if options.until is None else options.until
    with parts_bar("audit log", _size(reader)) as reader.progress:
        for line in reader.lines(AuditFilter(since=since, until=until)):
            summary.add(line)
    document = summary.document(options.moved)
    return {**document, "bad_lines": reader.bad, "unread": reader.unread}, summary


def _size(reader: AuditReader) -> int:
    """Bytes of all files, 1 at least; logrotate may take one away meanwhile."""
    size = 0
    for path in reader.paths:
        with suppress(OSError):
            size += path.stat().st_size
    return max(size, 1)


def _reader(path: str) -> AuditReader:
    if not path:
        raise ConfigurationError("no audit log is kept: give its path in [hook] audit_file.")
    return AuditReader(audit_files(Path(path)))


def _prediction(
    configuration: Configuration, options: argparse.Namespace, shadow: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], SiteReplay | None]:
    """The replay, its `prediction` and `study`; a sentence where there is none."""
    if options.no_replay:
        return _none("--no-replay was given.")
    first, last = (options.since, options.until) if options.log else _stretch(options, shadow)
    if not options.log and first is None:
        return _none("the audit log has no cycle in this time, so no time to replay: give --since.")
    try:
        from slurm_rl_plugin.cli.shadow.prediction import predict  # noqa: PLC0415 - the extra

        found = predict(configuration, options, first, last)
    except ModuleNotFoundError as error:
        if error.name not in _SIMULATOR:
            raise
        return _none(_elsewhere(str(error.name), options, first, last))
    except SlurmRLError as error:
        if options.log:  # somebody named it, and has to mend it
            raise
        return _none(str(error))
    if isinstance(found, str):
        return _none(found)
    warning = _warning(shadow) or (_other_days(shadow, found.days) if options.log else None)
    return {"warning": warning, **found.prediction}, found.study, found


def _none(sentence: str) -> tuple[dict[str, Any], dict[str, Any], None]:
    return {"unavailable": sentence}, {"unavailable": sentence}, None


def _stretch(
    options: argparse.Namespace, shadow: dict[str, Any]
) -> tuple[float | None, float | None]:
    """The time to ask accounting for: what is given, else that of the audited cycles."""
    first = shadow.get("first") if options.since is None else options.since
    last = shadow.get("last") if options.until is None else options.until
    if first is not None and last is not None and options.until is None:
        last = max(last, first + _SHORTEST)  # of a single cycle
    return first, last


def _warning(shadow: dict[str, Any]) -> str | None:
    """While the daemon wrote, the recorded order was not the site's own."""
    wrote = sum(shadow.get("modes", {}).get(mode, 0) for mode in ("active", "fallback"))
    if not wrote:
        return None
    return (
        f"In {wrote} cycles of this time the daemon wrote its own order, which is then what was "
        "recorded: give --since and --until of the time in shadow mode."
    )


def _other_days(shadow: dict[str, Any], days: tuple[float, float]) -> str | None:
    """An audit log of other days than the jobs that were replayed tells of another queue."""
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
        from slurm_rl_plugin.cli.logs.slurm_log import keep_dump  # noqa: PLC0415 - asks sacct

        try:
            keep_dump(options.keep, first, last)
        except SlurmRLError as error:
            sys.stderr.write(f"slurm-rl shadow-report: {error}\n")
    return (
        f"the replay needs {missing}, which a head node need not have: pip install "
        "-r requirements/train.txt in a checkout, or write a dump with --keep FILE and run "
        "`slurm-rl shadow-report FILE` with the same --config where it is installed."
    )


def _ranks(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 to 100")
    return int(text)


def page_writer(path: Path | None, *, is_replayed: bool) -> PageWriter | None:
    """What writes the committee's page; None where nobody asked for one.

    Args:
        path: of the page.
        is_replayed: whether there is to be a replay.

    Raises:
        ConfigurationError: there can be no page, or no place for it.
        ModuleNotFoundError: a library of the extras is missing.
    """
    if path is None:
        return None
    if not is_replayed:
        raise ConfigurationError("--committee needs the replay: leave out --no-replay.")
    page = result_file("--committee", path)
    from slurm_rl_plugin.cli.what_if.committee.two_cases import (  # noqa: PLC0415 - the extras
        replay_page,
    )

    def write(found: SiteReplay, warning: str | None) -> None:
        write_whole(page, replay_page(found, warning))

    return write
