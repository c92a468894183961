"""An experiment where the simulator is installed: declare it, watch it, report it."""

from __future__ import annotations

import argparse
import logging
import math
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.domain.queue_file import read_queue
from slurm_rl_plugin.domain.switchback import Declaration, check_hours, drawn_blocks
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.evaluation.declared_experiment import DeclaredExperiment, ExperimentStatus
from slurm_rl_plugin.evaluation.site_replay import Bar
from slurm_rl_plugin.forecasts.live.site_at import SiteAt, site_now
from slurm_rl_plugin.forecasts.live.sources import ReplaySource, own_order
from slurm_rl_plugin.hook.experiment.turns import (
    OVER,
    RUNNING,
    STEPPED_BACK,
    ExperimentStanding,
    held_part,
    misdelivered_since_begin,
)
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.services.configured_site import chosen_batch_system
from slurm_rl_plugin.services.forecast_service import OwnHistory, build_source, order_of
from slurm_rl_plugin.services.hook import load_policy
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.what_if.switchback.block_costs import ReplayedCluster, live_cluster
from slurm_rl_plugin.what_if.switchback.trial import Trial, blocks_before, foretold_cost
from slurm_rl_plugin.whole_file import write_whole

logger = logging.getLogger(__name__)

_NO_QUEUE_FILE = (
    "[forecast] queue_file is empty: name the file in which the daemon leaves the queue, and "
    "restart the daemon; an experiment is judged by it."
)
#: An experiment begins only if our order cost at most this ratio in replays of the past.
_FORETOLD = 1.05
#: Seconds after which a look of the daemon is none any more.
_STALE = 3600.0
#: Seconds of the shortest day in which anything can be rehearsed.
_SHORTEST_DAY = 48.0
#: Part of a day by which a block may be over before it has been looked at: longer is not watching.
_LATE = 1.0 / 24.0
#: Part of a day, and seconds, after which it tries again to look at a block, and says again that
#: it watches.
_PAUSE, _SHORTEST_PAUSE = 1.0 / 1440.0, 5.0
#: Number of recent blocks in which each order must have been in force.
_HELD = 12
_NOTHING = "nothing was gained that is beyond chance; {} stays."


@dataclass(slots=True, kw_only=True)
class ExperimentSite(DeclaredExperiment):
    """A site with an experiment, or one to come, and the history of its jobs."""

    _history: OwnHistory | None = field(default=None)

    def model(self, name: str = "") -> tuple[str, str]:
        """Name of the policy that the daemon loads, and the checksum of its model."""
        loaded = load_policy(name or self.configuration.sections.policy.model)
        return loaded.policy.name, loaded.sha256

    def look(self, since: float = -math.inf) -> SiteAt | None:
        """The site at the daemon's last look, by its accounting; None if older than `since`."""
        where = self.configuration.sections.forecast.queue_file
        if not where:
            raise ConfigurationError(_NO_QUEUE_FILE)
        if self._history is None:
            kind = chosen_batch_system(self.configuration).kind
            self._history = OwnHistory(configuration=self.configuration, kind=kind)
        snapshot = read_queue(Path(where)).snapshot
        if snapshot.now < since:
            return None
        log = self._history.read(snapshot.capacity)
        half_life = self._source().half_life
        return site_now(log, snapshot, half_life)[0]

    def cluster(self, site: SiteAt, candidate: str = "") -> ReplayedCluster:
        """The cluster of a look, whose blocks can be played again.

        A candidate is compared with the model in service, and that with the site's own order.
        """
        in_service = order_of(self.configuration.sections.policy.model)
        if candidate:
            return live_cluster(site, self._source(), in_service, order_of(candidate))
        return live_cluster(site, self._source(), own_order, in_service)

    def _source(self) -> ReplaySource:
        return build_source(self.configuration, chosen_batch_system(self.configuration).kind.name)


