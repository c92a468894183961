"""A site's utility fitted on the site's own accounting log: `train --algorithm site-utility`.

Each run through the log is one history of the site, whose queue is ordered as the site orders it.
Runs through the past are fitted, one through the later part says how well it tells what it was not
shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.policy_search.rule_networks import RULE_WEIGHTS, rule_network
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.learning.site_utility.model import (
    SiteHistory,
    SiteUtilitySettings,
    TriedJobs,
    fit_site_utility,
    gain_of_objective,
    joined,
    try_jobs,
)
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.waiting_rules import WAITING_RULES
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.sites.routed_sites import SiteTerms
from slurm_rl_plugin.units import FloatArray

#: What a fit is compared with: what the account has used less than its share, and nothing else.
SHARE_DEFICIT = "share deficit alone"
_USED = SITE.jobs.index("share_doublings")
#: Tells the instants of validation from those of the rounds, which count from 0.
_VALIDATION = 1_000_000


def train_site_utility(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: SiteUtilitySettings,
    *,
    checkpoint: Path | None = None,
    load_key: str = "",
    progress: Progress | None = None,
    start: QNetwork | None = None,
) -> TrainedPolicy:
    """Try jobs in the histories, round by round, and keep the fit that validates best.

    What is validated is the correlation between the gain that a fit expects of one more job and the
    gain that the simulation gives.

    Args:
        training: runs that are fitted.
        validation: what chooses among the rounds.
        settings: of the fit.
        checkpoint: file that keeps the tried jobs; a training with the same settings and loads that
            was interrupted goes on from there.
        load_key: names the loads, so that a checkpoint of other loads is not taken up.
        progress: told after each round.
        start: the network that orders the site's queue; None for the rule of the settings.

    Raises:
        ConfigurationError: no load, a rule that is not known, a rule that orders by users where the
            log names none, or loads with a limit on a class.
    """
    if not training or not validation:
        raise ConfigurationError("site-utility needs at least one training and validation load.")
    order = _order(settings, start)
    medians = class_medians(training)
    histories = [_history(load, order) for load in training]
    shown = _tried([_history(load, order) for load in validation], medians, settings, _VALIDATION)
    kept = Checkpoint(checkpoint, {"settings": asdict(settings), "loads": load_key})
    seen: list[TriedJobs] = []
    fits: list[QNetwork] = []
    curve: list[tuple[int, float, float]] = []
    for turn in range(settings.rounds):
        if turn == len(kept.steps):
            kept.add([column.tolist() for column in _tried(histories, medians, settings, turn)])
        seen.append(TriedJobs(*(np.array(column) for column in kept.steps[turn])))
        fits.append(fit_site_utility(seen, settings))
        correlations = [_correlation(fits[-1], each, settings) for each in (joined(seen), shown)]
        curve.append((turn + 1, correlations[0], correlations[1]))
        if progress is not None:
            progress(turn + 1, max(each[2] for each in curve))
    kept.close()
    validated = [each[2] for each in curve]
    return TrainedPolicy(
        network=fits[validated.index(max(validated))],
        validation_objective=max(validated),
        curve=tuple(curve),
        simulated_jobs=_simulated([*training, *validation], settings),
        compared=((SHARE_DEFICIT, _correlated(-shown.jobs[:, _USED], shown, settings)),),
    )


def class_medians(loads: Sequence[TrainingLoad]) -> ClassMedian:
    """Run times of the classes in the loads, which is all that is known of a job to come."""
    return ClassMedian.of(
        np.concatenate([load.workload.run_time for load in loads]),
        np.concatenate([load.workload.interactive for load in loads]),
    )


def _order(settings: SiteUtilitySettings, network: QNetwork | None) -> QueueOrder:
    if network is not None:
        return QueueOrder(network=network)
    if settings.order in WAITING_RULES:
        return QueueOrder(rule=settings.order)
    if settings.order in RULE_WEIGHTS:
        return QueueOrder(network=rule_network(settings.order))
    known = ", ".join(sorted({*WAITING_RULES, *RULE_WEIGHTS}))
    raise ConfigurationError(
        f"setting order is {settings.order!r}: give the rule that orders the site's queue ({known})"
        ", or its model with --from."
    )


def _history(load: TrainingLoad, order: QueueOrder) -> SiteHistory:
    if load.settings.class_limit is not None:
        raise ConfigurationError(
            "site-utility simulates no limit on batch jobs: leave out --reserve-as."
        )
    prepared = load.prepared
    if order.rule is not None and order.reads_users and not prepared.log.names_users:
        raise ConfigurationError(
            f"the log names no users, and {order.reads_users} orders by users: give another rule "
            "with --set order=RULE, or a model with --from."
        )
    terms = SiteTerms(
        name="site",
        accounts=prepared.accounts,
        shares=prepared.shares,
        order=order,
        settings=load.settings,
    )
    return SiteHistory(terms, load.workload, np.arange(len(load.workload.submit)))


def _tried(
    histories: Sequence[SiteHistory],
    medians: ClassMedian,
    settings: SiteUtilitySettings,
    turn: int,
) -> TriedJobs:
    """Try jobs in all histories, side by side in threads."""
    one = partial(try_jobs, medians=medians, settings=settings)
    places = range(len(histories))
    return joined(side_by_side(lambda place: one(histories[place], more=(turn, place)), places))


def _correlation(network: QNetwork, tried: TriedJobs, settings: SiteUtilitySettings) -> float:
    """Correlation of what a fit expects with what the simulation gave."""
    expected = network.scores(tried.queue[:, None], tried.jobs[:, None])[:, 0]
    return _correlated(expected, tried, settings)


def _correlated(expected: FloatArray, tried: TriedJobs, settings: SiteUtilitySettings) -> float:
    gain = gain_of_objective(tried, settings)
    if np.ptp(expected) == 0.0 or np.ptp(gain) == 0.0:
        return 0.0
    return float(np.corrcoef(expected, gain)[0, 1])


def _simulated(loads: Sequence[TrainingLoad], settings: SiteUtilitySettings) -> int:
    """Jobs of the histories as often as they were walked through, futures not counted."""
    jobs = [len(load.workload.submit) for load in loads]
    return sum(jobs) * settings.rounds
