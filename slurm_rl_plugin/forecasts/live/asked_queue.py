"""Answers what-if questions about one job: before it is submitted, or with another request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import ForecastRefused
from slurm_rl_plugin.forecasts.live.advice import RUN_DRAWS, advice_for
from slurm_rl_plugin.forecasts.live.asked_jobs import NOT_SUBMITTED, AskedJob, with_job
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.foretold_queue import ForetoldQueue, ahead_of, forecast_document
from slurm_rl_plugin.forecasts.live.site_now import site_now
from slurm_rl_plugin.forecasts.replays.drawn_runs import RunSpreads
from slurm_rl_plugin.policies.protected_policy import waits_for_machine
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray

_BAD = "400 Bad Request"
#: Replays of each question.
_DRAWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQueue:
    """Plays the last look forward with what somebody asks about.

    Attributes:
        forecaster: of the site.
        history: what accounting tells now.
    """

    forecaster: Forecaster
    history: Callable[[], PreparedLog]

    def new_job(self, queue: ForetoldQueue, request: Mapping[str, Any]) -> dict[str, Any]:
        """What is told of a job that is not submitted, and of other requests of it.

        Raises:
            ForecastRefused: the request is not understood, or this machine never holds it.
        """
        wanted = dict(request)
        advice = wanted.pop("advice", False) is True
        snapshot = with_job(queue.snapshot, AskedJob.of_document(wanted))
        place = len(snapshot.pending) - 1
        now = site_now(
            self.history(), snapshot, waits_for_machine(snapshot), self.forecaster.source.half_life
        )
        if now.row[place] < 0:
            raise ForecastRefused(_BAD, "the machine as it is now never holds such a job.")
        job = now.site.pending[[now.row[place]]]
        told = self.forecaster.told_of(now.site, job, _DRAWS)
        ahead, of_account = ahead_of(snapshot, waits_for_machine(snapshot))
        return {
            "jobs": [
                {
                    "job": NOT_SUBMITTED,
                    "forecast": forecast_document(told.forecasts, snapshot.now),
                    "ahead": int(ahead[place]),
                    "ahead_of_account": int(of_account[place]),
                    "note": queue.note or None,
                    "advice": self._advice(snapshot, place) if advice else [],
                }
            ]
        }

    def advice(self, queue: ForetoldQueue, place: int) -> list[dict[str, Any]]:
        """What other requests of a pending job would bring.

        Args:
            queue: as it was foretold last.
            place: of the job among its pending ones.
        """
        return self._advice(queue.snapshot, place)

    def _advice(self, snapshot: QueueSnapshot, place: int) -> list[dict[str, Any]]:
        return advice_for(snapshot, place, self._run_times(snapshot, place), self._waits)

    def _run_times(self, snapshot: QueueSnapshot, place: int) -> FloatArray:
        waits = waits_for_machine(snapshot)
        now = site_now(self.history(), snapshot, waits, self.forecaster.source.half_life)
        job = now.site.pending[[now.row[place]]]
        replayed, _ = self.forecaster.source.at(now.site)
        spreads = RunSpreads.of_quantiles(replayed.quantiles(job), replayed.jobs.time_limit[job])
        rows = RunSpreads(knots=np.repeat(spreads.knots, RUN_DRAWS, axis=0))
        shares = (np.arange(RUN_DRAWS) + 0.5) / RUN_DRAWS
        return rows.drawn(np.zeros(RUN_DRAWS), shares)

    def _waits(self, snapshot: QueueSnapshot, place: int) -> FloatArray:
        """Waits of one pending job, with the same draws for every request of it."""
        waits = waits_for_machine(snapshot)
        now = site_now(self.history(), snapshot, waits, self.forecaster.source.half_life)
        if now.row[place] < 0:
            return np.full(_DRAWS, np.inf)
        replayed, queue = self.forecaster.source.at(now.site)
        rng = np.random.default_rng([self.forecaster.seed, int(snapshot.now), 3])
        job = now.site.pending[[now.row[place]]]
        waited: FloatArray = replayed.starts(queue, job, _DRAWS, rng)[0] - snapshot.now
        return waited
