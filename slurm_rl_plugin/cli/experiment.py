"""`slurm-rl experiment`: test our order against the site's own, in turns on the cluster."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_rl_plugin.cli.argument_types import positive_number, result_file, whole_number
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.service_process import log_to_standard_error, serve_until_stopped
from slurm_rl_plugin.cli.site_options import (
    add_rollback_options,
    become_state_owner,
    configuration_of,
    known_configuration_of,
    state_file_flags,
)
from slurm_rl_plugin.cli.tables import answer, print_table, slurm_time
from slurm_rl_plugin.domain.switchback import BLOCK_HOURS, GOAL_NAMES, MISDELIVERED, OURS
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.declared_experiment import DeclaredExperiment, ExperimentStatus
from slurm_rl_plugin.hook.experiment.turns import (
    RUNNING,
    STEPPED_BACK,
    STOPPED,
    ExperimentStanding,
    held_part,
)
from slurm_rl_plugin.readable import printable, span_text
from slurm_rl_plugin.units import DAY

#: Maximum days of an experiment; a longer one is a typing error.
_MOST_DAYS = 3650


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do with the experiment, and what `start` declares."""
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        help="start: declare one, which begins at the next full hour; status: report its progress; "
        "stop: return to the site's order; report: report the results; watch: run the service that "
        "checks each block",
    )
    add_rollback_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    begin = parser.add_argument_group("start")
    begin.add_argument(
        "--candidate",
        default="",
        metavar="MODEL",
        help="test this model against the model in service (default: test the model in service "
        "against the site's own order)",
    )
    begin.add_argument(
        "--days",
        type=whole_number(2, _MOST_DAYS),
        default=56,
        metavar="N",
        help="maximum length (default: 56)",
    )
    begin.add_argument(
        "--hours",
        default="4,6,8,12",
        metavar="LIST",
        help=f"possible lengths of blocks, out of {', '.join(map(str, BLOCK_HOURS))} (default: "
        "4,6,8,12)",
    )
    begin.add_argument("--goal", choices=GOAL_NAMES, default=GOAL_NAMES[0], help="deciding figure")
    begin.add_argument(
        "--harm",
        type=positive_number,
        default=1.0,
        metavar="RATIO",
        help="a cost of more than RATIO times the site's is harm (default: 1)",
    )
    begin.add_argument(
        "--longest-wait",
        type=positive_number,
        default=math.inf,
        metavar="HOURS",
        help="maximum wait of a job in blocks of our order (default: no bound)",
    )
    begin.add_argument(
        "--misdelivered",
        type=positive_number,
        default=MISDELIVERED,
        metavar="PART",
        help="maximum part of a fortnight's service that goes to the wrong account (default: "
        f"{MISDELIVERED:g})",
    )
    begin.add_argument("--seed", type=whole_number(0), metavar="S", help="random seed of the turns")
    begin.add_argument(
        "--insist", action="store_true", help="begin although replays of the past predict harm"
    )
    begin.add_argument(
        "--day",
        type=positive_number,
        default=DAY,
        metavar="SECONDS",
        help="length of a day in a rehearsal on a test cluster (default: 86400)",
    )
    end = parser.add_argument_group("stop")
    end.add_argument("--reason", default="", metavar="TEXT", help="reason, which status shows")
    end.add_argument(
        "--as-configured",
        action="store_true",
        help="remove the experiment: the configuration applies again",
    )
    report = parser.add_argument_group("report")
    report.add_argument(
        "--committee",
        type=Path,
        metavar="FILE",
        help="write an HTML page for the users' committee: who waits longer and who less",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="also log debug messages")


def main(options: argparse.Namespace) -> int:
    """Run the action; `stop` works with a broken configuration too."""
    if options.action == "stop":
        known = known_configuration_of(options)
        configuration, is_known = known.configuration, known.is_read or bool(options.state_file)
    else:
        configuration, is_known = configuration_of(options, *state_file_flags(options)), True
    become_state_owner(configuration)
    site = DeclaredExperiment(configuration=configuration)
    if not is_known and not site.files.declaration.exists():
        raise ConfigurationError(
            f"there is no experiment at {site.files.declaration}, and the configuration, which may "
            "name another file, cannot be read: give --state-file."
        )
    return _ACTIONS[options.action](site, options)


def _start(site: DeclaredExperiment, options: argparse.Namespace) -> int:
    from slurm_rl_plugin.evaluation.experiment import begin  # noqa: PLC0415 - the simulator

    status, predicted = begin(site, options, parts_bar)
    declared, against = status.declared, status.declared.against

    def show() -> None:
        print(
            f"Declared: {declared.policy} against {against}, {len(declared.blocks)} blocks from "
            f"{slurm_time(declared.begin)} to {slurm_time(declared.end)}; {declared.goal} decides."
        )
        if predicted is not None:
            print(
                f"In replays of the last two weeks, {declared.on_trial} costs {predicted:.2f} "
                f"times {against}."
            )
        print("Only its owner can read the schedule of turns. Start the watch, or it stops:")
        print("  systemctl enable --now slurm-rl-experiment.service")

    return answer(options, {**status.as_json(), "foretold": predicted}, show)


