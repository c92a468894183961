"""`slurm-rl experiment start`: what stands in its way, what is foretold, and the declaration."""

from __future__ import annotations

import argparse
import math
import secrets
import time
from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.tables import print_json, slurm_time
from slurm_rl_plugin.cli.what_if.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.cli.what_if.experiment_text import experiment_document
from slurm_rl_plugin.domain.switchback import Declaration, check_hours, drawn_blocks
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.experiment.files import RUNNING, ExperimentStanding
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.what_if.switchback.trial import blocks_before, foretold_cost

#: By replays of the past ours may cost so many times what the site's order does, to begin at all.
_FORETOLD = 1.05
#: Seconds after which a look of the daemon is none any more.
_STALE = 3600.0
#: Seconds of the shortest day in which anything can be rehearsed.
_SHORTEST_DAY = 48.0


def start(site: DeclaredExperiment, options: argparse.Namespace) -> int:
    """Declare an experiment and say so; 0.

    Args:
        site: on which it is to be.
        options: of the verb.

    Raises:
        ConfigurationError: none can begin, or harm is foretold.
        PolicyError: a model cannot be used.
        BatchSystemError: accounting does not answer.
    """
    _refuse(site)
    hours, day = _hours(options.hours), _checked_day(options.day)
    whole = ExperimentSite(configuration=site.configuration)
    candidate = _as_configured(options.candidate)
    in_service = whole.model()
    policy, model = whole.model(candidate) if candidate else in_service
    if candidate and (policy, model) == in_service:
        raise ConfigurationError(f"--candidate {candidate} is the model in service: give another.")
    foretold = _foretold(whole, options)
    _refuse(site)  # once more: the replays take minutes, and another experiment may be declared
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    begin = math.ceil(now / (day / 24.0)) * (day / 24.0)
    declared = Declaration(
        goal=options.goal,
        harm=options.harm,
        longest_wait=options.longest_wait * HOUR,
        misdelivered=options.misdelivered,
        policy=policy,
        model_sha256=model,
        seed=seed,
        day=day,
        blocks=drawn_blocks(begin, options.days, hours, seed, day),
        candidate=candidate,
        champion=in_service[0] if candidate else "",
        champion_sha256=in_service[1] if candidate else "",
    )
    standing = ExperimentStanding(state=RUNNING, reason="", at=now)
    site.files.declare(declared, standing)
    if options.json:
        document = experiment_document(declared, standing, None, 1.0, now)
        print_json({**document, "foretold": foretold})
    else:
        _print_declared(declared, foretold)
    return 0


def _print_declared(declared: Declaration, foretold: float | None) -> None:
    against = declared.against
    print(
        f"Declared: {declared.policy} against {against}, {len(declared.blocks)} blocks from "
        f"{slurm_time(declared.begin)} to {slurm_time(declared.end)}; {declared.goal} decides."
    )
    if foretold is not None:
        print(
            f"By replays of the two weeks before {declared.on_trial} costs {foretold:.2f} of "
            f"{against}."
        )
    print("Nobody but its owner can read whose turn comes when. Watch it, or it does not go on:")
    print("  systemctl enable --now slurm-rl-experiment.service")


def _as_configured(model: str) -> str:
    """A model as [policy] model would name it: its name, or its path from the root."""
    if not model or named_policy(model) is not None:
        return model
    return str(Path(model).resolve())


def _refuse(site: DeclaredExperiment) -> None:
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


def _foretold(site: ExperimentSite, options: argparse.Namespace) -> float | None:
    """What ours would have cost in the two weeks before, over the site's order.

    Raises:
        ConfigurationError: harm is foretold, nothing can be, or the daemon's look is old.
        BatchSystemError: accounting does not answer.
    """
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    look = site.look(now - _STALE)
    if look is None:
        raise ConfigurationError("the daemon's last look at the queue is old: start it first.")
    blocks = tuple(blocks_before(min(look.now, now), options.day))
    with parts_bar("replaying the two weeks before", len(blocks)) as progress:
        ratio = foretold_cost(site.cluster(look, options.candidate), blocks, options.goal, progress)
    if options.insist:
        return ratio
    if ratio is None:
        raise ConfigurationError(
            "accounting tells of no waits in the two weeks before, so nothing can be foretold: "
            "wait until it does, or give --insist."
        )
    if ratio > max(options.harm, _FORETOLD):
        against = "the model in service" if options.candidate else "the site's own order"
        raise ConfigurationError(
            f"by replays of the two weeks before it would have cost {ratio:.2f} of {against} in "
            f"{options.goal}: train a model of this site, or give --insist."
        )
    return ratio


def _checked_day(seconds: float) -> float:
    """Seconds of a day.

    Raises:
        ConfigurationError: nothing can be rehearsed in so short a day, or it is longer than one.
    """
    if not _SHORTEST_DAY <= seconds <= DAY:
        raise ConfigurationError(
            f"--day {seconds:g}: give {_SHORTEST_DAY:g} to {DAY:g} seconds; less only rehearses."
        )
    return seconds


def _hours(text: str) -> list[int]:
    try:
        hours = [int(each) for each in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--hours {text}: give whole numbers, as 4,6,8,12.") from None
    check_hours(hours)
    return hours
