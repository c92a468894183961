"""The jobs of a recorded log once more: the site's own order beside others, on one machine.

What a site recorded cannot be compared with a simulation: the recorded waits hold outages, limits
and nodes that the simulator does not know. So the *order* in which the site started its jobs is
replayed too, on the same simulated machine as every other policy; that is what a model is compared
with, and the difference between it and the record tells how far the machine is from the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    schedule_of,
    starts_of_order,
    starts_under,
)
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import ScheduledJobs

#: What really happened, and the order of it on the simulated machine.
RECORDED, RECORDED_ORDER = "native", "native order"
#: Rules beside them.
BASELINES = ("multifactor", "fifo")
#: What is simulated in any case: the recorded order, and the rules.
SIMULATED = 1 + len(BASELINES)
#: Names that every replay has.
ALWAYS = (RECORDED, RECORDED_ORDER, *BASELINES)
#: Fractions of the jobs at the beginning and at the end that are not counted: the first ones meet
#: a machine that is empty only in the simulation, behind the last ones nobody comes.
UNCOUNTED = (0.1, 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReplay:
    """The same jobs under each policy.

    Attributes:
        schedules: policy -> its schedule of all jobs, in submit order.
        first, last: the counted jobs, as a slice has them.
    """

    schedules: dict[str, ScheduledJobs]
    first: int
    last: int

    @property
    def counted(self) -> int:
        """How many jobs are measured; those before and behind them are only simulated."""
        return self.last - self.first

    @property
    def measured(self) -> slice:
        """Places of the counted jobs."""
        return slice(self.first, self.last)


def replay(
    known: PreparedLog,
    candidates: Mapping[str, Candidate],
    settings: SimulationSettings,
    progress: Callable[[int], None],
) -> RecordedReplay:
    """Replay a log under the site's order, the baselines and some candidates.

    Args:
        known: the log with its recorded starts, and the classes that a policy may see.
        candidates: what reports call it -> policy; none of them called as what is always replayed.
        settings: the simulated batch system, with what the hook makes of a candidate's scores.
        progress: called with 1 after each simulation: `SIMULATED`, and one a candidate.

    Raises:
        ConfigurationError: the log lacks recorded starts, or an unknown policy.
    """
    recorded = known.log.start
    if np.isnan(recorded).any():
        raise ConfigurationError(
            f"{int(np.isnan(recorded).sum())} jobs of this log have no recorded start, so the "
            "site's own order is not known: give a log of sacct."
        )
    workload, alone = known.workload(RequestedLimit()), settings.without_hook
    starts: dict[str, FloatArray] = {RECORDED: np.maximum(recorded, known.log.submit)}
    starts[RECORDED_ORDER] = starts_of_order(QueueOrder(scores=-recorded), known, workload, alone)
    progress(1)
    for name in BASELINES:
        starts[name] = starts_under(Candidate(name=name), known, workload, alone)
        progress(1)
    for name, each in candidates.items():
        starts[name] = starts_under(each, known, workload, settings)
        progress(1)
    jobs = len(known.log)
    first, last = int(jobs * UNCOUNTED[0]), jobs - int(jobs * UNCOUNTED[1])
    return RecordedReplay(
        schedules={name: schedule_of(known, start, settings) for name, start in starts.items()},
        first=first,
        last=last,
    )
