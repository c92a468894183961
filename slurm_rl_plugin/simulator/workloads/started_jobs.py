"""The jobs of a log that it tells the starts of: what a replay of the recorded order can take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, select_prepared

#: Where more of the jobs have no start, the log is at fault and not single records of it.
MOST_WITHOUT_START = 0.05
#: The reason that a report counts.
NO_START = "no recorded start"


def jobs_with_starts(prepared: PreparedLog) -> PreparedLog:
    """The log without the few jobs whose start it does not tell, which are counted as dropped.

    A log that lacks more than `MOST_WITHOUT_START` of them is given back as it is, for whoever
    needs the starts to refuse.
    """
    missing = np.isnan(prepared.log.start)
    count = int(missing.sum())
    if not 0 < count <= MOST_WITHOUT_START * len(missing):
        return prepared
    kept = select_prepared(prepared, np.flatnonzero(~missing))
    return replace(kept, dropped={**prepared.dropped, NO_START: count})
