"""Why a job waits, in Slurm's words: by its own doing, or for processors; 22.05 to 26.05.

Of one's own doing is what the job's user controls: what was asked for, held or used up. A limit of
an association, or of a user or an account in a QOS, is filled by those whom it bounds. The room of
a whole QOS, licences and partitions that are down are shared with others or the site's, so they are
nobody's own doing. A job that waits for them does not gain by more free processors either.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path

from slurm_rl_plugin.whole_file import read_whole

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
    """Whether free processors are all that a job waits for."""
    return all(each in FOR_PROCESSORS for each in reason.split(","))


@lru_cache(maxsize=1000)
def is_own_doing(reason: str) -> bool:
    """Whether the job waits by what its user controls."""
    return _OWN_DOING.match(reason) is not None


_ADMINISTRATORS = "ask the administrators"
_DECAY = f"wait until the usage decays, or {_ADMINISTRATORS}"


@cache
def _reasons() -> dict[str, tuple[str, str]]:
    """Reason -> what it means for the job, and what its user can do."""
    return tomllib.loads(read_whole(Path(__file__).with_name("reasons.toml")).decode())


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
    """What a reason means for the job, and what its user can do: one sentence, no full stop."""
    word = re.split(r"[,:( ]", reason, maxsplit=1)[0]
    meaning, advice = (
        _reasons().get(word)
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
        said = (
            f"{who} has used up the limit on hours of running",
            _DECAY,
        )
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
        return (
            f"{who} has used up the limit on {minutes}",
            _DECAY,
        )
    if per in ("job", "node"):
        return f"the job asks for more {amount} than {owner} allows for one {per}", "ask for less"
    return f"{who} has too little left of the limit on {amount}", "wait, or ask for less"