def begin(
    site: DeclaredExperiment, options: argparse.Namespace, bar: Bar
) -> tuple[ExperimentStatus, float | None]:
    """Declare an experiment; its status, and the forecast cost of our order over the site's."""
    _refuse(site)
    hours, day = _hours(options.hours), options.day
    if not _SHORTEST_DAY <= day <= DAY:
        raise ConfigurationError(
            f"--day {day:g}: give {_SHORTEST_DAY:g} to {DAY:g} seconds; less only rehearses."
        )
    whole, candidate = ExperimentSite(configuration=site.configuration), options.candidate
    if candidate and named_policy(candidate) is None:
        candidate = str(Path(candidate).resolve())  # as [policy] model would name it
    in_service = whole.model()
    policy, model = whole.model(candidate) if candidate else in_service
    if candidate and (policy, model) == in_service:
        raise ConfigurationError(f"--candidate {candidate} is the model in service: give another.")
    foretold = _foretold(whole, options, bar)
    _refuse(site)  # once more: the replays take minutes, and another experiment may be declared
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    first = math.ceil(now / (day / 24.0)) * (day / 24.0)
    declared = Declaration(
        goal=options.goal,
        harm=options.harm,
        longest_wait=options.longest_wait * HOUR,
        misdelivered=options.misdelivered,
        policy=policy,
        model_sha256=model,
        seed=seed,
        day=day,
        blocks=drawn_blocks(first, options.days, hours, seed, day),
        candidate=candidate,
        champion=in_service[0] if candidate else "",
        champion_sha256=in_service[1] if candidate else "",
    )
    standing = ExperimentStanding(state=RUNNING, reason="", at=now)
    site.files.declare(declared, standing)
    status = ExperimentStatus(declared=declared, standing=standing, found=None, held=1.0, now=now)
    return status, foretold


def _refuse(site: DeclaredExperiment) -> None:
    if site.files.declaration.exists():
        raise ConfigurationError(
            "an experiment is declared already: look at it with `slurm-rl experiment status`, or "
            "put it away with `slurm-rl experiment stop --as-configured`."
        )
    if site.configuration.sections.hook.mode != "active":
        raise ConfigurationError(
            "[hook] mode is shadow, in which ours never has its turn: set it to active; it counts "
            "only in blocks of our order while the experiment lasts."
        )


def _foretold(site: ExperimentSite, options: argparse.Namespace, bar: Bar) -> float | None:
    """What ours would have cost in the two weeks before, over the site's order."""
    now = time.time()  # noqa: TID251 - the composition root hands out the clock
    look = site.look(now - _STALE)
    if look is None:
        raise ConfigurationError("the daemon's last look at the queue is old: start it first.")
    blocks = tuple(blocks_before(min(look.now, now), options.day))
    with bar("replaying the two weeks before", len(blocks)) as progress:
        ratio = foretold_cost(site.cluster(look, options.candidate), blocks, options.goal, progress)
    if options.insist:
        return ratio
    if ratio is None:
        raise ConfigurationError(
            "accounting has no waits in the two weeks before, so no cost can be predicted: "
            "wait until it does, or give --insist."
        )
    if ratio > max(options.harm, _FORETOLD):
        against = "the model in service" if options.candidate else "the site's own order"
        raise ConfigurationError(
            f"by replays of the two weeks before it would have cost {ratio:.2f} of {against} in "
            f"{options.goal}: train a model of this site, or give --insist."
        )
    return ratio


