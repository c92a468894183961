"""One job as `qstat -f -F json` gives it, read tolerantly: values may be numbers or strings."""

from __future__ import annotations

import calendar
import math
import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
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
from slurm_rl_plugin.whole_file import read_whole

SCORE = "rl_score"
#: Resource in which users write for us; the site creates it.
WORDS = "slurm_rl"
#: Which PBS before 22.05 does not know, and refuses a question for: see `ATTRIBUTES`.
NEWER_ATTRIBUTES = ("obittime", "max_run_subjobs")
#: All of a job that `parse_job` reads.
ATTRIBUTES = (
    *("Job_Name", "Job_Owner", "job_state", "queue", "ctime", "etime", "stime"),
    *("mtime", "Hold_Types", "Account_Name", "project", "euser", "egroup", "interactive"),
    *("array_state_count", "Resource_List", "resources_used", "eligible_time", "comment"),
    *("reserve_ID", "Priority"),
    *NEWER_ATTRIBUTES,
)
WAITING_STATES = frozenset("QHWTB")
RUNNING_STATES = frozenset("RE")
#: Set aside with what it has done, by an operator, preemption or the owner of the workstation.
SUSPENDED_STATES = frozenset("SU")
FINAL_STATES = frozenset("FX")
#: PBS numbers jobs below 2**40, so subjobs find numbers of their own above.
_SUBJOB_SHIFT = 40
#: Of one array; far more than PBS allows, and what 64 bits hold above.
_SUBJOBS = 2**22
#: Of the priority that a user gives a job, in either direction.
_HIGHEST_PRIORITY = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsJob:
    """A job, a whole array, or a subjob."""

    name: str  #: as PBS calls it, `12[].head` for an array
    job_id: int  #: its number, see `job_number`
    state: str  #: one letter
    queue: str
    user: str
    account: str
    title: str  #: the job's own name
    reservation: str  #: that it is submitted to; "" for none
    processors: int  #: of the job, or of each subjob
    time_limit: float  #: seconds; NaN for none
    submit: float  #: seconds since the epoch, as all times
    eligible: float  #: inf where it is not eligible
    has_etime: bool  #: whether PBS tells since when it is eligible; not of what it has yet to route
    start: float  #: NaN where it has not started
    end: float  #: NaN where it has not ended
    held: bool  #: on hold, or it waits for another job
    waits: bool  #: whether it, or a subjob of it, may still start
    tasks: int  #: how many jobs of it wait: of an array its subjobs, 1 at least
    has_begun: bool  #: an array of which subjobs may run, also while the rest is held
    at_own_limit: bool  #: as many subjobs run as its user lets run at once (`qsub -J 1-99%4`)
    score: float | None  #: our resource; None where it has none, NaN where it is not finite
    interactive: bool | None  #: submitted from a terminal; None where unknown
    eligible_time: float  #: seconds of waiting that PBS counts; NaN where it counts none
    comment: str  #: why it waits, in the scheduler's words
    priority: int = 0  #: of its user (`qsub -p`), -1024 to 1023; higher first
    asked: PbsRequest = NOTHING  #: of nodes, beside processors
    words: str = ""  #: of its user for us, see `words_for_us`

    @property
    def array_id(self) -> int:
        """Number of the array that a subjob is of; the same as `job_id` for any other job."""
        return self.job_id & ((1 << _SUBJOB_SHIFT) - 1)

    @property
    def runs(self) -> bool:
        """Whether it occupies processors; an array does so by its subjobs."""
        return self.state in RUNNING_STATES

    @property
    def waits_for_its_own(self) -> bool:
        """Whether it waits for its reservation or its own subjobs, and so not for the machine."""
        return self.reservation != "" or self.at_own_limit

    @property
    def is_under_way(self) -> bool:
        """Whether it has started and not ended: it runs, or is suspended and will go on."""
        return self.state in RUNNING_STATES or self.state in SUSPENDED_STATES


def job_number(name: str) -> int | None:
    """A whole number for a job: PBS's own, or one made of array and index; None for no job id."""
    parts = parse_job_id(name)
    if parts is None or parts.number >= 1 << _SUBJOB_SHIFT or parts.subjob >= _SUBJOBS:
        return None
    if parts.subjob in (NO_ARRAY, WHOLE_ARRAY):
        return parts.number
    return parts.number + ((parts.subjob + 1) << _SUBJOB_SHIFT)


def is_array(name: str) -> bool:
    """Whether this names an array as a whole."""
    return "[]" in name


def parse_job(name: str, values: Mapping[str, Any]) -> PbsJob | None:
    """The job that a section tells of; None where it lacks what makes a job."""
    job_id, state = job_number(name), text(values.get("job_state"))[:1]
    submit = parse_time(values.get("ctime"))
    if job_id is None or not state or math.isnan(submit):
        return None
    resources = resources_of(values, "Resource_List")
    start = parse_time(values.get("stime"))
    processors = _processors(resources)
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
        waits=_waits(values, state),
        tasks=max(_subjobs(values).get("Queued", 0), 1),
        has_begun=_has_begun(values, state),
        at_own_limit=_at_own_limit(values),
        score=parse_score(resources.get(SCORE)),
        interactive=_interactive(values),
        eligible_time=parse_duration(text(values.get("eligible_time"))),
        comment=text(values.get("comment")),
        priority=_priority(values.get("Priority")),
        asked=_asked(resources, processors),
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


