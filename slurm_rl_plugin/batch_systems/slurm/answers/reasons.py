"""Why a job waits, in Slurm's words: by its own doing, or for processors; 22.05 to 26.05.

Of one's own doing is what the job's user controls: what was asked for, held or used up. A limit of
an association, or of a user or an account in a QOS, is filled by those whom it bounds. The room of
a whole QOS, licences and partitions that are down are shared with others or the site's, so they are
nobody's own doing. A job that waits for them does not gain by more free processors either.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: A job with one of these starts as soon as enough processors are free. Any other one, such as a
#: reason of a later release, is taken for something that free processors do not mend.
FOR_PROCESSORS = frozenset({"None", "Priority", "Resources", "Prolog", "Cleaning", "SchedDefer"})
#: What a job shows that a limit on batch jobs keeps back: by a QOS, by licences.
QOS_IS_FULL = frozenset({"QOSGrpCpuLimit", "QOSGrpMemLimit", "QOSGrpGRES"})
NO_LICENSES = "Licenses"

_OWN_DOING = re.compile(
    r"""
    JobHeld | JobHold | Dependency | BeginTime | JobArrayTaskLimit | DeadLine
    | Assoc                          # limits of the association: the user's, or the account's
    | QOS(Max|Min)                   # of a job, a user or an account in a QOS
    | QOS(Job|Resource|Time)Limit | QOSUsageThreshold
    | QOSGrp\w*(Minutes|Wall)        # a budget that those of the QOS have used up
    | Max\w+Per(Account|User|Limit)
    | ReqNodeNotAvail | NodeDown     # nodes that it asked for
    | Reservation                    # it asked for one that has not begun, or is gone
    | Partition(Node|Time)Limit | PartitionConfig | BadConstraints | Constraints
    | InvalidAccount | InvalidQOS | AccountNotAllowed | QOSNotAllowed | AccountingPolicy
    | BurstBufferOperation | NonZeroExitCode | RaisedSignal | TimeLimit | OutOfMemory
    | JobLaunchFailure
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1000)  # a queue shows few reasons, and a user cannot make up any
def waits_for_processors(reason: str) -> bool:
    """Whether free processors are all that a job waits for.

    Args:
        reason: as `squeue` shows it: of an array those of all its records, with commas between.
    """
    return all(each in FOR_PROCESSORS for each in reason.split(","))


@lru_cache(maxsize=1000)
def is_own_doing(reason: str) -> bool:
    """Whether the job waits by what its user controls.

    Args:
        reason: as `squeue` shows it, which may go on behind the word.
    """
    return _OWN_DOING.match(reason) is not None
