"""How many interactive jobs came in lately: what tells a burst from a quiet night.

The counts fade exponentially, so a policy needs to keep only four numbers between decisions.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray

#: Seconds in which a count fades to 1/e.
FADING_TIMES = (10 * MINUTE, 1 * HOUR, 6 * HOUR)
#: What is kept: [time of the counts, one count for each of FADING_TIMES].
ARRIVAL_MEMORY = 1 + len(FADING_TIMES)


def recent_arrivals(snapshot: QueueSnapshot, before: FloatArray | None = None) -> FloatArray:
    """Faded counts of interactive submissions, and when: shape [ARRIVAL_MEMORY].

    Args:
        snapshot: the queue; submissions since `before` are among its pending, running and started
            jobs.
        before: what this function gave at the previous decision; None at the first one.
    """
    fading = np.array(FADING_TIMES)
    counted_until = -np.inf if before is None else before[0]
    started, running = snapshot.started.jobs, snapshot.running.jobs
    gone = started.select(~np.isin(started.job_id, running.job_id))  # the others still run
    age = np.concatenate(
        [
            snapshot.now - table.submit[table.interactive & (table.submit > counted_until)]
            for table in (snapshot.pending.jobs, running, gone)
        ]
    )
    counts = np.exp(-np.maximum(age, 0.0)[:, None] / fading).sum(axis=0)
    if before is not None:
        counts += before[1:] * np.exp(-max(snapshot.now - before[0], 0.0) / fading)
    return np.concatenate([[snapshot.now], counts])
