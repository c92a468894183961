"""The field's nouns: job, account and share, cluster, queue snapshot, decision."""

from slurm_rl_plugin.domain.decision import Decision, Memory
from slurm_rl_plugin.domain.jobs import (
    EndedJobs,
    JobTable,
    PendingJobs,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.queue_snapshot import QueueSnapshot

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
