"""The distribution of a job's run time, predicted from its request and the runs before it.

Each level (similar requests at the site, the user, the user's jobs with similar limits, the
template) is drawn towards the one above it by as many runs as PRIOR_RUNS says, bound by bound.
Nothing is fitted: each run that ends or goes on counts (`run_history`). An order needs the mean run
time, which says what a start costs, and the mean of 1 / max(run time, 10 s), which says what a
second of waiting costs in bounded slowdown. Forecasts take quantiles.

The share that is asked of a distribution moves with each run that ends above or below its
prediction, as in adaptive conformal inference (Gibbs and Candes 2021, equation 2): in the long
run a tenth of the runs ends below the quantile of a tenth.

Elementwise, plain numpy style: the simulator compiles these very lines for one job, the head node
runs them on columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slurm_rl_plugin.features.history.run_history import (
    AS_ASKED,
    AT_RISK,
    BOUNDS,
    ENDED_BEFORE,
    SHORTEST,
)
from slurm_rl_plugin.units import DAY, MINUTE, FloatArray

#: Part of the runs that end before the next bound where nothing is known.
UNKNOWN_HAZARD = 0.12
#: By how many runs of the level above a site, a user, similar limits, a template are drawn.
PRIOR_RUNS = (5.0, 10.0, 6.0, 3.0)
#: The parts of the runs that are to end below the quantiles.
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
#: log10 of the run times between which shares rise: 1 s, the bounds, ten days.
GRID = (0.0, *(math.log10(bound) for bound in BOUNDS), math.log10(10 * DAY))
#: Shares of one prediction: below each number of GRID.
SHARES = len(GRID)
#: Mean run time times mean inverse, at most, of requests for which their users' runs do not speak:
#: such runs count as an eighth of their mean at least, as large ones do on the logs.
UNPAID = 64.0
_LOG_BOUNDS = tuple(math.log(bound) for bound in BOUNDS)
#: Predicted runs count as no shorter than a minute.
_LOG_MINUTE = math.log(MINUTE)
#: Mean seconds of runs that end before the first bound.
_AT_ONCE = 6.0
#: Most similar jobs that count if none of them runs: a thousand copies count no more.
MOST_ALIKE = 8.0
#: How far a run moves what is asked for, and its least distance from 0 and 1.
_RATE, _EDGE = 0.005, 0.001
#: Keeps a step of no height from dividing by 0, and a bound from touching the next.
_NO_RISE = 1e-9


def drawn(above: Any, row: Any, place: int, runs: float) -> Any:
    """The part of the runs that end before a bound, drawn towards that of the level above.

    `row` is of the level (`run_history`), shape [HISTORY] or [HISTORY, n]; the level above counts
    as a number of `runs`, one of PRIOR_RUNS. Elementwise.
    """
    return (row[ENDED_BEFORE + place] + runs * above) / (row[AT_RISK + place] + runs)


def fill_hazards(
    hazards: Any, site: Any, user: Any, limits: Any, template: Any, speaks: Any
) -> None:
    """Parts of the runs that end before each of BOUNDS, of those that have come so far.

    If its user's runs do not speak for a request, they may only say that it runs longer than
    similar requests, not that it ends sooner: no user gains by an incredibly large request.

    Args:
        hazards: filled, shape [len(BOUNDS)] for one job or [len(BOUNDS), n] for columns.
        site: row of similar requests (`run_history`), shape [HISTORY] or [HISTORY, n].
        user: the same of the user; zeros where nothing is known.
        limits: the same of the user's jobs with similar limits.
        template: the same of the template.
        speaks: as `run_history.speaks_for` says.
    """
    for place in range(len(BOUNDS)):
        known = drawn(UNKNOWN_HAZARD, site, place, PRIOR_RUNS[0])
        own = drawn(known, user, place, PRIOR_RUNS[1])
        own = drawn(own, limits, place, PRIOR_RUNS[2])
        own = drawn(own, template, place, PRIOR_RUNS[3])
        hazards[place] = own * speaks + np.minimum(own, known) * (1.0 - speaks)


def expected_run(hazards: Any, time_limit: Any) -> tuple[Any, Any]:
    """Mean run time in seconds, and mean of 1 / max(run time, SHORTEST), of such runs.

    Between two bounds runs are spread evenly in the logarithm of their length; who outlives all
    below the limit, requested seconds, runs as long as asked. Hazards are as of `fill_hazards`.
    """
    limit = np.maximum(time_limit, 1.0)
    log_limit, by_itself = np.log(limit), AS_ASKED * limit
    ended = hazards[0] * (by_itself > 0.0)
    mean = ended * np.minimum(_AT_ONCE, limit)
    rate = ended / SHORTEST
    outlived = 1.0 - ended
    for place in range(1, len(BOUNDS)):
        low = BOUNDS[place - 1]
        high = np.maximum(np.minimum(BOUNDS[place], limit), low * (1.0 + _NO_RISE))
        ended = outlived * hazards[place] * (low < by_itself)
        log_low = _LOG_BOUNDS[place - 1]
        span = np.maximum(np.minimum(_LOG_BOUNDS[place], log_limit) - log_low, _NO_RISE)
        seconds = ended * (high - low) / span
        mean = mean + seconds
        rate = rate + seconds / (low * high)
        outlived = outlived - ended
    return mean + outlived * limit, rate + outlived / np.maximum(limit, SHORTEST)


def believed_rate(mean: Any, rate: Any, speaks: Any) -> Any:
    """Mean inverse that counts, 1/s: at most UNPAID over the mean where its user does not speak.

    How many of such runs end at once is cheap to make up, by runs of a second; how long they are in
    the mean is not. `mean` and `rate` are those of `expected_run`. Elementwise.
    """
    return np.minimum(rate, UNPAID / mean) * (1.0 - speaks) + rate * speaks


def history_features(mean: Any, rate: Any) -> tuple[Any, ...]:
    """Features of a prediction, in the order of the `site` schema.

    The length that counts is the root of the mean run time, in seconds, over the mean inverse, a
    minute at least; the spread is near 0 where the run time is certain.
    """
    log_mean, log_rate = np.log(mean), np.log(rate)
    length = np.maximum(0.5 * (log_mean - log_rate), _LOG_MINUTE)
    return length, 0.5 * (log_mean + log_rate)


def alike_features(pending_alike: Any, running_alike: Any) -> tuple[Any, ...]:
    """Features of how many jobs of the same template there are, after those of the prediction.

    If many wait, the job itself included, and none runs, starting one of them shows how long the
    others run.
    """
    return (np.log(np.minimum(1.0 * pending_alike, MOST_ALIKE)) * (running_alike == 0),)


def nominal_shares() -> FloatArray:
    """What is asked for before any run has ended: PARTS themselves, shape [len(PARTS)]."""
    return np.array(PARTS)


def fill_shares(shares: Any, hazards: Any) -> None:
    """Fill the shares of runs below each number of GRID, [SHARES] or [SHARES, n]; they never fall.

    Hazards are as of `fill_hazards`.
    """
    shares[0] = 0.0
    for place in range(len(BOUNDS)):
        shares[place + 1] = shares[place] + (1.0 - shares[place]) * hazards[place]
    shares[SHARES - 1] = 1.0


def run_time_at(shares: Any, asked: Any) -> Any:
    """Run time in seconds below which a share of the runs falls, 1 s to ten days; elementwise."""
    length = 0.0 * shares[0]
    for step in range(SHARES - 1):
        rise = np.maximum(shares[step + 1] - shares[step], _NO_RISE)
        part = np.minimum(np.maximum((asked - shares[step]) / rise, 0.0), 1.0)
        length = length + (GRID[step + 1] - GRID[step]) * part
    return 10.0**length


def learn_shares(asked: Any, predicted: Any, run_time: float) -> None:
    """A run has ended: what is asked for moves, so that PARTS of the runs end below.

    Args:
        asked: changed in place, shape [len(PARTS)].
        predicted: quantiles of this run at its start, seconds, shape [len(PARTS)]; NaN without a
            prediction, which teaches nothing.
        run_time: seconds.
    """
    if math.isnan(predicted[0]):
        return
    for place in range(len(PARTS)):
        below = 1.0 if run_time <= predicted[place] else 0.0
        moved = asked[place] + _RATE * (PARTS[place] - below)
        asked[place] = min(max(moved, _EDGE), 1.0 - _EDGE)
        if place > 0 and asked[place] < asked[place - 1]:
            asked[place] = asked[place - 1]  # quantiles never cross
