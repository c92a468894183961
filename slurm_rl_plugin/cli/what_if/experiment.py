"""`slurm-rl experiment`: the site's own order and ours in turns, to see what ours is worth."""

from __future__ import annotations

import argparse
import math
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from slurm_rl_plugin.cli.argument_types.numbers import number_above_zero, whole_number
from slurm_rl_plugin.cli.assembly.configuration_arguments import (
    add_configuration_options,
    configuration_of,
)
from slurm_rl_plugin.cli.assembly.state_owner import become_state_owner
from slurm_rl_plugin.cli.daemon.service_log import log_to_standard_error
from slurm_rl_plugin.cli.daemon.service_loop import serve_until_stopped
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.shadow.committee import check_page_folder
from slurm_rl_plugin.cli.tables import print_json, slurm_time
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.cli.what_if.experiment_text import experiment_document, print_experiment
from slurm_rl_plugin.cli.what_if.experiment_watch import ExperimentWatch, kept_trial
from slurm_rl_plugin.domain.switchback import (
    BLOCK_HOURS,
    Declaration,
    check_hours,
    drawn_blocks,
)
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.experiment.files import RUNNING, STOPPED, ExperimentStanding
from slurm_rl_plugin.hook.experiment.turns import held_part
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.what_if.switchback.costs import GOALS
from slurm_rl_plugin.what_if.switchback.trial import blocks_before, foretold_cost
from slurm_rl_plugin.whole_file import write_whole

