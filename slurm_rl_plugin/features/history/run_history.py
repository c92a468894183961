"""Counts of past runs: rows for a site's similar requests, users, their limits, templates.

A user's jobs whose time limits lie within the same powers of two have a row. So has a template: a
user's jobs that ask for the same processors (Gibbons 1997) and for time limits of one step
(`limit_step`), so that no user escapes past runs by asking for a minute more.
A row counts, for each of BOUNDS, runs that ended before it of those that had outlived the bound
before: how likely a run is to end there if it has come so far. So a running job counts with what it
has outlived, and one that is ended by its own time limit says nothing about how long it would have
run (Kaplan and Meier 1958). Newer runs weigh more.

A large request is judged by its user's runs only where they cost as much as it asks for, and by
those of all users elsewhere, each of whom has about one voice: a place in the queue would be had
for a few seconds of dummy runs otherwise (docs/security.md). See `speaks_for`.

Folds are plain loops over one row, which the simulator compiles; the head node folds many events at
once (`past_runs`). All else is elementwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.units import DAY, HOUR, MINUTE

#: Run times in seconds between which runs are counted apart.
BOUNDS = (
    *(10.0, 30.0, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, 18 * HOUR, DAY, 2 * DAY),
)
#: Places in a row: runs that ended before each of BOUNDS of those that had come so far; then, of
#: users, core-seconds of runs since the last long one, the last and the last but one run time in
#: seconds, and the slow mean of 1 / max(run time, 10 s).
ENDED_BEFORE, AT_RISK = 0, len(BOUNDS)
SPENT, LAST, PREVIOUS, INVERSE = (2 * len(BOUNDS) + place for place in range(4))
HISTORY = 2 * len(BOUNDS) + 4
#: Weight of a run after the next one: at a site, of a user, similar limits, a template.
SITE_KEEPS, USER_KEEPS, LIMIT_KEEPS, TEMPLATE_KEEPS = 0.999, 0.9, 0.93, 0.6
#: Run time in seconds from which a run is a long one: what was spent before it no longer counts.
LONG_RUN = 2 * HOUR
#: Core-seconds from which a request is large: 1536 core-hours, a day on 64 processors.
LARGE_REQUEST = 1536 * HOUR
#: What a request without a time limit counts as asking for, seconds.
NO_LIMIT = BOUNDS[-1]
#: From this part of its time limit on a run counts as ended by the limit.
AS_ASKED = 0.99
#: Seconds below which bounded slowdown counts all runs as equal.
SHORTEST = 10.0
#: Weight of the newest run in the mean of inverses.
SLOW = 0.1
#: Classes of requests: by time limit from a minute on and by processors, both in powers of two.
LIMIT_CLASSES, _WIDTH_CLASSES = 16, 14
#: Steps of time limits in a power of two.
LIMIT_STEPS = 4
REQUEST_CLASSES = LIMIT_CLASSES * _WIDTH_CLASSES


def limit_class(time_limit: Any) -> Any:
    """The number of a time limit's class, below LIMIT_CLASSES; elementwise, a whole float."""
    long = np.floor(np.log2(np.maximum(time_limit / MINUTE, 1.0)))
    return np.minimum(long, LIMIT_CLASSES - 1.0)


def limit_step(time_limit: Any) -> Any:
    """The number of a time limit's step, a quarter of a power of two; elementwise, a whole float.

    Limits that people ask for, such as 10 minutes, an hour, a day or a week, are 1.6 % or more away
    from where a step begins.
    """
    return np.floor(LIMIT_STEPS * np.log2(np.maximum(time_limit / MINUTE, 1.0)) + 0.5)


def request_class(time_limit: Any, processors: Any) -> Any:
    """The number of a request's class, below REQUEST_CLASSES; elementwise, a whole float."""
    wide = np.floor(np.log2(np.maximum(processors, 1.0)))
    return limit_class(time_limit) * _WIDTH_CLASSES + np.minimum(wide, _WIDTH_CLASSES - 1.0)


def place_of(run_time: Any, time_limit: Any) -> Any:
    """The place in BOUNDS of the first bound above the length of a run that has ended.

    If its limit ended the run, len(BOUNDS) more: it has outlived that bound as far as it could.
    Twice len(BOUNDS) adds nothing to what the run has outlived before. Elementwise.
    """
    place = 0
    beyond = 0  # bounds that it reached only after its limit
    for bound in BOUNDS:
        place = place + (run_time >= bound)
        beyond = beyond + (run_time >= bound) * (bound >= AS_ASKED * time_limit)
    by_limit = run_time >= AS_ASKED * time_limit
    counts = (place < len(BOUNDS)) * (beyond == 0)
    return (place + len(BOUNDS) * by_limit) * counts + 2 * len(BOUNDS) * (1 - counts)


def asked_time(time_limit: Any) -> Any:
    """Requested seconds; NO_LIMIT where none is known. Elementwise."""
    return np.where(np.isfinite(time_limit) & (time_limit > 0.0), time_limit, NO_LIMIT)


def weight_at_site(runs: Any) -> Any:
    """The weight of a run in its request class; it falls with the user's runs there.

    So each user has about the weight of one run: a thousand dummy runs weigh some ten times as
    much as one. Elementwise.
    """
    return 1.0 / (1.0 + runs) ** 2


def weight_among_limits(runs: Any) -> Any:
    """The weight of a run among its user's of one limit class: less if its template had more.

    So a template that ran a hundred times does not decide for the user's others. Elementwise.
    """
    return 1.0 / (1.0 + runs)


def fold_outlived(row: Any, place: int, keeps: float, weight: float) -> None:
    """A run has outlived BOUNDS[place]; changes the row, shape [HISTORY], in place.

    `keeps` is SITE_KEEPS, USER_KEEPS, LIMIT_KEEPS or TEMPLATE_KEEPS; `weight` of the run is
    `weight_at_site`, `weight_among_limits`, else 1.
    """
    kept = 1.0 - weight * (1.0 - keeps)
    row[ENDED_BEFORE + place] = row[ENDED_BEFORE + place] * kept
    row[AT_RISK + place] = row[AT_RISK + place] * kept + weight


def fold_ended(row: Any, place: int, keeps: float, weight: float) -> None:
    """A run has ended at a place of `place_of`; else as `fold_outlived`."""
    if place < 2 * len(BOUNDS):
        bound = place % len(BOUNDS)
        fold_outlived(row, bound, keeps, weight)
        row[ENDED_BEFORE + bound] += weight * (place < len(BOUNDS))


def fold_spent(row: Any, run_time: float, processors: float) -> None:
    """A user's run has ended or outlived LONG_RUN; changes the user's row in place.

    The row has shape [HISTORY], the run time is in seconds.
    """
    if run_time >= LONG_RUN:
        row[SPENT] = 0.0
    else:
        row[SPENT] += run_time * processors


def fold_last(row: Any, run_time: float) -> None:
    """A user's run has ended: it is the last one now; arguments as of `fold_spent`."""
    inverse = 1.0 / max(run_time, SHORTEST)
    row[INVERSE] += (SLOW if row[INVERSE] > 0.0 else 1.0) * (inverse - row[INVERSE])
    row[PREVIOUS] = row[LAST] if row[LAST] > 0.0 else run_time
    row[LAST] = run_time


def speaks_for(spent: Any, time_limit: Any, processors: Any) -> Any:
    """Whether its user's runs speak for a request: for a large one only where they cost as much.

    `spent` are the core-seconds of the user's runs since the last long one; the time limit is in
    seconds. Elementwise.
    """
    asked = time_limit * processors
    return (asked < LARGE_REQUEST) | (spent >= asked)
