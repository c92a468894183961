"""Logs replayed under an order: starts are forecast, and earlier forecasts calibrate the bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts import forecast
from slurm_rl_plugin.forecasts.replays import OrderOf, replayed_waits
from slurm_rl_plugin.learning.evaluation.paired import starts_of_order
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.measure.intervals import of_blocks
from slurm_rl_plugin.papers.study import claims
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.papers.study.trials import read_study_logs
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, BoolArray, FloatArray, IntArray

#: Parts of a log's time: run times are learned, then bands calibrated, then figures count.
_BANDS_FROM, _COUNTED_FROM = 0.4, 0.6
#: Most jobs of a day of a short log, as a multiple of `Sampling.jobs`: jobs of one queue depend on
#: each other, and each takes as long to forecast.
_MOST_TIMES = 3


class Sampling(NamedTuple):
    """Numbers of forecasts."""

    warm_up: int = 12  #: days with forecasts that calibrate the first bands
    days: int = 20
    jobs: int = 20  #: of each day at most; up to three times as many if the log has fewer days
    draws: int = 16  #: replays for each job


QUICK = Sampling(warm_up=3, days=3, jobs=4, draws=4)


class SampledJobs(NamedTuple):
    """Jobs to forecast, ascending; arrays of shape [m]."""

    jobs: IntArray  #: numbers in the log
    day: IntArray  #: number of the day
    counted: BoolArray  #: whether the day counts


def sampled_jobs(
    submit: FloatArray, asked: BoolArray, sampling: Sampling, seed: int
) -> SampledJobs:
    """Draw jobs of evenly spread days.

    `submit`, in seconds, and `asked`, whether a user would ask for a forecast, have shape [n].
    """
    rng = np.random.default_rng(seed)
    days = np.floor((submit - submit[0]) / DAY).astype(np.int64)
    last = int(days[-1])
    first, border = int(_BANDS_FROM * (last + 1)), int(_COUNTED_FROM * (last + 1))
    jobs = []
    for begin, end, count in (
        (first, border - 1, sampling.warm_up),
        (border, last, sampling.days),
    ):
        chosen = np.unique(np.linspace(begin, end, count).astype(np.int64))
        times = min(count / max(len(chosen), 1), _MOST_TIMES)  # more of each day of a short log
        most = int(sampling.jobs * times)
        for day in chosen:
            there = np.flatnonzero((days == day) & asked)
            jobs.append(np.sort(rng.permutation(there)[:most]))
    taken = np.concatenate(jobs)
    if not (days[taken] >= border).any():
        raise ConfigurationError(
            "no job waits on the drawn days of the last 40 %: there is nothing to forecast."
        )
    return SampledJobs(jobs=taken, day=days[taken], counted=days[taken] >= border)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastLog:
    """Forecasts for the counted jobs of a log under one order, and their waits."""

    day: IntArray  #: number of the day, shape [m]
    wait: FloatArray  #: seconds, shape [m]
    planned: FloatArray  #: wait by the plan of limits, seconds, shape [m]
    plain: forecast.Forecasts  #: before calibration of the bands
    forecasts: forecast.Forecasts  #: as given


def forecast_log(
    log: PreparedLog,
    order: OrderOf,
    settings: SimulationSettings,
    sampling: Sampling,
    *,
    seed: int,
    add: Callable[[int], None],
) -> ForecastLog:
    """Forecast the jobs that did not start at once, right after their submission."""
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
    plain = forecast.Forecasts.of_draws(waits.drawn)
    kind = 2 * forecast.horizon_of(plain) + workload.interactive[sampled.jobs]
    submit = workload.submit[sampled.jobs]
    given = bands_set(plain, waits.wait, kind, submit, sampled, float(workload.submit[0]))
    return ForecastLog(
        day=sampled.day[sampled.counted],
        wait=waits.wait[sampled.counted],
        planned=waits.planned[sampled.counted],
        plain=plain.select(sampled.counted),
        forecasts=given,
    )


def bands_set(
    plain: forecast.Forecasts,
    wait: FloatArray,
    kind: IntArray,
    submit: FloatArray,
    sampled: SampledJobs,
    first: float,
) -> forecast.Forecasts:
    """The forecasts of the counted days, their bands calibrated by earlier outcomes.

    Args:
        plain: forecasts of all sampled jobs.
        wait: actual, seconds, shape [m]; no wait is used before it is over.
        kind: of each job, shape [m].
        submit: seconds, shape [m].
        first: begin of the first day of the log, seconds.
    """
    given: dict[int, forecast.Forecasts] = {}
    for day in np.unique(sampled.day).tolist():
        today, before = sampled.day == day, sampled.day < day
        forecasts = plain.select(today)
        if before.any():
            begin = first + day * DAY
            so_far = np.minimum(wait, begin - submit)
            outcomes = forecast.Outcomes(
                place=forecast.places_of(plain.select(before), forecast.log_waits(so_far[before])),
                known=wait[before] == so_far[before],
                weight=np.ones(int(before.sum())),
                kind=kind[before],
            )
            tails = _tails(given, sampled.day, wait, so_far)
            forecasts = forecast.calibrated(forecasts, kind[today], outcomes, tails)
        given[day] = forecasts
    counted = [given[day].seconds for day in np.unique(sampled.day[sampled.counted]).tolist()]
    return forecast.Forecasts(np.concatenate(counted))


def _tails(
    given: Mapping[int, forecast.Forecasts], day: IntArray, wait: FloatArray, so_far: FloatArray
) -> forecast.Tails:
    """Shares outside the bands, adapted to the misses of the bands of earlier days so far."""
    tails = forecast.Tails()
    for number, forecasts in given.items():
        low, high = forecasts.band(0.9)
        waited, over = so_far[day == number], wait[day == number] == so_far[day == number]
        tails = tails.after(float(((waited < low) & over).mean()), float((waited > high).mean()))
    return tails


TO_PLAN = "median |log10 error| / plan's by limits"
COVERAGE, DAYS = "coverage of the 90 % band", "part of days with coverage of 0.80 to 0.97"
#: Goal for the coverage of a day.
_A_DAY = (0.80, 0.97)
DECLARED = claims.Declared(__package__)


def rows_of(log: str, order: str, found: ForecastLog) -> Iterator[claims.Row]:
    """The figures of a log under one order with goals."""
    truth = forecast.log_waits(found.wait)
    errors = np.stack(
        [
            np.abs(forecast.log_waits(each) - truth)
            for each in (found.forecasts.median, found.planned)
        ]
    )
    again = of_blocks(found.day, lambda jobs: ratio_of_medians(errors[:, jobs]))
    again = again if np.isfinite(again).all() else np.empty(0)  # no interval if a draw has no ratio
    yield claims.row_of(log, order, TO_PLAN, claims.Measurement.of(ratio_of_medians(errors), again))
    inside = forecast.covered(found.forecasts, found.wait, 0.9).astype(np.float64)
    before = float(forecast.covered(found.plain, found.wait, 0.9).mean())
    baselines = {"before bands were set": before}
    yield claims.row_of(log, order, COVERAGE, inside.mean(), baselines=baselines)
    days = np.array([inside[found.day == day].mean() for day in np.unique(found.day)])
    within = (days >= _A_DAY[0]) & (days <= _A_DAY[1])
    yield claims.row_of(log, order, DAYS, within.mean())


def ratio_of_medians(pair: FloatArray) -> float:
    """Median of the first row over that of the second, shape [2, m]; 1 where both are 0."""
    above, below = np.median(pair, axis=1)
    if below == 0.0:
        return 1.0 if above == 0.0 else float(np.inf)
    return float(above / below)


#: The model that predicts run times, and orders the queue of "default".
_MODEL = "default"
_HALF_LIFE = 7 * DAY
_SEED = 1
#: The week of UB-HPC and its machine, files of one folder.
_WEEK, _MACHINE = "workload_week.events.gz", "slurm.conf"


def _logs_in(folder: Path) -> dict[str, PreparedLog]:
    places = [each for each in (folder, folder / "ubhpc") if (each / _WEEK).exists()]
    found = {
        name: each.prepared
        for name, each in read_study_logs(folder, fewest=0 if places else 1).items()
    }
    for place in places[:1]:
        machine = read_machine(place / _MACHINE)
        found["UB-HPC"] = prepare_log(read_log(place / _WEEK)[0], machine=machine)
    return found


def _coverage_figure(found: Mapping[tuple[str, str], ForecastLog]) -> Any:
    """The median and the 90 % band over the true wait for each log and order, hours."""
    logs, orders = (list(dict.fromkeys(each[place] for each in found)) for place in (0, 1))
    figure, axes = plt.subplots(
        len(logs), len(orders), figsize=(4 * len(orders), 3.2 * len(logs)), squeeze=False
    )
    for (log, order), each in found.items():
        axis = axes[logs.index(log)][orders.index(order)]
        wait = np.maximum(each.wait, 1.0) / HOUR
        low, high = (end / HOUR for end in each.forecasts.band(0.9))
        axis.vlines(wait, low, high, color="C0", alpha=0.12)
        axis.plot(
            wait, each.forecasts.median / HOUR, ".", markersize=3, color="C0", label="replays"
        )
        axis.plot(
            wait, np.maximum(each.planned, 1.0) / HOUR, ".", markersize=2, color="C1", label="plan"
        )
        ends = [float(wait.min()), float(wait.max())]
        axis.plot(ends, ends, color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", title=f"{log}, {order}")
        axis.set_xlabel("wait, hours")
        axis.set_ylabel("forecast, hours")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def run(asked: Asked) -> Outcome:
    """Forecast jobs of each log under each order, and score the forecasts."""
    asked.refuse_seeds("give none")
    logs = _logs_in(asked.logs)
    network = import_network(asked.shipped(_MODEL))
    sampling = QUICK if asked.quick else Sampling()
    orders: dict[str, OrderOf] = {
        "fifo": lambda workload, _: QueueOrder(scores=-workload.submit),
        "multifactor": lambda *_: QueueOrder(rule="multifactor"),
        _MODEL: lambda *_: QueueOrder(network=network),
    }
    steps = len(logs) * len(orders) * (sampling.days + sampling.warm_up) * sampling.jobs
    found: dict[tuple[str, str], ForecastLog] = {}
    with asked.bar("replaying", steps) as add:
        for log, prepared in logs.items():
            settings = SimulationSettings(
                capacity=prepared.capacity,
                backfilling="easy" if prepared.machine is None else AS_SLURM,
                half_life=_HALF_LIFE,
            )
            for order, of in orders.items():
                found[log, order] = forecast_log(
                    prepared, of, settings, sampling, seed=_SEED, add=add
                )
    facts = {f"{log}, {order}": _facts(each) for (log, order), each in found.items()}
    return Outcome(
        claims=DECLARED.claims(
            one for (log, order), each in found.items() for one in rows_of(log, order, each)
        ),
        seeds=(),
        facts={"forecasts": facts, "sampling": sampling._asdict()},
        drawings={"replayed-starts.png": lambda: _coverage_figure(found)},
    )


def _facts(found: ForecastLog) -> dict[str, Any]:
    planned = forecast.Forecasts.of_draws(found.planned[:, None])
    return {
        "days": len(np.unique(found.day)),
        "replays": forecast.scores_of(found.forecasts, found.wait).as_json(),
        "before bands were set": forecast.scores_of(found.plain, found.wait).as_json(),
        "plan by limits": forecast.scores_of(planned, found.wait).as_json(),
    }