#: By replays of the past ours may cost so many times what the site's order does, to begin at all.
_FORETOLD = 1.05
#: Seconds after which a look of the daemon is none any more.
_STALE = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do with the experiment, and what is declared where one begins."""
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        help="start: declare one, it begins at the next full hour; status: how it stands; stop: "
        "leave the queue to the site; report: what was found; watch: the service that looks after "
        "each block",
    )
    add_configuration_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    begin = parser.add_argument_group("start")
    begin.add_argument(
        "--days",
        type=whole_number(2),
        default=56,
        metavar="N",
        help="how long at most (default: 56)",
    )
    begin.add_argument(
        "--hours",
        default="4,6,8,12",
        metavar="LIST",
        help="lengths of blocks that are drawn from, of "
        f"{', '.join(map(str, BLOCK_HOURS))} (default: 4,6,8,12)",
    )
    begin.add_argument(
        "--goal", choices=tuple(GOALS), default=next(iter(GOALS)), help="what decides"
    )
    begin.add_argument(
        "--harm",
        type=number_above_zero("ratio"),
        default=1.0,
        metavar="RATIO",
        help="ours costs more than so many times the site's: harm (default: 1)",
    )
    begin.add_argument(
        "--longest-wait",
        type=number_above_zero("number of hours"),
        default=math.inf,
        metavar="HOURS",
        help="beyond which no job may wait in a block of ours (default: no bound)",
    )
    begin.add_argument("--seed", type=whole_number(0), metavar="S", help="of the coins")
    begin.add_argument(
        "--insist", action="store_true", help="begin although replays of the past foretell harm"
    )
    begin.add_argument(
        "--day",
        type=number_above_zero("number of seconds"),
        default=DAY,
        metavar="SECONDS",
        help="of a day, to rehearse in compressed time on a test cluster (default: 86400)",
    )
    end = parser.add_argument_group("stop")
    end.add_argument("--reason", default="", metavar="TEXT", help="why")
    end.add_argument(
        "--as-configured",
        action="store_true",
        help="put it away: from now on the configuration counts again",
    )
    told = parser.add_argument_group("report")
    told.add_argument(
        "--committee",
        type=Path,
        metavar="FILE",
        help="write one page of HTML for the users' committee: who waits more and who less",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log debugging lines too")


def main(options: argparse.Namespace) -> int:
    """Do it."""
    configuration = configuration_of(options)
    become_state_owner(configuration)
    return _ACTIONS[options.action](ExperimentSite(configuration=configuration), options)


def _start(site: ExperimentSite, options: argparse.Namespace) -> int:
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    _refuse(site)
    hours = _hours(options.hours)
    foretold = _foretold(site, options, now)
    policy, model = site.model()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    step = options.day / 24.0
    begin = math.ceil(now / step) * step
    declared = Declaration(
        goal=options.goal,
        harm=options.harm,
        longest_wait=options.longest_wait * HOUR,
        policy=policy,
        model_sha256=model,
        seed=seed,
        day=options.day,
        blocks=drawn_blocks(begin, options.days, hours, seed, options.day),
    )
    standing = ExperimentStanding(state=RUNNING, reason="", at=now)
    site.files.declare(declared, standing)
    if options.json:
        print_json(
            {**experiment_document(declared, standing, None, 1.0, now), "foretold": foretold}
        )
        return 0
    print(
        f"Declared: {policy} against the site's own order, {len(declared.blocks)} blocks from "
        f"{slurm_time(begin)} to {slurm_time(declared.end)}; {options.goal} decides."
    )
    if foretold is not None:
        print(f"By replays of the two weeks before ours costs {foretold:.2f} of the site's order.")
    print("Nobody but its owner can read whose turn comes when. Watch it, or it does not go on:")
    print("  systemctl enable --now slurm-rl-experiment.service")
    return 0


def _refuse(site: ExperimentSite) -> None:
    """End where none can begin.

    Raises:
        ConfigurationError: one is declared already, or the daemon writes nothing.
    """
    if site.files.declaration.exists():
        raise ConfigurationError(
            "an experiment is declared already: look at it with `slurm-rl experiment status`, or "
            "put it away with `slurm-rl experiment stop --as-configured`."
        )
    if site.configuration.sections.hook.mode != "active":
        raise ConfigurationError(
            "[hook] mode is shadow, in which ours never has its turn: set it to active; it counts "
            "in blocks of ours alone while the experiment lasts."
        )


def _foretold(site: ExperimentSite, options: argparse.Namespace, now: float) -> float | None:
    """What ours would have cost in the two weeks before, over the site's order.

    Raises:
        ConfigurationError: harm is foretold, or the daemon's look is old.
    """
    look = site.look()
    if look is None:
        return None
    if now - look.now > _STALE:
        raise ConfigurationError(
            f"the daemon left its last look at the queue at {slurm_time(look.now)}: start it first."
        )
    blocks = tuple(blocks_before(min(look.now, now), options.day))
    with parts_bar("replaying the two weeks before", len(blocks)) as progress:
        ratio = foretold_cost(site.cluster(look), blocks, options.goal, progress)
    bound = max(options.harm, _FORETOLD)
    if ratio is not None and ratio > bound and not options.insist:
        raise ConfigurationError(
            f"by replays of the two weeks before ours would have cost {ratio:.2f} of the site's "
            f"order in {options.goal}: train a model of this site, or give --insist."
        )
    return ratio


def _hours(text: str) -> list[int]:
    try:
        hours = [int(each) for each in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--hours {text}: give whole numbers, as 4,6,8,12.") from None
    check_hours(hours)
    return hours


def _status(site: ExperimentSite, options: argparse.Namespace) -> int:
    """Print how it stands; 1 where it has stepped back."""
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    declared, standing = site.declared()
    trial = kept_trial(site.files, declared)
    blocks = 0 if trial is None else len(trial.costs)
    held = held_part(declared, list(site.files.journaled()), blocks)
    document = experiment_document(declared, standing, trial, held, now)
    if options.json:
        print_json(document)
    else:
        print_experiment(document)
    return 1 if standing.state == "stepped back" else 0


def _report(site: ExperimentSite, options: argparse.Namespace) -> int:
    """Print what was found, and write the page for the committee where it is asked for."""
    if options.committee is not None:
        check_page_folder(options.committee)
        _write_page(site, options.committee)
    return _status(site, options)


def _write_page(site: ExperimentSite, path: Path) -> None:
    from slurm_rl_plugin.cli.what_if.committee.two_cases import (  # noqa: PLC0415 - matplotlib
        experiment_page,
    )

    declared, standing = site.declared()
    look, trial = site.look(), kept_trial(site.files, declared)
    if look is None or trial is None:
        raise ConfigurationError("no block of the experiment is over yet: try again later.")
    cluster = site.cluster(look)
    over = min(declared.closed(look.now), len(trial.costs))
    with parts_bar("replaying blocks", max(over, 1)) as progress:
        page = experiment_page(
            declared,
            cluster.times,
            cluster,
            trial.findings(),
            look.prepared.accounts,
            standing.reason or trial.gain() or "It goes on, and nothing is sure yet.",
            now=declared.blocks[over - 1].end,
            resources=() if look.prepared.machine is None else look.prepared.machine.resources,
            progress=progress,
        )
    write_whole(path, page)


def _stop(site: ExperimentSite, options: argparse.Namespace) -> int:
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    if options.as_configured:
        if not site.files.declaration.exists():
            site.declared()  # says that there is none
        site.files.put_away(int(now))
        print("The experiment is put away; what the configuration says counts from now on.")
        return 0
    site.declared()
    words = options.reason or "stopped by hand"
    site.files.stand(ExperimentStanding(state=STOPPED, reason=words, at=now))
    print(
        "Stopped: the site's own order is in force, and our factors are taken back. To go on as "
        "configured, with [hook] mode as it is: slurm-rl experiment stop --as-configured"
    )
    return 0


def _watch(site: ExperimentSite, options: argparse.Namespace) -> int:
    log_to_standard_error(verbose=options.verbose)
    watch = ExperimentWatch(site=site)

    def look() -> None:
        watch.look(time.time())  # noqa: TID251 - the composition root hands out the clock

    serve_until_stopped(look, look)
    return 0


#: Which function does what.
_ACTIONS: dict[str, Callable[[ExperimentSite, argparse.Namespace], int]] = {
    "start": _start,
    "status": _status,
    "stop": _stop,
    "report": _report,
    "watch": _watch,
}