def _hours(text: str) -> list[int]:
    try:
        hours = [int(each) for each in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--hours {text}: give whole numbers, as 4,6,8,12.") from None
    check_hours(hours)
    return hours


@dataclass(slots=True, kw_only=True)
class ExperimentWatch:
    """Looks at an experiment."""

    site: ExperimentSite
    _complaint: str = ""
    _judged: int = -1
    _tried: float = -math.inf

    def look(self, now: float) -> None:
        """Do what is due; no fault ends the service."""
        try:
            self._look(now)
        except SlurmRLError as error:
            self._complain(str(error))
        except Exception:  # a bug: the watch stops, and the queue goes back to the site
            logger.exception("experiment=unwatched")
        else:
            self._complaint = ""

    def _look(self, now: float) -> None:
        files = self.site.files
        if not files.declaration.exists():
            return
        declared, standing = self.site.declared()
        if standing.state != RUNNING:
            return
        over = declared.closed(now)
        trial = kept_trial(self.site, declared)
        done = 0 if trial is None else len(trial.costs)
        pause = max(declared.day * _PAUSE, _SHORTEST_PAUSE)
        if over > done and not _is_just_past(self._tried, now, pause):
            self._tried = now
            trial = self._looked_at(declared, trial)
            done = 0 if trial is None else len(trial.costs)
            if done == over:
                self._tried = -math.inf
        is_late = done < over and now > declared.blocks[done].end + _LATE * declared.day
        if is_late:
            self._complain(f"block {done + 1} is over and cannot be looked at")
            return
        ended = self._ended(declared, trial, now)
        if ended is not None and self._still_runs(declared):
            files.stand(ended)
        self._judged = done  # only now: what could not be written is judged again
        if not _is_just_past(standing.looked, now, pause):
            files.looked(now)

    def _looked_at(self, declared: Declaration, trial: Trial | None) -> Trial | None:
        """The experiment with what was over at the daemon's last look; as before if it is older."""
        begun = 0 if trial is None else len(trial.costs)
        site = self.site.look(declared.blocks[begun].end)
        if site is None:
            return trial
        cluster = self.site.cluster(site, declared.candidate)
        trial = trial or Trial.begun(declared, cluster, site.now)
        for block in declared.blocks[begun : declared.closed(site.now)]:
            trial = trial.looked_at(cluster, block.end)
            if not self._still_runs(declared):
                return trial
            self.site.files.find(trial.as_json(self._held(declared, len(trial.costs))))
        logger.info("experiment=looked blocks=%d", len(trial.costs))
        return trial

    def _still_runs(self, declared: Declaration) -> bool:
        now_declared, standing = self.site.declared()
        return standing.state == RUNNING and now_declared == declared

    def _ended(
        self, declared: Declaration, trial: Trial | None, now: float
    ) -> ExperimentStanding | None:
        """Its new state; None if it goes on or nothing new is known."""
        if trial is None or len(trial.costs) == self._judged:
            return None
        blocks = len(trial.costs)
        recent = self._held(declared, blocks, _HELD) if blocks >= _HELD else 1.0
        misdelivered = misdelivered_since_begin(list(self.site.files.journaled()))
        why = trial.steps_back(recent, misdelivered)
        if why is not None:
            logger.warning("experiment=stepped_back reason=%s", why)
            return ExperimentStanding(state=STEPPED_BACK, reason=why, at=now)
        if blocks == len(declared.blocks):
            words = trial.gain() or _NOTHING.format(declared.against)
            logger.info("experiment=over reason=%s", words)
            return ExperimentStanding(state=OVER, reason=words, at=now)
        return None

    def _held(self, declared: Declaration, blocks: int, last: int | None = None) -> float:
        return held_part(declared, list(self.site.files.journaled()), blocks, last)

    def _complain(self, words: str) -> None:
        if words != self._complaint:
            logger.warning("experiment=unwatched reason=%s", words)
        self._complaint = words


def _is_just_past(then: float, now: float, seconds: float) -> bool:
    """Whether fewer than `seconds` have passed since `then`; a future time means a wrong clock."""
    return 0.0 <= now - then < seconds


def kept_trial(site: DeclaredExperiment, declared: Declaration) -> Trial | None:
    """What was found so far; None where nothing was."""
    document = site.found(declared)
    if document is None:
        return None
    try:
        return Trial.of_json(declared, document)
    except ValueError as error:
        raise ConfigurationError(f"{site.files.findings}: {error}: remove it.") from None


def write_page(site: DeclaredExperiment, path: Path, bar: Bar) -> None:
    """Write the page of the experiment that is declared."""
    from slurm_rl_plugin.evaluation.committee_page import experiment_page  # noqa: PLC0415 - for one action

    declared, standing = site.declared()
    trial = kept_trial(site, declared)
    if trial is None:
        raise ConfigurationError("no block of the experiment is over yet: try again later.")
    whole = ExperimentSite(configuration=site.configuration)
    look = whole.look()
    assert look is not None  # of any age
    cluster = whole.cluster(look, declared.candidate)
    over = min(declared.closed(look.now), len(trial.costs))
    with bar("replaying blocks", max(over, 1)) as progress:
        page = experiment_page(
            declared,
            cluster,
            trial.findings(),
            look.prepared.accounts,
            standing.reason or trial.gain() or "It goes on, and nothing is beyond chance yet.",
            now=declared.blocks[over - 1].end,
            resources=() if look.prepared.machine is None else look.prepared.machine.resources,
            progress=progress,
        )
    write_whole(path, page)
