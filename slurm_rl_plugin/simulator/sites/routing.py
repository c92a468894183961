"""Run several sites to the end, a broker choosing one for each job that is of none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.sites.routed_sites import RoutedSite
from slurm_rl_plugin.units import FloatArray, IntArray

#: The place in `home` of a job that a broker sends somewhere.
NOWHERE = -1
#: Number of an offered job -> place of the site that it goes to.
ChooseSite = Callable[[int], int]


def route_jobs(
    sites: Sequence[RoutedSite],
    offered: Workload,
    home: IntArray,
    route: ChooseSite,
) -> tuple[IntArray, FloatArray]:
    """Run all sites to the end.

    Jobs come one after another, those of the same second too: each site decides before the next
    job is routed, and a route is asked when all sites stand at the job's submission.

    Args:
        sites: idle ones, made for these jobs.
        offered: all jobs in order of submission.
        home: place of the site whose own users submit the job, NOWHERE for one to be routed,
            shape [n].
        route: chooses a site for each of the others.

    Returns:
        Place of each job's site and its start in seconds, both of shape [n].

    Raises:
        SimulationError: a job was sent to a site that is too narrow.
    """
    where = home.copy()
    for job, time in enumerate(offered.submit):
        if home[job] == NOWHERE:
            for site in sites:
                site.run_until(float(time))
            where[job] = route(job)
        sites[where[job]].take(job)
    start = np.empty(len(where))
    for site in sites:
        site.run_until(np.inf)
        start[site.came] = site.starts()
    return where, start
