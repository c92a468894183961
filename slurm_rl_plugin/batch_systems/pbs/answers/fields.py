"""One job of `qstat -f -F json`; its values may be numbers or strings."""

from __future__ import annotations

import calendar
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slurm_rl_plugin.accounting.pbs.records import (
    NO_ARRAY,
    NOTHING,
    WHOLE_ARRAY,
    PbsRequest,
    account_of,
    parse_duration,
    parse_job_id,
    request_of,
)
from slurm_rl_plugin.domain.job_class import words_for_us

SCORE = "rl_score"
#: Resource with the user's words for us; the site creates it.
WORDS = "slurm_rl"
#: Attributes of ATTRIBUTES that PBS before 22.05 does not know; it refuses a query for them.
NEWER_ATTRIBUTES = ("obittime", "max_run_subjobs")
#: All attributes that `parse_job` reads.
ATTRIBUTES = (
    *("Job_Name", "Job_Owner", "job_state", "queue", "ctime", "etime", "stime"),
    *("mtime", "Hold_Types", "Account_Name", "project", "euser", "egroup", "interactive"),
    *("array_state_count", "Resource_List", "resources_used", "eligible_time", "comment"),
    *("reserve_ID", "Priority"),
    *NEWER_ATTRIBUTES,
)
WAITING_STATES = frozenset("QHWTB")
RUNNING_STATES = frozenset("RE")
#: Suspended by an operator, by preemption or by the owner of the workstation.
SUSPENDED_STATES = frozenset("SU")
FINAL_STATES = frozenset("FX")
#: PBS numbers jobs below 2**40, so subjobs get numbers above.
_SUBJOB_SHIFT = 40
#: Subjobs of one array: far more than PBS allows, and what fits into 64 bits.
_SUBJOBS = 2**22
#: Largest absolute value of a user's priority.
_HIGHEST_PRIORITY = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsJob:
    """A job, a whole array, or a subjob."""

    name: str  #: PBS's job ID, `12[].head` for an array
    job_id: int  #: its number, see `job_number`
    state: str  #: one letter
    queue: str
    user: str
    account: str
    title: str  #: the job's name
    reservation: str  #: to which it was submitted; "" for none
    processors: int  #: of the job, or of each subjob
    time_limit: float  #: seconds; NaN for none
    submit: float  #: seconds since the epoch, as all times
    eligible: float  #: inf if it is not eligible
    has_etime: bool  #: whether PBS shows since when it is eligible; not before it is routed
    start: float  #: NaN before it
    end: float  #: NaN before it
    held: bool  #: on hold, or it waits for another job
    waits: bool  #: whether it, or a subjob of it, may still start
    tasks: int  #: pending subjobs of an array, at least 1
    has_begun: bool  #: an array with subjobs that may run, also while the rest is held
    at_own_limit: bool  #: as many subjobs run as its user allows at once (`qsub -J 1-99%4`)
    score: float | None  #: our resource; None if it has none, NaN if it is not finite
    interactive: bool  #: submitted from a terminal
    eligible_time: float  #: seconds of waiting that PBS counts; NaN if it counts none
    comment: str  #: why it waits, in the scheduler's words
    priority: int = 0  #: its user's (`qsub -p`), -1024 to 1023; higher first
    asked: PbsRequest = NOTHING  #: of nodes, without processors
    words: str = ""  #: its user's words for us, see `words_for_us`

    @property
    def array_id(self) -> int:
        """Number of a subjob's array; `job_id` for any other job."""
        return self.job_id & ((1 << _SUBJOB_SHIFT) - 1)

    @property
    def runs(self) -> bool:
        """Whether it occupies processors; subjobs do so for their array."""
        return self.state in RUNNING_STATES

    @property
    def waits_for_its_own(self) -> bool:
        """Whether it waits for its reservation or its own subjobs, not for the machine."""
        return self.reservation != "" or self.at_own_limit

    @property
    def is_under_way(self) -> bool:
        """Whether it has started and not ended; it may be suspended."""
        return self.state in RUNNING_STATES or self.state in SUSPENDED_STATES


def job_number(name: str) -> int | None:
    """PBS's number of a job, or one made of array and index; None if `name` is no job ID."""
    parts = parse_job_id(name)
    if parts is None or parts.number >= 1 << _SUBJOB_SHIFT or parts.subjob >= _SUBJOBS:
        return None
    if parts.subjob in (NO_ARRAY, WHOLE_ARRAY):
        return parts.number
    return parts.number + ((parts.subjob + 1) << _SUBJOB_SHIFT)


def is_array(name: str) -> bool:
    """Whether this is the ID of a whole array."""
    return "[]" in name