def _status(site: DeclaredExperiment, options: argparse.Namespace) -> int:
    """Print the status; 1 if the experiment has stopped itself."""
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    declared, standing = site.declared()
    found = site.found(declared)
    blocks = 0 if found is None else int(found["blocks"])
    held = held_part(declared, list(site.files.journaled()), blocks)
    status = ExperimentStatus(declared=declared, standing=standing, found=found, held=held, now=now)
    answer(options, status.as_json(), lambda: _print(status))
    return 1 if standing.state == STEPPED_BACK else 0


def _print(status: ExperimentStatus) -> None:
    for line in _lines(status):
        print(printable(line))
    found, declared = status.found, status.declared
    if not found or not found["pairs"]:
        print("No pair of blocks is over yet, so there is no result.")
        return
    print(
        f"\nAfter {found['pairs']} pairs of blocks, cost of {declared.on_trial} over "
        f"{declared.against}:"
    )
    rows = [
        [
            f"{each['goal']}{' *' if each['decides'] else ''}",
            each["ratio"],
            f"{each['low']:.2f} .. {'-' if each['high'] is None else format(each['high'], '.2f')}",
            *(each[key] for key in ("word", "site", "ours")),
        ]
        for each in found["goals"]
    ]
    print_table(["GOAL", "RATIO", "INTERVAL", "FINDING", "SITE", "OURS"], rows)
    print("* decides. Lower is better; the interval is valid at any number of looks.")


def _lines(status: ExperimentStatus) -> Iterator[str]:
    declared, standing, against = status.declared, status.standing, status.declared.against
    yield f"The experiment is {standing.state}: {declared.policy} against {against}."
    if standing.reason:
        yield f"  {standing.reason}"
        yield f"  In force: {against}. `slurm-rl experiment stop` says how to continue."
    yield (
        f"  {declared.closed(status.now)} of {len(declared.blocks)} blocks are over, "
        f"{slurm_time(declared.begin)} to {slurm_time(declared.end)}; each order was in force in "
        f"at least {status.held:.0%} of its own."
    )
    turn, ends = status.turn
    if turn and ends is not None:
        whose = declared.on_trial if turn == OURS else against
        yield f"  Now in force: {whose}, for {span_text(max(ends - status.now, 0.0))} more."


def _report(site: DeclaredExperiment, options: argparse.Namespace) -> int:
    """Print the results, and write the committee's page if it is wanted."""
    if options.committee is not None:
        folder = options.committee.resolve().parent
        if folder.is_dir() and not os.access(folder, os.W_OK):
            raise ConfigurationError(
                f"--committee {options.committee}: the daemon's user cannot write to its folder: "
                "give another, such as /var/lib/slurm-rl/waits.html."
            )
        options.committee = result_file("--committee", options.committee)
        from slurm_rl_plugin.evaluation.experiment import write_page  # noqa: PLC0415 - the simulator

        write_page(site, options.committee, parts_bar)
    return _status(site, options)


def _stop(site: DeclaredExperiment, options: argparse.Namespace) -> int:
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    if options.as_configured:
        if not site.files.declaration.exists():
            site.declared()  # raises the error
        site.files.put_away(int(now))
        print("The experiment is removed; the configuration applies again.")
        return 0
    declared, standing = site.declared()
    if standing.state == RUNNING:  # else keep the reason of its end
        words = printable(options.reason) or "stopped by hand"
        site.files.stand(ExperimentStanding(state=STOPPED, reason=words, at=now))
    if declared.candidate:
        print(
            f"Stopped: {declared.against} stays in force. To remove the experiment: slurm-rl "
            "experiment stop --as-configured"
        )
    else:
        print(
            "Stopped: the daemon rolls our factors back, and the site's own order is in force. To "
            "return to the configured [hook] mode: slurm-rl experiment stop --as-configured"
        )
    return 0


def _watch(site: DeclaredExperiment, options: argparse.Namespace) -> int:
    from slurm_rl_plugin.evaluation.experiment import ExperimentSite, ExperimentWatch  # noqa: PLC0415 - the simulator

    log_to_standard_error(verbose=options.verbose)
    watch = ExperimentWatch(site=ExperimentSite(configuration=site.configuration))

    def look() -> None:
        watch.look(time.time())  # noqa: TID251 - the composition root hands out the clock

    serve_until_stopped(lambda: None, look)  # ready before the first look, which compiles
    return 0


#: Action -> its function.
_ACTIONS: dict[str, Callable[[DeclaredExperiment, argparse.Namespace], int]] = {
    "start": _start,
    "status": _status,
    "stop": _stop,
    "report": _report,
    "watch": _watch,
}