@lru_cache(maxsize=100_000)  # most times of a queue were in its last look too
def _parse_clock(words: str) -> float:
    try:
        return float(calendar.timegm(time.strptime(words, "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return math.nan


def parse_score(value: Any) -> float | None:
    """The value of our resource: None where there is none, NaN where it is not finite."""
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
    """A user's priority within PBS's bounds; 0 for anything else."""
    words = text(value)
    size = parse_count(words.removeprefix("-"))
    return (-size if words.startswith("-") else size) if size <= _HIGHEST_PRIORITY else 0


def resources_of(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The resources of an attribute by name; none where it has another form."""
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


def _processors(resources: Mapping[str, Any]) -> int:
    return parse_count(resources.get("ncpus")) or parse_count(resources.get("nodect")) or 1


def _asked(resources: Mapping[str, Any], processors: int) -> PbsRequest:
    return request_of(
        {f"Resource_List.{name}": text(told) for name, told in resources.items()}, processors
    )


def _eligible(values: Mapping[str, Any], state: str, submit: float) -> float:
    """Since when the job could run: its `etime`, which a held or a waiting job has not."""
    told = parse_time(values.get("etime"))
    if not math.isnan(told):
        return max(told, submit)
    return math.inf if state in "HW" else submit


def _end(values: Mapping[str, Any], start: float) -> float:
    if text(values.get("job_state"))[:1] not in FINAL_STATES:
        return math.nan
    told = parse_time(values.get("obittime"))
    if math.isnan(told):
        used = parse_duration(text(resources_of(values, "resources_used").get("walltime")))
        told = start + used
    return told if not math.isnan(told) else parse_time(values.get("mtime"))


def _waits(values: Mapping[str, Any], state: str) -> bool:
    """An array shows how many of its subjobs wait, and is H, W or Q or B whatever the others do."""
    counts = _subjobs(values)
    if state == "B" or (counts and state in WAITING_STATES):
        return counts.get("Queued", 0) > 0
    return state in WAITING_STATES


def _has_begun(values: Mapping[str, Any], state: str) -> bool:
    """A hold on an array does not end what runs of it, but its B goes (req_holdjob of 23.06)."""
    return state == "B" or any(_subjobs(values).get(name, 0) for name in ("Running", "Exiting"))


def _at_own_limit(values: Mapping[str, Any]) -> bool:
    most = parse_count(values.get("max_run_subjobs"))
    return 0 < most <= _subjobs(values).get("Running", 0)


def _subjobs(values: Mapping[str, Any]) -> dict[str, int]:
    """How many subjobs an array has in each state; empty for any other job."""
    words = (word.partition(":") for word in text(values.get("array_state_count")).split())
    return {name: parse_count(count) for name, _, count in words}


def _interactive(values: Mapping[str, Any]) -> bool | None:
    told = text(values.get("interactive")).lower()
    return told not in ("", "0", "false")


#: A limit of the user, group or project; the overall one of a queue or the server is the site's.
_OWN_LIMIT = re.compile(
    r"\b(per-)?(user|group|project)\b.*\blimit\b|job limit reached for (user|group|project)\b",
    re.IGNORECASE,
)
#: All that is ever told of an array that has begun, whatever its other subjobs wait for.
_BEGUN = "Job Array Began"
#: What more free processors would mend; and the overall limit, which ours on batch queues is.
_FOR_PROCESSORS = re.compile(
    r"resource: (ncpus|nodect)\b|available resources on nodes|enough free nodes|top job"
    r"|too few free resources|exclusive node|starving|strict sorted order"
    r"|overall limit on resource (ncpus|ngpus|mem)\b",
    re.IGNORECASE,
)


def is_own_doing(comment: str) -> bool:
    """Whether the job waits by what its user controls: a limit of the user or the project."""
    return _OWN_LIMIT.search(comment) is not None


def is_for_processors(comment: str) -> bool:
    """Whether it waits for processors alone; so does one of which PBS does not tell."""
    untold = not comment or comment.startswith(_BEGUN)
    return untold or _FOR_PROCESSORS.search(comment) is not None


_ADMINISTRATORS = "ask the administrators"
#: States of PBS that say more than the scheduler's last comment, by their letters.
STATES = {"H": "Held", "W": "Waiting"}
_NEVER = "can never run:"


@cache
def _comments() -> list[tuple[re.Pattern[str], str, str]]:
    """Form of a comment, what it means for the job, and what its user can do."""
    told = tomllib.loads(read_whole(Path(__file__).with_name("comments.toml")).decode())
    return [(re.compile(form, re.IGNORECASE), *words) for form, *words in told["comments"]]


def comment_sentence(comment: str) -> str:
    """What a comment means for the job, and what its user can do: one sentence, no full stop."""
    never = comment.lower().startswith(_NEVER)
    words = re.sub(r"^(?:not running|can never run):\s*", "", comment.strip(), flags=re.IGNORECASE)
    for form, meaning, advice in _comments():
        found = form.match(words)
        if found is not None:
            parts = [part.lower() for part in found.groups() if part]
            said = meaning.format(*parts)
            return f"{said}, at all times; change the request" if never else f"{said}; {advice}"
    return f"this release of slurm-rl does not know the reason; {_ADMINISTRATORS}"
