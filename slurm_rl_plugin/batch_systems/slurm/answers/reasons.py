"""Slurm's reasons why a job waits, 22.05 to 26.05: its user's own doing, or processors.

A user's own doing is what the user controls: what was requested, held or used up, and the limits of
an association, or of a user or account in a QOS, which its own members fill. The limits of a whole
QOS, licences and down partitions are shared or the site's, so they are no one's own doing; more
free processors do not help such a job either.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: A job with one of these starts as soon as enough processors are free. Any other reason, such as
#: one of a later release, is taken for one that free processors do not change.
FOR_PROCESSORS = frozenset({"None", "Priority", "Resources", "Prolog", "Cleaning", "SchedDefer"})
#: Reasons of a job that a limit on batch jobs delays: by a QOS, by licences.
QOS_IS_FULL = frozenset({"QOSGrpCpuLimit", "QOSGrpMemLimit", "QOSGrpGRES"})
NO_LICENSES = "Licenses"

_OWN_DOING = re.compile(
    r"""
    JobHeld | JobHold | Dependency | BeginTime | JobArrayTaskLimit | DeadLine
    | Assoc                          # limits of the association: the user's, or the account's
    | QOS(Max|Min)                   # of a job, a user or an account in a QOS
    | QOS(Job|Resource|Time)Limit | QOSUsageThreshold
    | QOSGrp\w*(Minutes|Wall)        # a budget that jobs of the QOS have used up
    | Max\w+Per(Account|User|Limit)
    | ReqNodeNotAvail | NodeDown     # nodes that it requested
    | Reservation                    # it requested one that has not begun, or is gone
    | Partition(Node|Time)Limit | PartitionConfig | BadConstraints | Constraints
    | InvalidAccount | InvalidQOS | AccountNotAllowed | QOSNotAllowed | AccountingPolicy
    | BurstBufferOperation | NonZeroExitCode | RaisedSignal | TimeLimit | OutOfMemory
    | JobLaunchFailure
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1000)  # a queue shows few reasons, and a user cannot make up any
def waits_for_processors(reason: str) -> bool:
    """Whether the job waits for free processors alone."""
    return all(each in FOR_PROCESSORS for each in reason.split(","))


@lru_cache(maxsize=1000)
def reason_word(reason: str) -> str:
    """The first word of a reason: nodes and further reasons may follow it."""
    return re.split(r"[,:( ]", reason, maxsplit=1)[0]


@lru_cache(maxsize=1000)
def is_own_doing(reason: str) -> bool:
    """Whether the job waits for something that its user controls."""
    return _OWN_DOING.match(reason) is not None
