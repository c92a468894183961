"""The priority that a site's slurm.conf gives the jobs of a log: weights times factors."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.site_priority import CLASSIC, fixed_points
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.simulator.workloads.machine_load import completed_requests, partition_of


def site_priority(log: JobLog, machine: Machine) -> SitePriority:
    """What slurmctld would give each job: factors of what it asked for, not of what it gets.

    Args:
        log: the jobs; each is of a partition of the machine.
        machine: with its weights.
    """
    weights = machine.weights
    known = np.isfinite(log.time_limit) & (log.time_limit > 0)
    fixed = fixed_points(
        machine,
        completed_requests(log, machine),
        partition_of(log, machine),
        log.qos,
        np.where(known, log.time_limit, log.run_time),  # as everywhere (definitions)
    )
    return SitePriority(
        points=fixed.total,
        age=float(weights.age),
        highest_age=float(weights.highest_age),
        fairshare=float(weights.fairshare),
        period=float(weights.period),
        fair_tree=CLASSIC not in weights.flags,
    )
