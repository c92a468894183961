"""Answers what-if questions about one job: before it is submitted, or with another request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.live.advice import RUN_DRAWS, advice_for
from slurm_rl_plugin.forecasts.live.asked_jobs import NOT_SUBMITTED, AskedJob, with_job
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.foretold_queue import (
    ForetoldQueue,
    ahead_of,
    forecast_documents,
)
from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.forecasts.live.site_now import SiteNow, site_now
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray, IntArray

_BAD = "400 Bad Request"
#: A site, and the row of one of its pending jobs, shape [1].
_Placed = tuple[SiteAt, IntArray]
#: Replays of each request at most, and seconds that one may take: the job's own, and each variant.
_DRAWS, _SECONDS = 40, 4.0
#: Seconds after which a question has no further replay: of the job's own request and two variants.
QUESTION_SECONDS = 3.0 * _SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQueue:
    """Plays the last look forward with what somebody asks about.

    A question ends QUESTION_SECONDS after it began, and then the replay under way: who asks has
    fewer draws from a queue that is slow to play, and an answer.

    Attributes:
        forecaster: of the site.
        history: what accounting tells now.
    """

    forecaster: Forecaster
    history: Callable[[], PreparedLog]

    def new_job(self, queue: ForetoldQueue, request: Mapping[str, Any]) -> dict[str, Any]:
        """What is told of a job that is not submitted, and of other requests of it.

        Raises:
            RequestRefused: the request is not understood, or this machine never holds it.
        """
        until = self.forecaster.monotonic() + QUESTION_SECONDS
        wanted = dict(request)
        advice = wanted.pop("advice", False) is True
        snapshot = with_job(queue.snapshot, AskedJob.of_document(wanted))
        place = len(snapshot.pending) - 1
        now = self._now(snapshot, place)
        site, job = _placed_in(now, place)
        draws = self._replayed(site, job, _DRAWS, until)
        told = self.forecaster.told_of(site, job, draws)
        ahead, of_account = self._ahead(snapshot, now)
        document = {
            "job": NOT_SUBMITTED,
            "forecast": forecast_documents(told.forecasts, snapshot.now)[0],
            "ahead": int(ahead[place]),
            "ahead_of_account": int(of_account[place]),
            "note": queue.note or None,
            "advice": self._advice(snapshot, place, (site, job), draws, until) if advice else [],
        }
        return {"jobs": [document]}

    def advice(self, queue: ForetoldQueue, place: int) -> list[dict[str, Any]]:
        """What other requests of a pending job would bring.

        Args:
            queue: as it was foretold last.
            place: of the job among its pending ones.
        """
        until = self.forecaster.monotonic() + QUESTION_SECONDS
        site, job = _placed_in(self._now(queue.snapshot, place), place)
        draws = self._replayed(site, job, _DRAWS, until)
        return self._advice(queue.snapshot, place, (site, job), draws, until)

    def _advice(
        self,
        snapshot: QueueSnapshot,
        place: int,
        base: _Placed,
        draws: FloatArray,
        until: float,
    ) -> list[dict[str, Any]]:
        count = draws.shape[1]

        def waits(other: QueueSnapshot) -> FloatArray:
            if self.forecaster.monotonic() >= until:
                return np.empty(0)
            try:
                there, job = _placed_in(self._now(other, place), place)
            except RequestRefused:  # so asked it never starts
                return np.full(count, np.inf)
            return np.asarray(self._replayed(there, job, count, until)[0])

        site, own = base
        run_times = self.forecaster.source.run_times(site, int(own[0]), RUN_DRAWS)
        return advice_for(snapshot, place, run_times, draws[0], waits)

    def _replayed(self, site: SiteAt, job: IntArray, most: int, until: float) -> FloatArray:
        """Waits of one job, [1, draws]: one, and more as far as the question's time goes."""
        seconds = min(_SECONDS, until - self.forecaster.monotonic())
        return self.forecaster.replayed(site, job, most, seconds, least=1)

    def _ahead(self, snapshot: QueueSnapshot, now: SiteNow) -> tuple[IntArray, IntArray]:
        """Jobs before each by the order of replays: who is not submitted has no priority."""
        placed = now.row >= 0
        scores = np.full(len(placed), -np.inf)
        scores[placed] = -self.forecaster.source.ranks(now.site)[now.row[placed]]
        return ahead_of(snapshot, snapshot.waits_for_machine, scores)

    def _now(self, snapshot: QueueSnapshot, place: int) -> SiteNow:
        """The site of a look, in which one of its pending jobs has a row.

        Raises:
            RequestRefused: the machine never holds it.
        """
        waits = snapshot.waits_for_machine
        now = site_now(self.history(), snapshot, waits, self.forecaster.source.half_life)
        if now.row[place] < 0:
            raise RequestRefused(_BAD, "the machine as it is now never holds such a job.")
        return now


def _placed_in(now: SiteNow, place: int) -> _Placed:
    return now.site, now.site.pending[[now.row[place]]]
