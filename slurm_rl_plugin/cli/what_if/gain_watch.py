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
from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.hook.experiment.model_gain import GainFile, KeptGain, WeekRow
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.what_if.drift.evidence import BOUND, drift_finding
from slurm_rl_plugin.what_if.drift.weekly_costs import LEAD, WEEK, WeeklyCosts, weekly_costs
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

logger = logging.getLogger(__name__)

#: Weeks before a model came into service of which its gain is what it promised.
REFERENCE = 26
#: Where accounting told of fewer, the first weeks in service are weeks of reference too.
_FEWEST = 12
#: Weeks before the first replay of which the runs are known to the model.
_KNOWN_BEFORE = 5
#: Weeks of reference that one replay counts.
_AT_ONCE = 4


@dataclass(slots=True, kw_only=True)
class GainWatch:
    """Keeps the file beside the state file up to date.

    Attributes:
        site: whose model is watched.
    """

    site: ExperimentSite

    @property
    def file(self) -> GainFile:
        """Of the daemon."""
        return GainFile.beside(Path(self.site.configuration.sections.hook.state_file))

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
            return None
        kept = self.file.read()
        if kept is None or not kept.is_of(policy, sha256):
            kept = self._begun(policy, sha256)
            self.file.write(kept)
        if (told := _without_future(kept, now)) != kept:
            self.file.write(kept := told)
        due = int((now - kept.since) // WEEK) - len(kept.later)
        if due <= 0:
            return kept
        kept = self._with_weeks(kept, due)
        self.file.write(kept)
        return kept

    def _begun(self, policy: str, sha256: str) -> KeptGain:
        """The weeks of reference of a model that is new here."""
        look = self.looked_at(REFERENCE)
        assert look is not None  # of any age
        cluster = self.site.cluster(look)
        weeks = int(np.clip(_weeks_of(cluster, look.now) - (LEAD + 1), 0, REFERENCE))
        with parts_bar("replaying the weeks before", max(weeks, 1)) as progress:
            costs = weekly_costs(
                cluster, look.now - weeks * WEEK, weeks, at_once=_AT_ONCE, progress=progress
            )
        kept = KeptGain(
            policy=policy, model_sha256=sha256, since=look.now, reference=_rows_of(costs)
        )
        logger.info("gain=begun policy=%s weeks=%d", policy, weeks)
        return _judged(kept)

    def looked_at(self, weeks: int, since: float = -math.inf) -> SiteAt | None:
        """The site, with as much accounting as replays of so many weeks take.

        Args:
            weeks: that count.
            since: see `ExperimentSite.look`.

        Raises:
            SlurmRLError: see there.
        """
        self.site.days = (weeks + LEAD + _KNOWN_BEFORE) * WEEK / DAY
        return self.site.look(since)

    def _with_weeks(self, kept: KeptGain, due: int) -> KeptGain:
        """With each week that was over at the daemon's last look."""
        done = len(kept.later)
        begin = kept.since + done * WEEK
        look = self.looked_at(due, begin + WEEK)
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


def _joined(kept: KeptGain, weeks: tuple[WeekRow, ...]) -> KeptGain:
    """With further weeks: of reference while those with a queue are few, else of service."""
    for week in weeks:
        if not kept.later and weeks_known(kept) < _FEWEST:
            rows = (*kept.reference, week)
            kept = replace(kept, since=kept.since + WEEK, reference=rows)
        else:
            kept = replace(kept, later=(*kept.later, week))
    return kept


def _without_future(kept: KeptGain, now: float) -> KeptGain:
    """Without weeks that a clock which was ahead took for over: they are yet to come."""
    return replace(kept, later=tuple(row for row in kept.later if row[0] + WEEK <= now))


def weeks_known(kept: KeptGain) -> int:
    """Weeks of reference with a queue."""
    return drift_finding(_costs_of(kept.reference), WeeklyCosts.none()).weeks


def _weeks_of(cluster: ReplayedCluster, now: float) -> float:
    """Weeks back to the first end that accounting tells of."""
    times = cluster.times
    ends = times.start + times.jobs.run_time
    over = ends[np.isfinite(ends) & (ends <= now)]
    return (now - float(over.min())) / WEEK if len(over) else 0.0


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
