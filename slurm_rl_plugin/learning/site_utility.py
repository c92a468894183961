"""A site's utility of one more job, learned from the site's own simulated history (2008, II.C).

The scores of networks that order a queue cannot be compared between sites. A matchmaker needs
Q(s, accept) - Q(s, refuse): the effect of a job of a class and an account, accepted now, on the sum
of (U + F)/2 over the site's jobs. Both are simulated from the same state with the same later jobs,
and the difference is fitted. Runs through the past of a log are for training, a run through the
later part for validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.columns import offered_job_features, offered_jobs, site_queue_features
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.history.run_history import recent_arrivals
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning import training_load
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.learning.policy_search import RULE_WEIGHTS, rule_network
from slurm_rl_plugin.learning.regression import FeedForwardRegressor, Samples
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.learning.training_load import Count
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.site_utilities import SCORES_ENTRY, SITE_UTILITY
from slurm_rl_plugin.policies.waiting_rules import WAITING_RULES
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.sites.routed_sites import RoutedSite, SiteTerms, added_job_gains
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray
from slurm_rl_plugin.utility.reward import RewardWeights

#: Classes in the order of JOB_CLASSES.
_INTERACTIVE = (True, False)
_J_OF_2008 = RewardWeights(time_utility=0.5, responsiveness=0.0, fairness=0.5, tail=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteUtilitySettings:
    """Settings of the trials of one more job at a site, and of the fit to its gain."""

    horizon: Annotated[float, "(0, inf)"] = 24 * HOUR  #: simulated seconds after a trial
    rounds: Count = 6  #: of a training; each tries jobs at other instants and fits again
    states: Count = 80  #: instants of a history at which one more job is tried, in each round
    #: Bound of a gain or loss of U and of F, in jobs, against outliers.
    most: Annotated[float, "(0, inf)"] = 3.0
    hidden: Count = 12  #: sigmoid units
    passes: Count = 30  #: over the samples
    decay: Annotated[float, "[0, inf)"] = 1e-3  #: L2 penalty on the weights
    order: str = "multifactor"  #: rule that orders the queue of a site's log without a model
    seed: int = 1  #: of everything random
    #: Of J of the 2008 paper: publications must be in one unit, whatever a site's [reward].
    weights: RewardWeights = _J_OF_2008

    def __post_init__(self) -> None:
        training_load.check_settings(self)


class SiteHistory(NamedTuple):
    """The jobs of a site in one simulation."""

    terms: SiteTerms
    offered: Workload  #: every job of the simulation, in order of submission
    came: IntArray  #: numbers of the site's jobs, ascending


class TriedJobs(NamedTuple):
    """Jobs of every kind tried in states of a site."""

    queue: FloatArray  #: queue features, shape [samples, Fq]
    jobs: FloatArray  #: job features, shape [samples, Fj]
    gain: FloatArray  #: of the sums of U and of F, shape [samples, 2]


def try_jobs(
    history: SiteHistory,
    medians: ClassMedian,
    settings: SiteUtilitySettings,
    more: Sequence[int] = (),
) -> TriedJobs:
    """Follow a history and try one more job of each class and account at some instants.

    `medians` are the site's run times by class; `more` seeds the draw of instants.
    """
    rng = np.random.default_rng([settings.seed, len(history.came), *more])
    site = RoutedSite(history.terms, history.offered)
    kinds = _jobs_of_each_kind(history)
    submit = history.offered.submit[history.came]
    count = min(settings.states, len(submit))
    chosen = set(np.sort(rng.choice(len(submit), count, replace=False)).tolist())
    rows: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for place, job in enumerate(history.came):
        if place in chosen:
            site.run_until(float(np.nextafter(submit[place], -np.inf)))
            added = [int(rng.choice(each)) for each in kinds.values()]
            ahead, times = history.came[place:], submit[place:]
            gains = added_job_gains(site, added, ahead, times, settings.horizon)
            queue, jobs = _features(site, medians)
            rows.append((np.tile(queue, (len(added), 1)), jobs[list(kinds)], gains))
        site.take(int(job))
    return TriedJobs(*(np.concatenate(each) for each in zip(*rows, strict=True)))


def _jobs_of_each_kind(history: SiteHistory) -> dict[int, IntArray]:
    """Row in `offered_jobs` -> numbers of the offered jobs of that kind that fit, if any."""
    jobs = history.offered
    kinds = offered_jobs(0.0, _INTERACTIVE, len(history.terms.accounts))
    fits = jobs.processors <= history.terms.settings.capacity
    found = {}
    for row, (interactive, account) in enumerate(
        zip(kinds.interactive, kinds.account, strict=True)
    ):
        same = fits & (jobs.interactive == interactive)
        alike = np.flatnonzero(same & (jobs.account == account))
        if len(alike):
            typical = float(jobs.run_time[same].mean())
            found[row] = _nearest(alike, jobs.run_time[alike], typical)
    return found


def _nearest(numbers: IntArray, run_time: FloatArray, typical: float) -> IntArray:
    """The tenth of the jobs with run times nearest to the typical one.

    The fitted figure is the mean over the jobs of a kind. Run times have a heavy tail, and the cost
    of a job grows with its run time: a job of the mean run time gives the mean with less noise.
    """
    kept = max(len(numbers) // 10, 1)
    return numbers[np.argsort(np.abs(run_time - typical), kind="stable")[:kept]]


def _features(site: RoutedSite, medians: ClassMedian) -> tuple[FloatArray, FloatArray]:
    """Features of the model when it publishes, by the code of the head node."""
    snapshot = site.snapshot()
    waiting, running = snapshot.pending.jobs, snapshot.running.jobs
    queue = site_queue_features(
        snapshot,
        medians.estimate(waiting.time_limit, waiting.interactive),
        medians.estimate(running.time_limit, running.interactive),
        recent_arrivals(snapshot)[1:],
    )
    jobs = offered_job_features(snapshot, _INTERACTIVE, medians)
    return queue.astype(np.float64), jobs.astype(np.float64)


def joined(tried: Sequence[TriedJobs]) -> TriedJobs:
    """Samples of several loads, concatenated."""
    return TriedJobs(*(np.concatenate(each) for each in zip(*tried, strict=True)))


def gain_of_objective(tried: TriedJobs, settings: SiteUtilitySettings) -> FloatArray:
    """Gain of each trial in the sum of (U + F)/2, bounded; shape [samples]."""
    bounded = np.clip(tried.gain, -settings.most, settings.most)
    return np.asarray(bounded.mean(axis=1), dtype=np.float64)


def fit_site_utility(tried: Sequence[TriedJobs], settings: SiteUtilitySettings) -> QNetwork:
    """The network that scores the expected gain in the sum of (U + F)/2."""
    columns = joined(tried)
    gain = gain_of_objective(columns, settings)
    regressor = FeedForwardRegressor(
        schema=SITE, hidden=settings.hidden, passes=settings.passes, decay=settings.decay
    )
    states = np.empty((len(gain), 0))
    samples = Samples(columns.queue, columns.jobs, states, gain)
    return regressor.network(regressor.fit(samples, settings.seed))


def site_utility_entries(medians: ClassMedian) -> dict[str, str]:
    """Metadata that mark a model's scores as utilities."""
    return {SCORES_ENTRY: SITE_UTILITY, **medians.entries}


