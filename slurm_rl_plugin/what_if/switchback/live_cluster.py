"""A live site whose blocks are played again, by its accounting and the daemon's last look."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, SITE
from slurm_rl_plugin.forecasts.live.site_at import SiteAt, fair_share_until, usage_until
from slurm_rl_plugin.forecasts.live.site_orders import SiteOrder, own_order
from slurm_rl_plugin.forecasts.live.sources import ReplaySource
from slurm_rl_plugin.forecasts.replays.drawn_runs import RunSpreads
from slurm_rl_plugin.forecasts.replays.queue_now import QueueNow
from slurm_rl_plugin.forecasts.replays.replayed_site import ReplayedSite
from slurm_rl_plugin.simulator.kernel.workload_history import WorkloadHistory
from slurm_rl_plugin.simulator.scoring.fair_share import FairShare
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import JobTimes, ReplayedCluster


def live_cluster(
    site: SiteAt, source: ReplaySource, present: SiteOrder, ours: SiteOrder
) -> ReplayedCluster:
    """The cluster up to the instant of a look.

    `source` says how its queue is played forward; its order is not looked at. `present` is the
    order that `ours` is compared with.
    """
    start = site.prepared.log.start.copy()
    start[site.pending] = np.inf
    played, queue = replace(source, order=own_order).at(site)
    jobs = played.jobs._replace(run_time=_run_times(played, queue))

    def usage(time: float) -> FloatArray:
        return usage_until(site.prepared, time, source.half_life)

    def fair(time: float) -> FairShare | None:
        return fair_share_until(site.prepared, time, source.half_life)

    told = PastUntil(prepared=site.prepared)
    return ReplayedCluster(
        times=JobTimes(jobs=jobs, start=start, capacity=played.settings.capacity),
        orders={SITE: present(site), OURS: ours(site)},
        settings=played.settings,
        machine=played.machine,
        usage=usage,
        fair=fair,
        past=told.until,
    )


def _run_times(played: ReplayedSite, queue: QueueNow) -> FloatArray:
    """Of all jobs; of those that have not ended the median of what is foretold, seconds.

    A job's slowdown grows the faster, the shorter it runs. By their limits those who ask for much
    would wait for nothing, and whoever leaves them waiting would seem to do no harm.
    """
    jobs = np.concatenate([queue.running, queue.pending])
    found = played.jobs.run_time.copy()
    if len(jobs) > 0:
        spreads = RunSpreads.of_quantiles(played.quantiles(jobs), played.jobs.time_limit[jobs])
        ran = np.concatenate([queue.now - queue.start, np.zeros(len(queue.pending))])
        found[jobs] = spreads.drawn(ran, np.full(len(jobs), 0.5))
    return found


@dataclass(slots=True, kw_only=True)
class PastUntil:
    """What the runs of a log had told at a time; asked in order of time it costs no more than once.

    Attributes:
        prepared: the log, with the starts that it recorded.
    """

    prepared: PreparedLog
    _recorded: RecordedPast | None = None
    _time: float = -np.inf

    def until(self, time: float) -> WorkloadHistory:
        """What had been told before a time, seconds."""
        if self._recorded is None or time < self._time:
            self._recorded = RecordedPast(self.prepared)
        self._recorded.run(time)
        self._time = time
        return self._recorded.past.copy()