def parse_job(name: str, values: Mapping[str, Any]) -> PbsJob | None:
    """The job of a section; None without a number, a state or a submit time."""
    job_id, state = job_number(name), text(values.get("job_state"))[:1]
    submit = parse_time(values.get("ctime"))
    if job_id is None or not state or math.isnan(submit):
        return None
    resources = resources_of(values, "Resource_List")
    start = parse_time(values.get("stime"))
    processors = parse_count(resources.get("ncpus")) or parse_count(resources.get("nodect")) or 1
    counts = (word.partition(":") for word in text(values.get("array_state_count")).split())
    subjobs = {state: parse_count(count) for state, _, count in counts}
    queued, most = subjobs.get("Queued", 0), parse_count(values.get("max_run_subjobs"))
    waits = state in WAITING_STATES
    return PbsJob(
        name=name,
        job_id=job_id,
        state=state,
        queue=text(values.get("queue")),
        user=_user(values),
        account=_account(values),
        title=text(values.get("Job_Name")),
        reservation=text(values.get("reserve_ID")),
        processors=processors,
        time_limit=parse_duration(text(resources.get("walltime"))),
        submit=submit,
        eligible=_eligible(values, state, submit),
        has_etime=not math.isnan(parse_time(values.get("etime"))),
        start=start,
        end=_end(values, start),
        held=state == "H" or text(values.get("Hold_Types")) not in ("", "n"),
        # an array is H, W, Q or B whatever its subjobs do
        waits=queued > 0 if state == "B" or (waits and subjobs) else waits,
        tasks=max(queued, 1),
        # a hold ends the state B of an array, but not its running subjobs (req_holdjob of 23.06)
        has_begun=state == "B" or any(subjobs.get(name, 0) for name in ("Running", "Exiting")),
        at_own_limit=0 < most <= subjobs.get("Running", 0),
        score=parse_score(resources.get(SCORE)),
        interactive=text(values.get("interactive")).lower() not in ("", "0", "false"),
        eligible_time=parse_duration(text(values.get("eligible_time"))),
        comment=text(values.get("comment")),
        priority=_priority(values.get("Priority")),
        asked=request_of(
            {f"Resource_List.{name}": text(each) for name, each in resources.items()}, processors
        ),
        words=words_for_us(text(resources.get(WORDS))),
    )


def text(value: Any) -> str:
    """A value as text: PBS writes a name of digits as a number."""
    if value is None or isinstance(value, dict | list):
        return ""
    return str(value)


def parse_time(value: Any) -> float:
    """Seconds since the epoch of `Sat Nov 21 00:13:53 2026` in UTC, or of a number; NaN else."""
    words = text(value)
    if words.isascii() and words.isdecimal():
        return float(words) or math.nan
    return _parse_clock(words)


@lru_cache(maxsize=100_000)  # most times of a queue were in the last snapshot too
def _parse_clock(words: str) -> float:
    try:
        return float(calendar.timegm(time.strptime(words, "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return math.nan


def parse_score(value: Any) -> float | None:
    """The value of our resource: None if there is none, NaN if it is not finite."""
    words = text(value).strip()
    if not words:
        return None
    try:
        score = float(words)
    except ValueError:
        return math.nan
    return score if math.isfinite(score) else math.nan


def parse_count(value: Any) -> int:
    """A whole number of at least 0; 0 for anything else."""
    words = text(value)
    return int(words) if words.isascii() and words.isdecimal() and len(words) < 16 else 0


def _priority(value: Any) -> int:
    words = text(value)
    size = parse_count(words.removeprefix("-"))
    return (-size if words.startswith("-") else size) if size <= _HIGHEST_PRIORITY else 0


def resources_of(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The resources of an attribute by name; empty if it has another form."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _user(values: Mapping[str, Any]) -> str:
    return text(values.get("euser")) or text(values.get("Job_Owner")).partition("@")[0]


def _account(values: Mapping[str, Any]) -> str:
    return account_of(
        {
            "account": text(values.get("Account_Name")),
            "project": text(values.get("project")),
            "group": text(values.get("egroup")),
            "user": _user(values),
        }
    )


def _eligible(values: Mapping[str, Any], state: str, submit: float) -> float:
    """Since when the job could run: its `etime`, which held and waiting jobs lack."""
    etime = parse_time(values.get("etime"))
    if not math.isnan(etime):
        return max(etime, submit)
    return math.inf if state in "HW" else submit


def _end(values: Mapping[str, Any], start: float) -> float:
    if text(values.get("job_state"))[:1] not in FINAL_STATES:
        return math.nan
    end = parse_time(values.get("obittime"))
    if math.isnan(end):
        used = parse_duration(text(resources_of(values, "resources_used").get("walltime")))
        end = start + used
    return end if not math.isnan(end) else parse_time(values.get("mtime"))


#: A limit of the user, group or project; the overall limit of a queue or the server is the site's.
_OWN_LIMIT = re.compile(
    r"\b(per-)?(user|group|project)\b.*\blimit\b|job limit reached for (user|group|project)\b",
    re.IGNORECASE,
)
#: The only comment of an array that has begun, whatever its other subjobs wait for.
_BEGUN = "Job Array Began"
#: Reasons that more free processors would end, and overall limits, as ours on batch queues are.
_FOR_PROCESSORS = re.compile(
    r"resource: (ncpus|nodect)\b|available resources on nodes|enough free nodes|top job"
    r"|too few free resources|exclusive node|starving|strict sorted order"
    r"|overall limit on resource (ncpus|ngpus|mem)\b",
    re.IGNORECASE,
)


def is_own_doing(comment: str) -> bool:
    """Whether the job waits for something that its user controls: a limit of user or project."""
    return _OWN_LIMIT.search(comment) is not None


def is_for_processors(comment: str) -> bool:
    """Whether it waits for processors alone, as a job without a comment may."""
    unknown = not comment or comment.startswith(_BEGUN)
    return unknown or _FOR_PROCESSORS.search(comment) is not None
