"""The service that watches an experiment: after each block it looks, and steps back by itself."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from slurm_rl_plugin.cli.what_if.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.experiment.files import (
    OVER,
    RUNNING,
    STEPPED_BACK,
    ExperimentStanding,
)
from slurm_rl_plugin.hook.experiment.turns import held_part, misdelivered_since_begin
from slurm_rl_plugin.what_if.switchback.trial import Trial

logger = logging.getLogger(__name__)

#: Part of a day by which a block may be over before it has been looked at: longer is not watching.
_LATE = 1.0 / 24.0
#: Part of a day, and seconds, after which it tries again to look at a block, and says again that
#: it watches.
_PAUSE, _SHORTEST_PAUSE = 1.0 / 1440.0, 5.0
#: The orders must have been in force in the last so many blocks.
_HELD = 12
_NOTHING = "nothing was gained that is beyond chance; {} stays."


@dataclass(slots=True, kw_only=True)
class ExperimentWatch:
    """Looks at an experiment.

    Attributes:
        site: on which it is.
    """

    site: ExperimentSite
    _complaint: str = ""
    _judged: int = -1
    _tried: float = -math.inf

    def look(self, now: float) -> None:
        """Do what is due; no fault ends the service.

        Args:
            now: seconds since the epoch.
        """
        try:
            self._look(now)
        except SlurmRLError as error:
            self._complain(str(error))
        except Exception:  # a bug of ours leaves the queue to the site: nobody watches any more
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
        """The experiment with what is over at the daemon's last look; as before if that is older.

        Raises:
            SlurmRLError: accounting or the look cannot be read.
        """
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
        """Whether nobody has stopped it, or put it away, in the meantime."""
        now_declared, standing = self.site.declared()
        return standing.state == RUNNING and now_declared == declared

    def _ended(
        self, declared: Declaration, trial: Trial | None, now: float
    ) -> ExperimentStanding | None:
        """How it stands from now on; None where it goes on, or nothing new is known."""
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
    """Whether less than so many seconds have gone by since; a time to come is of a wrong clock."""
    return 0.0 <= now - then < seconds


def kept_trial(site: DeclaredExperiment, declared: Declaration) -> Trial | None:
    """What was found so far; None where nothing was.

    Raises:
        ConfigurationError: the findings cannot be read.
    """
    document = site.found(declared)
    if document is None:
        return None
    try:
        return Trial.of_json(declared, document)
    except ValueError as error:
        raise ConfigurationError(f"{site.files.findings}: {error}: remove it.") from None
