"""What accounting tells of a campaign's run at a time, in the log's own time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from tests.bench.node_hours.load import ACCOUNTS, account_of
from tests.bench.node_hours.simulated import log_of
from tests.bench.start_hours.stretched import SPEED


def accounted(jobs: Sequence[Mapping[str, Any]], origin: float, speed: float = SPEED) -> JobLog:
    """All jobs of a run in order of submission, as an accounting log with stretched times.

    Args:
        jobs: with what became of them.
        origin: the instant that stays where it is, seconds since the epoch.
        speed: how often longer all else is.
    """
    log = log_of(sorted(jobs, key=lambda job: int(job["number"])), 0.0)
    users = np.array([ACCOUNTS.index(account_of(user)) for user in log.users], dtype=np.int64)
    times = {name: getattr(log, name) for name in ("submit", "eligible", "start")}
    return replace(
        log,
        **{name: origin + (each - origin) * speed for name, each in times.items()},
        run_time=log.run_time * speed,
        time_limit=log.time_limit * speed,
        account=users[log.user],
        accounts=ACCOUNTS,
    )


def ended_by(
    log: JobLog, now: float, machine: Machine, classifier: JobClassifier
) -> PreparedLog | None:
    """The runs that had ended at a time; None for none.

    Args:
        log: of the whole run.
        now: seconds.
        machine: stretched as the log.
        classifier: of jobs with stretched limits.
    """
    over = log.start + log.run_time <= now
    if not over.any():
        return None
    return prepare_log(log.select(over), machine=machine, classifier=classifier)
