"""The field's nouns: job, account and share, cluster, queue snapshot, decision."""

from slurm_rl_plugin.domain.decision import Decision, Memory
from slurm_rl_plugin.domain.jobs import (
    EndedJobs,
    JobTable,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)

__all__ = [
    "Decision",
    "EndedJobs",
    "JobTable",
    "Memory",
    "PendingJobs",
    "QueueSnapshot",
    "RunningJobs",
    "StartedJobs",
]
