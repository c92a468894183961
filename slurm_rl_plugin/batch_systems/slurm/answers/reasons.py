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


_WAIT = "wait"
_ADMINISTRATORS = "ask the administrators"
_LESS = "ask for less"
_PARTITION = "choose another partition"
_DECAY = "wait until the usage decays, or ask the administrators"
_RELEASE = "then use `scontrol release`"
#: Reason -> what it means for the job, and what its user can do.
_REASONS = {
    "None": ("Slurm has not considered the job yet", _WAIT),
    "Priority": ("jobs before it start first", "wait for its turn"),
    "Resources": ("what the job asks for is not free now", f"wait, or {_LESS}"),
    "Dependency": (
        "the job depends on a job that has not ended yet",
        "wait, or change Dependency with `scontrol update`",
    ),
    "DependencyNeverSatisfied": (
        "the job depends on a job that ended in another way than required",
        "cancel the job, or change Dependency with `scontrol update`",
    ),
    "BeginTime": (
        "the earliest start time of the job lies ahead, by request or after a requeue",
        "wait, or change StartTime with `scontrol update`",
    ),
    "JobHeldUser": (
        "the user or a coordinator of the account holds the job",
        "release it with `scontrol release`",
    ),
    "JobHeldAdmin": (
        "an administrator holds the job, or its priority is 0",
        "ask the administrators to release it",
    ),
    "JobHoldMaxRequeue": (
        "Slurm holds the job after too many requeues",
        f"find out why the runs failed, {_RELEASE}",
    ),
    "JobArrayTaskLimit": (
        "as many tasks of the array run as the array allows at a time",
        "wait, or raise ArrayTaskThrottle with `scontrol update`",
    ),
    "Prolog": ("the prolog of the job is running", _WAIT),
    "Cleaning": ("nodes are being cleaned up after the last run of the job", _WAIT),
    "SchedDefer": ("Slurm is set to start no job at its submission", _WAIT),
    "Licenses": ("too few of the licences that the job asks for are free", f"wait, or {_LESS}"),
    "PartitionDown": ("the partition starts no jobs at present", f"wait, or {_PARTITION}"),
    "PartitionInactive": ("the partition accepts and starts no jobs", _PARTITION),
    "PartitionNodeLimit": (
        "the number of nodes is outside the limits of the partition, or nodes are down",
        f"ask for another number, or {_PARTITION}",
    ),
    "PartitionTimeLimit": (
        "the time limit of the job is longer than the partition allows",
        f"shorten TimeLimit with `scontrol update`, or {_PARTITION}",
    ),
    "PartitionConfig": ("the settings of the partition keep the job out", _PARTITION),
    "AccountNotAllowed": ("the partition refuses the account of the job", _PARTITION),
    "QOSNotAllowed": ("the partition refuses the QOS of the job", f"change QOS, or {_PARTITION}"),
    "InvalidAccount": (
        "Slurm does not know the account, or the user is not in it",
        "change Account with `scontrol update`",
    ),
    "InvalidQOS": (
        "Slurm does not know the QOS, or the account has no right to it",
        "change QOS with `scontrol update`",
    ),
    "AccountingPolicy": ("a limit that Slurm does not name keeps the job back", _ADMINISTRATORS),
    "AssociationJobLimit": (
        "the account or user runs as many jobs as the association allows",
        _WAIT,
    ),
    "AssociationResourceLimit": (
        "the account or user has reached a limit that Slurm does not name",
        _ADMINISTRATORS,
    ),
    "AssociationTimeLimit": (
        "the account or user has reached a limit on time",
        _ADMINISTRATORS,
    ),
    "QOSJobLimit": ("as many jobs of the QOS run as the QOS allows", _WAIT),
    "QOSResourceLimit": (
        "the QOS has reached a limit on a resource that Slurm does not name",
        _ADMINISTRATORS,
    ),
    "QOSTimeLimit": ("the QOS has reached a limit on time", _ADMINISTRATORS),
    "QOSUsageThreshold": (
        "the account has used more than the QOS accepts (UsageThreshold)",
        "wait until the usage decays, or use another QOS",
    ),
    "ReqNodeNotAvail": (
        "nodes that the job needs are down, drained or reserved",
        "wait, or ask for other nodes or for an end before the reservation",
    ),
    "NodeDown": ("a node that the job names is down", "wait, or name another node"),
    "Reservation": ("the reservation of the job has not begun, or has no room left", _WAIT),
    "ReservationDeleted": (
        "the reservation of the job was deleted",
        f"change ReservationName with `scontrol update`, {_RELEASE}",
    ),
    "ReservationInvalid": (
        "the reservation of the job does not exist",
        f"change ReservationName with `scontrol update`, {_RELEASE}",
    ),
    "BadConstraints": (
        "no node has what the job asks for",
        "change the request with `scontrol update`, or submit the job anew",
    ),
    "Constraints": (
        "no node that is up has the features that the job asks for",
        "wait, or ask for other features",
    ),
    "DeadLine": (
        "the job cannot end before its deadline",
        "cancel it, or change Deadline with `scontrol update`",
    ),
    "BurstBufferResources": ("the burst buffer has too little room for the job", _WAIT),
    "BurstBufferStageIn": ("files of the job are being copied to the burst buffer", _WAIT),
    "BurstBufferOperation": (
        "a burst buffer operation of the job failed",
        "check the paths in the script, or ask the administrators",
    ),
    "FedJobLock": ("the clusters of the federation decide which one starts the job", _WAIT),
    "FrontEndDown": ("no front-end node is up", _ADMINISTRATORS),
    "PowerNotAvail": ("the power limit of the cluster leaves too little for the job", _WAIT),
    "PowerReserved": ("the power that the job needs is reserved for other jobs", _WAIT),
    "MaxMemPerLimit": (
        "the job asks for more memory on each processor or node than the site allows",
        "ask for less memory",
    ),
    "MaxPoweredUpNodes": ("as many nodes are powered up as the site allows at a time", _WAIT),
    "MpiPortsBusy": ("too few MPI ports are free on the nodes of the job", _WAIT),
    "NvidiaImexChannels": ("every NVIDIA IMEX channel is in use", _WAIT),
    "BlockMaxError": ("the Blue Gene block of the job has had too many errors", _ADMINISTRATORS),
    "BlockFreeAction": ("the Blue Gene block of the job is being freed", _WAIT),
    "JobLaunchFailure": (
        "Slurm could not launch the last run of the job",
        f"check the script and its folder, {_RELEASE}",
    ),
    "NonZeroExitCode": (
        "the last run of the job ended with an error",
        f"correct the script, {_RELEASE}",
    ),
    "RaisedSignal": ("a signal ended the last run of the job", f"correct the script, {_RELEASE}"),
    "TimeLimit": ("the last run of the job reached the time limit", "ask for more time"),
    "OutOfMemory": (
        "the last run of the job needed more memory than the job asks for",
        "ask for more memory",
    ),
    "InactiveLimit": (
        "the last run of the job was idle for longer than InactiveLimit",
        "submit the job anew",
    ),
    "SystemFailure": ("a system failure ended the last run of the job", _ADMINISTRATORS),
}
#: Limited resource in the name of a reason -> its amount, and its amount times minutes.
_RESOURCES = {
    "cpu": ("processors", "processor-minutes"),
    "mem": ("memory", "memory-minutes"),
    "memory": ("memory", "memory-minutes"),
    "node": ("nodes", "node-minutes"),
    "gres": ("GPUs or other GRES", "minutes of GPUs or other GRES"),
    "license": ("licences", "licence-minutes"),
    "bb": ("burst buffer space", "minutes of burst buffer space"),
    "energy": ("energy", "energy-minutes"),
    "billing": ("billing units", "minutes of billing units"),
    "unknown": ("units of an unnamed resource", "minutes of an unnamed resource"),
}
_OWNERS = {"assoc": "the account or user", "qos": "the QOS", "": "the QOS"}
_SHARERS = {"user": "the user in this QOS", "account": "the account in this QOS"}
_LIMIT = re.compile(
    rf"""
    (?P<owner>assoc|qos)? (?P<of>grp|max|min)
    (?: (?P<resource>{"|".join(_RESOURCES)})
      | (?P<jobs>submitjobs?|jobs) | (?P<wall>wall(?:duration)?) )
    (?P<time>minutes|runminutes|runmins)?
    (?: per(?P<per>job|node|user|account) )?
    (?: limit | notsatisfied )?
    """,
    re.VERBOSE | re.IGNORECASE,
)


