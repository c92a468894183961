"""What past runs tell of a job: running means of one site, one user, one template of jobs.

A template is a user's jobs that ask for the same processors and the same time limit (Gibbons 1997).
Each keeps a row of HISTORY numbers. Whether a run is short counts from the moment it is known: a
job that has outlived one of SHORT_RUN_TIMES says so while it runs. Were it to count at its end
only, of jobs started together the short ones alone would have spoken at first.

A large request is judged by past runs only where they cost as much as it asks for, and taken at its
word elsewhere: a place in the queue would be had for a few seconds of dummy runs otherwise
(docs/security.md). See `speaks_for`.

Plain loops over one row: the simulator compiles these very lines.
"""

from __future__ import annotations

import math
from typing import Any

#: Run times in seconds under which runs are counted apart: dies at once, short, hours.
SHORT_RUN_TIMES = (60.0, 900.0, 7200.0)
#: Places in a row: for each of SHORT_RUN_TIMES the share of shorter runs, fast and slow mean; the
#: mean of log10(1 + run time), fast and slow; last and last but one run time, seconds; the slow
#: mean of 1 / max(run time, 10 s); of users, core-seconds of runs since the last long one.
SHORT, LOG_RUN, LAST, PREVIOUS, INVERSE, SPENT = 0, 6, 8, 9, 10, 11
HISTORY = 12
#: Weight of the newest run in a fast and in a slow mean: some two runs, some twenty.
FAST, SLOW = 0.5, 0.1
#: The same for a whole site, where runs come in from everybody.
SITE_FAST, SITE_SLOW = 0.02, 0.002
#: A row of which nothing is known: about what large machines see.
UNKNOWN = (0.1, 0.1, 0.4, 0.4, 0.7, 0.7, 3.0, 3.0, 3600.0, 3600.0, 0.01, 0.0)
#: Run time in seconds from which a run is a long one: what was spent before it no longer counts.
LONG_RUN = SHORT_RUN_TIMES[-1]
#: Core-seconds from which a request is large: 1536 core-hours, a day on 64 processors.
LARGE_REQUEST = 1536 * 3600.0
#: Seconds under which bounded slowdown counts every run alike.
_SHORTEST = 10.0


def fold_outlived(row: Any, place: int, fast: float, slow: float) -> None:
    """A running job has outlived SHORT_RUN_TIMES[place]; changes the row in place.

    Args:
        row: shape [HISTORY].
        place: in SHORT_RUN_TIMES.
        fast: weight of the newest run in the fast mean.
        slow: the same in the slow mean.
    """
    row[SHORT + 2 * place] -= fast * row[SHORT + 2 * place]
    row[SHORT + 2 * place + 1] -= slow * row[SHORT + 2 * place + 1]


def fold_ended(row: Any, run_time: float, fast: float, slow: float) -> None:
    """A job has ended; changes the row in place.

    Args:
        row: shape [HISTORY].
        run_time: seconds.
        fast: weight of the newest run in the fast mean.
        slow: the same in the slow mean.
    """
    for place in range(len(SHORT_RUN_TIMES)):
        if run_time < SHORT_RUN_TIMES[place]:
            row[SHORT + 2 * place] += fast * (1.0 - row[SHORT + 2 * place])
            row[SHORT + 2 * place + 1] += slow * (1.0 - row[SHORT + 2 * place + 1])
    log_run = math.log10(1.0 + run_time)
    row[LOG_RUN] += fast * (log_run - row[LOG_RUN])
    row[LOG_RUN + 1] += slow * (log_run - row[LOG_RUN + 1])
    row[PREVIOUS] = row[LAST]
    row[LAST] = run_time
    row[INVERSE] += slow * (1.0 / max(run_time, _SHORTEST) - row[INVERSE])


def fold_spent(row: Any, run_time: float, size: float) -> None:
    """A user's run has ended or outlived LONG_RUN; changes the user's row in place.

    Args:
        row: shape [HISTORY].
        run_time: seconds.
        size: of the job, in processors.
    """
    if run_time >= LONG_RUN:
        row[SPENT] = 0.0
    else:
        row[SPENT] += run_time * size


def speaks_for(spent: Any, time_limit: Any, size: Any) -> Any:
    """Whether past runs speak for a request: for a large one only where they cost as much.

    Elementwise.

    Args:
        spent: core-seconds of the user's runs since the last long one.
        time_limit: requested seconds.
        size: of the job, in processors.
    """
    asked = time_limit * size
    return (asked < LARGE_REQUEST) | (spent >= asked)
