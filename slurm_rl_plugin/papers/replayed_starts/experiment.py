"""Logs replayed under an order, the starts foretold, and bands set by earlier forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.calibration.online import Tails, calibrated
from slurm_rl_plugin.forecasts.calibration.outcomes import Outcomes, places_of
from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.replays.replayed_log import replayed_waits
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf
from slurm_rl_plugin.forecasts.scores import horizon_of, log_waits
from slurm_rl_plugin.learning.evaluation.paired import starts_of_order
from slurm_rl_plugin.papers.replayed_starts.sampling import SampledJobs, Sampling, sampled_jobs
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ForetoldLog:
    """What was foretold of the counted jobs of a log under one order, and what became of them.

    Attributes:
        day: number of each one's day, shape [m].
        wait: seconds, shape [m].
        planned: wait by the plan of limits, seconds, shape [m].
        plain: the forecasts before their bands were set.
        forecasts: as they were given.
    """

    day: IntArray
    wait: FloatArray
    planned: FloatArray
    plain: Forecasts
    forecasts: Forecasts


def foretold(
    log: PreparedLog,
    order: OrderOf,
    settings: SimulationSettings,
    sampling: Sampling,
    *,
    seed: int,
    add: Callable[[int], None],
) -> ForetoldLog:
    """Foretell jobs that did not start at once, as their users would have asked right after.

    Args:
        log: its jobs.
        order: of the queue.
        settings: the batch system.
        sampling: how many jobs.
        seed: of the draws.
        add: told of each forecast.
    """
    workload = log.workload(RequestedLimit())
    everybody = np.arange(len(workload.submit))
    start = starts_of_order(order(workload, everybody), log, workload, settings)
    sampled = sampled_jobs(workload.submit, start > workload.submit, sampling, seed)
    waits = replayed_waits(
        log,
        start,
        order,
        settings,
        sampled.jobs,
        draws=sampling.draws,
        seed=seed,
        progress=lambda _: add(1),
    )
    plain = Forecasts.of_draws(waits.drawn)
    kind = 2 * horizon_of(plain) + workload.interactive[sampled.jobs]
    submit = workload.submit[sampled.jobs]
    given = bands_set(plain, waits.wait, kind, submit, sampled, float(workload.submit[0]))
    return ForetoldLog(
        day=sampled.day[sampled.counted],
        wait=waits.wait[sampled.counted],
        planned=waits.planned[sampled.counted],
        plain=plain.select(sampled.counted),
        forecasts=given,
    )


def bands_set(
    plain: Forecasts,
    wait: FloatArray,
    kind: IntArray,
    submit: FloatArray,
    sampled: SampledJobs,
    first: float,
) -> Forecasts:
    """The forecasts of the counted days with bands by what earlier ones had come to by then.

    Args:
        plain: of all sampled jobs.
        wait: that came true, seconds, shape [m]; none is looked at before it is over.
        kind: of each job, shape [m].
        submit: seconds, shape [m].
        sampled: the jobs.
        first: when the first day of the log began, seconds.
    """
    given: dict[int, Forecasts] = {}
    for day in np.unique(sampled.day).tolist():
        today, before = sampled.day == day, sampled.day < day
        forecasts = plain.select(today)
        if before.any():
            begin = first + day * DAY
            so_far = np.minimum(wait, begin - submit)
            outcomes = Outcomes(
                place=places_of(plain.select(before), log_waits(so_far[before])),
                known=wait[before] == so_far[before],
                weight=np.ones(int(before.sum())),
                kind=kind[before],
            )
            tails = _tails(given, sampled.day, wait, so_far)
            forecasts = calibrated(forecasts, kind[today], outcomes, tails)
        given[day] = forecasts
    counted = [given[day].seconds for day in np.unique(sampled.day[sampled.counted]).tolist()]
    return Forecasts(np.concatenate(counted))


def _tails(
    given: Mapping[int, Forecasts], day: IntArray, wait: FloatArray, so_far: FloatArray
) -> Tails:
    """Shares to leave out, moved by what the bands of each earlier day have missed so far."""
    tails = Tails()
    for number, forecasts in given.items():
        low, high = forecasts.band(0.9)
        waited, over = so_far[day == number], wait[day == number] == so_far[day == number]
        tails = tails.after(float(((waited < low) & over).mean()), float((waited > high).mean()))
    return tails