def reason_sentence(reason: str) -> str:
    """What a reason means for the job, and what its user can do: one sentence, no full stop.

    Args:
        reason: as `squeue` shows it; details may follow its first word.
    """
    word = re.split(r"[,:( ]", reason, maxsplit=1)[0]
    meaning, advice = (
        _REASONS.get(word)
        or _limit(word)
        or ("this release of slurm-rl does not know the reason", _ADMINISTRATORS)
    )
    return f"{meaning}; {advice}"


def _limit(word: str) -> tuple[str, str] | None:
    """Meaning and advice of a reason that names a limit; None for another word."""
    found = _LIMIT.fullmatch(word)
    if found is None:
        return None
    part = {name: (value or "").lower() for name, value in found.groupdict().items()}
    owner, per = _OWNERS[part["owner"]], part["per"]
    who = _SHARERS.get(per, owner)
    if part["of"] == "max" and owner == _OWNERS["assoc"]:
        who = "the user"
    if part["jobs"].startswith("submit"):
        said = f"{who} has as many pending and running jobs as allowed", "wait until some end"
    elif part["jobs"]:
        said = f"{who} has as many running jobs as allowed", "wait until one ends"
    elif part["wall"] and per == "job":
        said = f"the time limit is longer than {owner} allows", "shorten TimeLimit"
    elif part["wall"]:
        said = f"{who} has used up the limit on hours of running", _DECAY
    else:
        said = _of_resource(part, owner, who)
    return said


def _of_resource(part: dict[str, str], owner: str, who: str) -> tuple[str, str]:
    (amount, minutes), time, per = _RESOURCES[part["resource"]], part["time"], part["per"]
    if part["of"] == "min":
        return f"the job asks for less than {owner} requires of {amount}", "ask for more"
    if time.startswith("run"):
        return f"running jobs of {who} hold the allowed {minutes}", "wait, or shorten TimeLimit"
    if time and per == "job":
        return (
            f"the job asks for more {minutes} than {owner} allows for one job",
            "shorten TimeLimit, or ask for less",
        )
    if time:
        return f"{who} has used up the limit on {minutes}", _DECAY
    if per in ("job", "node"):
        return f"the job asks for more {amount} than {owner} allows for one {per}", _LESS
    return f"{who} has too little left of the limit on {amount}", f"wait, or {_LESS}"
