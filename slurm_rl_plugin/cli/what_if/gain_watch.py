"""Watches, week by week, what the model in service gains, and says when that is lost."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.cli.forecasts.forecast_assembly import known_order
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.errors import SlurmRLError
from slurm_rl_plugin.hook.experiment.model_gain import GainFile, KeptGain, WeekRow
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.what_if.drift.evidence import BOUND, drift_finding
from slurm_rl_plugin.what_if.drift.weekly_costs import LEAD, WEEK, WeeklyCosts, weekly_costs
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

logger = logging.getLogger(__name__)

#: Weeks before a model came into service of which its gain is what it promised.
REFERENCE = 26
#: Where accounting told of fewer, the first weeks in service are weeks of reference too.
_FEWEST = 12
#: Days of accounting that they take.
HISTORY_DAYS = (REFERENCE + LEAD + 1) * WEEK / DAY
#: Weeks of reference that one replay counts.
_AT_ONCE = 4
#: Seconds between two looks at whether a week is over.
_PAUSE = HOUR


@dataclass(slots=True, kw_only=True)
class GainWatch:
    """Keeps the file beside the state file up to date.

    Attributes:
        site: with as many days of accounting as HISTORY_DAYS.
    """

    site: ExperimentSite
    _next: float = -math.inf
    _complaint: str = ""

    @property
    def file(self) -> GainFile:
        """Of the daemon."""
        return GainFile.beside(Path(self.site.configuration.sections.hook.state_file))

    def look(self, now: float) -> None:
        """Do what is due; no fault ends the service.

        Args:
            now: seconds since the epoch.
        """
        if now < self._next:
            return
        self._next = now + _PAUSE
        try:
            self.look_now(now)
        except SlurmRLError as error:
            self._complain(str(error))
        except Exception:  # what a model gains is told, and nothing hangs on it
            logger.exception("gain=unwatched")
        else:
            self._complaint = ""

    def look_now(self, now: float) -> KeptGain | None:
        """What is known of the model in service, with the weeks that are over.

        Args:
            now: seconds since the epoch.

        Returns:
            None where no replay plays the model.

        Raises:
            SlurmRLError: accounting, the daemon's look, the model or the file cannot be read.
        """
        policy, sha256 = self.site.model()
        if known_order(self.site.configuration.sections.policy.model) is None:
            self._complain(f"no replay plays {policy}: it has a memory of its own")
            return None
        kept = self.file.read()
        if kept is None or not kept.is_of(policy, sha256):
            kept = self._begun(policy, sha256)
            self.file.write(kept)
        due = int((now - kept.since) // WEEK) - len(kept.later)
        if due <= 0:
            return kept
        kept = self._with_weeks(kept)
        self.file.write(kept)
        return kept

    def _begun(self, policy: str, sha256: str) -> KeptGain:
        """The weeks of reference of a model that is new here."""
        look = self.site.look()
        assert look is not None  # of any age
        cluster = self.site.cluster(look)
        submit = cluster.times.jobs.submit
        known = (look.now - float(submit[0])) / WEEK - 1.0 if len(submit) else 0.0
        weeks = int(min(REFERENCE, max(known, 0.0)))
        with parts_bar("replaying the weeks before", max(weeks, 1)) as progress:
            costs = weekly_costs(
                cluster, look.now - weeks * WEEK, weeks, at_once=_AT_ONCE, progress=progress
            )
        kept = KeptGain(
            policy=policy, model_sha256=sha256, since=look.now, reference=_rows_of(costs)
        )
        logger.info("gain=begun policy=%s weeks=%d", policy, weeks)
        return _judged(kept)

    def _with_weeks(self, kept: KeptGain) -> KeptGain:
        """With each week that was over at the daemon's last look."""
        done = len(kept.later)
        begin = kept.since + done * WEEK
        look = self.site.look(begin + WEEK)
        if look is None:
            return kept
        weeks = int((look.now - begin) // WEEK)
        cluster: ReplayedCluster = self.site.cluster(look)
        with parts_bar("replaying weeks", weeks) as progress:
            costs = weekly_costs(cluster, begin, weeks, progress=progress)
        found = _judged(_joined(kept, _rows_of(costs)))
        if found.lost_at is not None and kept.lost_at is None:
            logger.warning(
                "gain=lost policy=%s promised=%.2f lately=%.2f: train again (slurm-rl renew)",
                *(found.policy, found.promised, found.lately),
            )
        return found

    def _complain(self, words: str) -> None:
        if words != self._complaint:
            logger.warning("gain=unwatched reason=%s", words)
        self._complaint = words


def _joined(kept: KeptGain, weeks: tuple[WeekRow, ...]) -> KeptGain:
    """With further weeks: of reference while those are few, else of service."""
    few = max(_FEWEST - len(kept.reference), 0) if not kept.later else 0
    first = weeks[:few]
    return replace(
        kept,
        since=kept.since + len(first) * WEEK,
        reference=(*kept.reference, *first),
        later=(*kept.later, *weeks[few:]),
    )


def _judged(kept: KeptGain) -> KeptGain:
    """With what its weeks say."""
    found = drift_finding(_costs_of(kept.reference), _costs_of(kept.later))
    lost_at = None
    if found.lost_at is not None:
        lost_at = kept.later[found.lost_at][0] + WEEK
    return replace(
        kept,
        promised=found.promised,
        lately=found.lately,
        evidence=float(found.evidence[-1]) / BOUND if len(found.evidence) else 0.0,
        lost_at=lost_at,
    )


def _rows_of(costs: WeeklyCosts) -> tuple[WeekRow, ...]:
    columns = (costs.begin.tolist(), costs.by_site.tolist(), costs.by_ours.tolist())
    return tuple(zip(*columns, strict=True))


def _costs_of(rows: tuple[WeekRow, ...]) -> WeeklyCosts:
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return WeeklyCosts(begin=table[:, 0], by_site=table[:, 1], by_ours=table[:, 2])