def export_site_utility(network: QNetwork, path: Path, medians: ClassMedian) -> None:
    """Write it as the ONNX file that `published_utilities` takes."""
    export_network(network, path, {"algorithm": SITE_UTILITY, **site_utility_entries(medians)})


#: The prediction that a fit is compared with: the unused share of the account alone.
SHARE_DEFICIT = "share deficit alone"
_USED = SITE.jobs.index("share_doublings")
#: Seed of the instants of validation; those of the rounds count from 0.
_VALIDATION = 1_000_000


def train_site_utility(
    training: Sequence[training_load.TrainingLoad],
    validation: Sequence[training_load.TrainingLoad],
    settings: SiteUtilitySettings,
    kept: Checkpoint,
    progress: training_load.Progress,
    start: QNetwork | None,
) -> training_load.TrainedPolicy:
    """Try jobs in the histories, round by round, and keep the fit that validates best.

    The validated figure is the correlation between expected and simulated gains of one more job.
    `start` orders the site's queue, by default the rule of the settings.
    """
    order = _order(settings, start)
    medians = class_medians(training)
    histories = [_history(load, order) for load in training]
    shown = _tried([_history(load, order) for load in validation], medians, settings, _VALIDATION)
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
        progress(turn + 1, max(each[2] for each in curve))
    validated = [each[2] for each in curve]
    jobs = sum(len(load.workload.submit) for load in (*training, *validation))
    return training_load.TrainedPolicy(
        network=fits[validated.index(max(validated))],
        validation_objective=max(validated),
        curve=tuple(curve),
        simulated_jobs=jobs * settings.rounds,  # futures not counted
        compared=((SHARE_DEFICIT, _correlated(-shown.jobs[:, _USED], shown, settings)),),
    )


def class_medians(loads: Sequence[training_load.TrainingLoad]) -> ClassMedian:
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


def _history(load: training_load.TrainingLoad, order: QueueOrder) -> SiteHistory:
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
    one = partial(try_jobs, medians=medians, settings=settings)
    places = range(len(histories))
    return joined(side_by_side(lambda place: one(histories[place], more=(turn, place)), places))


def _correlation(network: QNetwork, tried: TriedJobs, settings: SiteUtilitySettings) -> float:
    expected = network.scores(tried.queue[:, None], tried.jobs[:, None])[:, 0]
    return _correlated(expected, tried, settings)


def _correlated(expected: FloatArray, tried: TriedJobs, settings: SiteUtilitySettings) -> float:
    gain = gain_of_objective(tried, settings)
    if np.ptp(expected) == 0.0 or np.ptp(gain) == 0.0:
        return 0.0
    return float(np.corrcoef(expected, gain)[0, 1])
