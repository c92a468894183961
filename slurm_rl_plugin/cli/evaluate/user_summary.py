"""`slurm-rl evaluate --users`: what a policy does to each user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.cli.tables import print_table, waiting_time
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.responsiveness import bounded_slowdown
from slurm_rl_plugin.utility.summary import ScheduledJobs


def summarise_users(
    log: JobLog, schedule: ScheduledJobs, drop: tuple[int, int]
) -> dict[str, dict[str, Any]]:
    """User by the log's name -> counted jobs, mean wait and mean bounded slowdown.

    Args:
        log: whose users.
        schedule: the log's jobs with the starts that a policy gave them.
        drop: how many first and last jobs by submit order are not counted.
    """
    counted = slice(drop[0], max(len(log) - drop[1], 0))
    user, wait = log.user[counted], schedule.wait[counted]
    slowdown = np.asarray(bounded_slowdown(wait, log.run_time[counted]), dtype=np.float64)
    jobs = np.bincount(user, minlength=len(log.users))

    def means(values: FloatArray) -> FloatArray:
        sums = np.bincount(user, weights=values, minlength=len(log.users))
        return np.asarray(sums / np.maximum(jobs, 1), dtype=np.float64)

    mean_wait, mean_slowdown = means(wait), means(slowdown)
    return {
        log.users[index]: {
            "jobs": int(jobs[index]),
            "mean_wait": float(mean_wait[index]),
            "mean_bounded_slowdown": float(mean_slowdown[index]),
        }
        for index in np.flatnonzero(jobs).tolist()
    }


def print_users(policies: Mapping[str, Mapping[str, Any]]) -> None:
    """Users with most jobs first, one row for each under each policy."""
    print()
    rows = [
        [user, policy, each["jobs"], waiting_time(each["mean_wait"]), each["mean_bounded_slowdown"]]
        for policy, entry in policies.items()
        for user, each in entry["users"].items()
    ]
    rows.sort(key=lambda row: (-row[2], row[0]))
    print_table(["USER", "POLICY", "JOBS", "WAIT", "BSLD"], rows)
