"""The jobs of a recorded log once more: the site's own order beside others, on one machine.

What a site recorded cannot be compared with a simulation: the recorded waits hold outages, limits
and nodes that the simulator does not know. So the *order* in which the site started its jobs is
replayed too, on the same simulated machine as every other policy; that is what a model is compared
with, and the difference between it and the record tells how far the machine is from the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import ScheduledJobs

#: What really happened, and the order of it on the simulated machine.
RECORDED, RECORDED_ORDER = "native", "native order"
#: Rules beside them.
BASELINES = ("multifactor", "fifo")
#: What is simulated in any case: the recorded order, and the rules.
SIMULATED = 1 + len(BASELINES)
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


def replay(
    prepared: PreparedLog,
    seen: PreparedLog,
    candidates: Sequence[Candidate],
    settings: SimulationSettings,
    progress: Callable[[int], None],
) -> RecordedReplay:
    """Replay a log under the site's order, the baselines and some candidates.

    Args:
        prepared: the log with its recorded starts, classes as reports mean them.
        seen: the same with the classes that a policy may see.
        candidates: of different names.
        settings: the simulated batch system.
        progress: called with 1 after each simulation: `SIMULATED`, and one a candidate.

    Raises:
        ConfigurationError: the log lacks recorded starts, or an unknown policy.
    """
    recorded = prepared.log.start
    if np.isnan(recorded).any():
        raise ConfigurationError(
            f"{int(np.isnan(recorded).sum())} jobs of this log have no recorded start, so the "
            "site's own order is not known: give a log of sacct."
        )
    workload = seen.workload(RequestedLimit())
    starts: dict[str, FloatArray] = {RECORDED: np.maximum(recorded, prepared.log.submit)}
    starts[RECORDED_ORDER] = simulate_scores(workload, -recorded, settings).start
    progress(1)
    for each in (*(Candidate(name=name) for name in BASELINES), *candidates):
        starts[each.name] = starts_under(each, seen, workload, settings)
        progress(1)
    jobs = len(prepared.log)
    first, last = int(jobs * UNCOUNTED[0]), jobs - int(jobs * UNCOUNTED[1])
    return RecordedReplay(
        schedules={
            name: schedule_of(prepared, start, replace(settings, capacity=prepared.capacity))
            for name, start in starts.items()
        },
        first=first,
        last=last,
    )
