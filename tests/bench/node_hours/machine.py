"""The small machine as a private Slurm: what is fixed of its order and its backfill."""

from __future__ import annotations

from slurm_rl_plugin.units import DAY
from tests.bench.node_hours.load import ACCOUNTS, USERS
from tests.bench.node_hours.site import KINDS, PARTITIONS
from tests.real.private_cluster import Account, ClusterPlan

_SHARES = (70, 30)
#: Of each account its share, and those of USERS, in turn.
ACCOUNT_PLAN = {
    name: Account(share=share, users=USERS[place :: len(ACCOUNTS)])
    for place, (name, share) in enumerate(zip(ACCOUNTS, _SHARES, strict=True))
}
#: Seconds after which age counts in full: the site's.
_MAX_AGE = 7 * DAY
#: Minutes between two calculations of priorities: the site's five would be two seconds of the run,
#: and Slurm knows no less than one.
_CALCULATED = 1
#: The site tests as deep. Its two minutes between rounds of backfill would be a second of the run,
#: and a plan in minutes would be too coarse for limits of a few.
_SCHEDULER = (
    "default_queue_depth=2500",
    "batch_sched_delay=0",
    "sched_interval=2",
    "bf_interval=3",
    "bf_max_time=30",
    "bf_resolution=1",
    "bf_window=120",
    "bf_max_job_test=2500",
    "bf_continue",
)


def cluster_plan(speed: float) -> ClusterPlan:
    """The site's weights of age, size and partition; nothing else makes the order.

    Args:
        speed: seconds of the log in one second of the run.
    """
    return ClusterPlan(
        kinds=KINDS,
        accounts=ACCOUNT_PLAN,
        options={
            "SelectTypeParameters": "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK",
            "SchedulerParameters": ",".join(_SCHEDULER),
            "AccountingStorageTRES": "gres/gpu",
            "EnforcePartLimits": "ALL",
            "JobRequeue": "0",
            "PriorityMaxAge": f"0-00:00:{_MAX_AGE / speed:.0f}",
            "PriorityCalcPeriod": f"{_CALCULATED}",
            "PriorityFavorSmall": "NO",
            "PriorityWeightAge": "70000",
            "PriorityWeightFairshare": "0",
            "PriorityWeightJobSize": "200000",
            "PriorityWeightPartition": "1000000",
            "MinJobAge": "86400",  # `scontrol show job` tells of every job at the end
            "MessageTimeout": "60",
            "SlurmctldDebug": "debug2",  # tells when each node was free again
        },
        partitions=[each.line for each in PARTITIONS.values()],
    )
