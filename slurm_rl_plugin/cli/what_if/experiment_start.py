"""`slurm-rl experiment start`: what stands in its way, what is foretold, and the declaration."""

from __future__ import annotations

import argparse
import math
import secrets
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.tables import print_json, slurm_time
from slurm_rl_plugin.cli.what_if.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.cli.what_if.experiment_text import experiment_document
from slurm_rl_plugin.domain.switchback import GOAL_NAMES, Declaration, check_hours, drawn_blocks
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.experiment.files import RUNNING, ExperimentStanding
from slurm_rl_plugin.policies.protection import protection_named
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.what_if.switchback.trial import blocks_before, foretold_cost

#: By replays of the past ours may cost so many times what the site's order does, to begin at all.
_FORETOLD = 1.05
#: Seconds after which a look of the daemon is none any more.
_STALE = 3600.0
#: How long at most, and of which lengths blocks are, where nobody says.
DAYS, HOURS = 56, "4,6,8,12"
#: Seconds of the shortest day in which anything can be rehearsed.
_SHORTEST_DAY = 48.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentTerms:
    """What is declared before an experiment begins.

    Attributes:
        candidate: the model on trial against the one in service, as [policy] model would name it;
            "" to try the one in service against the site's own order.
        goal: what decides.
        harm: ratio of costs beyond which it is harm.
        longest_wait: hours that no job may wait in a block of what is on trial; inf for no bound.
        days: how long at most.
        hours: lengths of blocks to draw from, as `4,6,8`.
        seed: of the coins; None for one that nobody knows.
        day: seconds of a day; less where time is compressed.
        insist: begin although replays of the past foretell harm, or nothing.
    """

    candidate: str = ""
    goal: str = GOAL_NAMES[0]
    harm: float = 1.0
    longest_wait: float = math.inf
    days: int = DAYS
    hours: str = HOURS
    seed: int | None = None
    day: float = DAY
    insist: bool = False


class Declared(NamedTuple):
    """A declared experiment, when it was, and what the past foretells; None for nothing."""

    experiment: Declaration
    standing: ExperimentStanding
    foretold: float | None


def start(site: DeclaredExperiment, options: argparse.Namespace) -> int:
    """Declare an experiment and say so; 0.

    Args:
        site: on which it is to be.
        options: of the verb.

    Raises:
        ConfigurationError: none can begin, or harm is foretold.
        BatchSystemError: accounting does not answer.
    """
    terms = ExperimentTerms(
        **{each.name: getattr(options, each.name) for each in fields(ExperimentTerms)}
    )
    experiment, standing, foretold = declare(site, terms)
    if options.json:
        document = experiment_document(experiment, standing, None, 1.0, standing.at)
        print_json({**document, "foretold": foretold})
        return 0
    against = experiment.against
    print(
        f"Declared: {experiment.policy} against {against}, {len(experiment.blocks)} blocks from "
        f"{slurm_time(experiment.begin)} to {slurm_time(experiment.end)}; {terms.goal} decides."
    )
    if foretold is not None:
        print(
            f"By replays of the two weeks before {experiment.on_trial} costs {foretold:.2f} of "
            f"{against}."
        )
    print("Nobody but its owner can read whose turn comes when. Watch it, or it does not go on:")
    print("  systemctl enable --now slurm-rl-experiment.service")
    return 0


def declare(site: DeclaredExperiment, terms: ExperimentTerms) -> Declared:
    """Declare an experiment.

    Args:
        site: on which it is to be.
        terms: of it.

    Raises:
        ConfigurationError: none can begin, or harm is foretold.
        PolicyError: a model cannot be used.
        BatchSystemError: accounting does not answer.
    """
    _refuse(site)
    hours, day = _hours(terms.hours), checked_day(terms.day)
    whole = ExperimentSite(configuration=site.configuration)
    candidate = as_configured(terms.candidate)
    in_service = whole.model()
    policy, model = whole.model(candidate) if candidate else in_service
    if candidate and (policy, model) == in_service:
        raise ConfigurationError(f"--candidate {candidate} is the model in service: give another.")
    foretold = _foretold(whole, terms)
    _refuse(site)  # once more: what is foretold takes minutes, and `renew` declares too
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    seed = secrets.randbelow(2**31) if terms.seed is None else terms.seed
    begin = math.ceil(now / (day / 24.0)) * (day / 24.0)
    declared = Declaration(
        goal=terms.goal,
        harm=terms.harm,
        longest_wait=terms.longest_wait * HOUR,
        policy=policy,
        model_sha256=model,
        seed=seed,
        day=day,
        blocks=drawn_blocks(begin, terms.days, hours, seed, day),
        candidate=candidate,
        champion=in_service[0] if candidate else "",
        champion_sha256=in_service[1] if candidate else "",
    )
    standing = ExperimentStanding(state=RUNNING, reason="", at=now)
    site.files.declare(declared, standing)
    return Declared(declared, standing, foretold)


def as_configured(model: str) -> str:
    """A model as [policy] model would name it: its name, or its path from the root."""
    inner = protection_named(model)[1]
    if not model or named_policy(model) is not None:
        return model
    return model.removesuffix(inner) + str(Path(inner).resolve())


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


def _foretold(site: ExperimentSite, terms: ExperimentTerms) -> float | None:
    """What ours would have cost in the two weeks before, over the site's order.

    Raises:
        ConfigurationError: harm is foretold, nothing can be, or the daemon's look is old.
        BatchSystemError: accounting does not answer.
    """
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    look = site.look(now - _STALE)
    if look is None:
        raise ConfigurationError("the daemon's last look at the queue is old: start it first.")
    blocks = tuple(blocks_before(min(look.now, now), terms.day))
    with parts_bar("replaying the two weeks before", len(blocks)) as progress:
        ratio = foretold_cost(site.cluster(look, terms.candidate), blocks, terms.goal, progress)
    if terms.insist:
        return ratio
    if ratio is None:
        raise ConfigurationError(
            "accounting tells of no waits in the two weeks before, so nothing can be foretold: "
            "wait until it does, or give --insist."
        )
    if ratio > max(terms.harm, _FORETOLD):
        against = "the model in service" if terms.candidate else "the site's own order"
        raise ConfigurationError(
            f"by replays of the two weeks before it would have cost {ratio:.2f} of {against} in "
            f"{terms.goal}: train a model of this site, or give --insist."
        )
    return ratio


def checked_day(seconds: float) -> float:
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
