"""Fields of `squeue`: jobs, requests, states and times; ValueError for another form."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.slurm.resources import (
    parse_gres,
    parse_licences,
    parse_memory,
    parse_tres,
    printed_seconds,
    requested,
)
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.domain.job_class import words_for_us
from slurm_rl_plugin.domain.resources import CPUS, GPUS, ResourceRequests
from slurm_rl_plugin.units import IntArray
from slurm_rl_plugin.whole_file import read_whole

#: The last six are the user's text, which may hold a separator on any release. They come after all
#: other fields but the name, so that it can only shift that job's own request and name.
REQUEST_FIELDS = (
    *("tres-alloc", "NumTasks", "cpus-per-task", "MinMemory", "OverSubscribe"),
    *("Sockets", "cpus-per-tres"),
    *("tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task", "Licenses", "Feature"),
)
#: Fields whose values use `|` themselves, such as the constraint `a100|v100`.
ALTERNATIVES = frozenset({"Licenses", "Feature"})
#: Replaces OverSubscribe from 26.05 on, where OverSubscribe is NO for jobs that share by default.
EXCLUSIVE = "Exclusive"
#: Values of a job with its nodes to itself: NO of OverSubscribe, NODE of EXCLUSIVE, TOPO of both. A
#: job that shares its nodes only with jobs of its user or label counts as sharing.
_ALONE = {"OverSubscribe": frozenset({"NO", "TOPO"}), EXCLUSIVE: frozenset({"NODE", "TOPO"})}
#: `gres:gpu:a100:2` of 22.05, `gres/gpu:a100:2` and `gres/gpu=2` of later releases.
_GRES = re.compile(r"gres[:/][\w.-]+(?:[:=][\w.-]+){0,2}", re.ASCII)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_NONE = frozenset({"", "(null)", "N/A"})


class NodeRequest(NamedTuple):
    """What one job requests of nodes."""

    amounts: tuple[tuple[str, float], ...] = ()  #: of the whole job without CPUs; sorted
    nodes: int = 0  #: 0 if not known
    cpus_per_task: int = 1  #: > 0
    memory_per_cpu: bool = False  #: see `ResourceRequests`
    exclusive: bool = False  #: it wants its nodes to itself
    constraint: str = ""  #: over features of nodes, "" for any node


#: Request of a job if only its processors are known.
PROCESSORS_ALONE = NodeRequest()


@lru_cache(maxsize=1 << 14)
def node_request(values: tuple[str, ...], alone: str = REQUEST_FIELDS[4]) -> NodeRequest:
    """Read the fields of REQUEST_FIELDS, and ignore those that are not understood."""
    total, tasks, cpus_per_task, memory, shares, sockets, _, *per, licences, constraint = values
    tres = parse_tres(total)
    nodes = int(tres.get("node", 0))
    amounts = requested(tres)
    amounts.pop(CPUS, None)
    of_nodes = max(nodes, 1)
    of_sockets = of_nodes * max(_number(sockets), 1)
    for text, times in zip(per, (1, of_nodes, of_sockets, max(_number(tasks), 1)), strict=True):
        for name, count in requested(parse_gres(",".join(_asked_gres(text)))).items():
            amounts[name] = max(amounts.get(name, 0.0), count * times)
    amounts |= _licences(licences)
    return NodeRequest(
        amounts=tuple(sorted(amounts.items())),
        nodes=nodes,
        cpus_per_task=max(_number(cpus_per_task), 1),
        memory_per_cpu=_goes_with_cpus(memory, tres, nodes),
        exclusive=shares in _ALONE[alone],
        constraint="" if constraint in _NONE else constraint,
    )


@lru_cache(maxsize=1 << 12)
def cpus_with_gpus(text: str, gpus: float) -> int:
    """The least CPUs that a job gets by --cpus-per-gpu; squeue counts them only once it runs."""
    return int(gpus * parse_gres(",".join(_asked_gres(text))).get("gres/gpu", 0.0))


def _licences(text: str) -> dict[str, float]:
    """Licences by name; empty if the job accepts any one of several (25.05 and later)."""
    try:
        return {} if text in _NONE or "|" in text else parse_licences(text)
    except ValueError:
        return {}


@lru_cache(maxsize=1 << 14)
def request_of_tres(text: str) -> NodeRequest:
    """The request of TRES alone, as accounting keeps it."""
    tres = parse_tres(text)
    amounts = requested(tres)
    amounts.pop(CPUS, None)
    return NodeRequest(tuple(sorted(amounts.items())), nodes=int(tres.get("node", 0)))


def _asked_gres(text: str) -> Iterator[str]:
    for part in text.split(","):
        if _GRES.fullmatch(part):
            yield part.replace("=", ":")


def _goes_with_cpus(least: str, tres: dict[str, float], nodes: int) -> bool:
    """Whether MinMemory counts for each CPU: squeue does not say, but the total shows it."""
    try:
        each = parse_memory(least)
    except ValueError:
        return False
    whole = tres.get("mem", 0.0)
    return abs(each * tres.get("cpu", 0.0) - whole) < abs(each * nodes - whole)


def _number(text: str) -> int:
    return int(text) if _COUNT.fullmatch(text) else 0


def together(parts: Sequence[NodeRequest | None]) -> NodeRequest | None:
    """The request of a heterogeneous job with these components; None if one is not known.

    Only a constraint of all components is a constraint of the job.
    """
    known = [part for part in parts if part is not None]
    if len(known) != len(parts) or not known:
        return None
    amounts: dict[str, float] = {}
    for part in known:
        for name, amount in part.amounts:
            amounts[name] = amounts.get(name, 0.0) + amount
    constraints = {part.constraint for part in known}
    return known[0]._replace(
        amounts=tuple(sorted(amounts.items())),
        nodes=sum(part.nodes for part in known),
        constraint=constraints.pop() if len(constraints) == 1 else "",
    )


def request_columns(
    asked: Sequence[NodeRequest | None],
    processors: IntArray,
    names: tuple[str, ...],
    uncounted: tuple[str, ...] = (),
) -> ResourceRequests | None:
    """Requests of jobs as columns; None if the machine has only processors."""
    if not names:
        return None
    places: dict[int, int] = {}  # by identity: rows share their requests, and comparing is slow
    index = [places.setdefault(id(each), len(places)) for each in asked]
    distinct = [PROCESSORS_ALONE] * len(places)
    for each, found in zip(asked, index, strict=True):
        distinct[found] = each or PROCESSORS_ALONE
    place = np.array(index, dtype=np.int64)
    amounts = np.zeros((len(distinct), len(names)))
    for row, request in zip(amounts, distinct, strict=True):
        of_job = dict(request.amounts)
        row[:] = [0.0 if name in uncounted else of_job.get(name, 0.0) for name in names]
    total = amounts[place]
    total[:, names.index(CPUS)] = processors
    constraints: dict[str, int] = {"": 0}
    wanted = [constraints.setdefault(each.constraint, len(constraints)) for each in distinct]
    return ResourceRequests(
        names=names,
        total=total,
        nodes=np.array([each.nodes for each in distinct], dtype=np.int64)[place],
        cpus_per_task=np.array([each.cpus_per_task for each in distinct], dtype=np.int64)[place],
        memory_per_cpu=np.array([each.memory_per_cpu for each in distinct], dtype=np.bool_)[place],
        exclusive=np.array([each.exclusive for each in distinct], dtype=np.bool_)[place],
        constraint=np.array(wanted, dtype=np.int64)[place],
        constraints=tuple(constraints),
    )


#: Fields of `squeue` in order. The job name comes last, since it may hold separators and newlines;
#: no other field is a user's free text.
QUEUE_FIELDS = (
    *("JobID", "ArrayJobID", "State", "Reason", "PriorityLong", "Nice", "NumCPUs"),
    *("SubmitTime", "EligibleTime", "AccrueTime", "StartTime", "EndTime", "TimeLimit"),
    *("Account", "UserName", "Partition", "QOS", "BatchFlag", "NodeList", "ArrayTaskID"),
    *("HetJobID", "Name"),
)
#: Added before the name if users may choose classes; a user's text.
COMMENT = "Comment"
_PRIORITY = QUEUE_FIELDS.index("PriorityLong")
_CPUS_PER_GPU = REQUEST_FIELDS.index("cpus-per-tres")
#: `cpus-per-tres` of most jobs, which have no --cpus-per-gpu.
_NO_CPUS_PER_GPU = "N/A"
#: From this release on squeue has the field EXCLUSIVE.
_SHOWS_EXCLUSIVE = (26, 5)
SEPARATOR = "|"
#: PriorityTier unless slurm.conf sets one; also of partitions without nodes.
LOWEST_TIER = 1
#: Seconds since the epoch are the same everywhere. Without TZ the C library would check the file of
#: the host's zone for each time that squeue prints.
_AT_GREENWICH = {"TZ": "UTC0"}
#: Ends a field whose value may hold a separator.
_END = "|;|"
_ANY_TEXT = ALTERNATIVES | {COMMENT}

PENDING = "PENDING"
#: States of a job that waits. All but the first are flags that Slurm shows instead. A job whose
#: reservation has ended keeps its flag after its release, until it starts.
WAITING_STATES = frozenset(
    {PENDING, "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
#: States in which a job occupies processors. COMPLETING does not count: its work is over.
RUNNING_STATES = frozenset({"RUNNING", "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED"})
WAITING_OR_RUNNING = WAITING_STATES | RUNNING_STATES
#: State of a job that its time limit ended.
TIMED_OUT = "TIMEOUT"
#: States of a job that is over; a requeued one shows COMPLETING at first and then PENDING.
FINAL_STATES = frozenset(
    {
        *("COMPLETED", "CANCELLED", "FAILED", TIMED_OUT, "NODE_FAIL", "PREEMPTED"),
        *("BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
    }
)
_HELD_REASONS = frozenset({"JobHeldUser", "JobHeldAdmin"})
#: Values of `squeue`'s state option for these jobs. PENDING and RUNNING alone leave out all jobs
#: with a flag; REQUEUED would add completing jobs. Every release knows these names.
ASK_WAITING = "PENDING,REQUEUE_HOLD,RESV_DEL_HOLD,SPECIAL_EXIT"
ASK_WAITING_OR_RUNNING = f"{ASK_WAITING},RUNNING,CONFIGURING,RESIZING,SIGNALING,STOPPED"

NO_TIME = frozenset({"N/A", "NONE", "Unknown", "None", "(null)", ""})
NO_LIMIT = frozenset({"UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit", "N/A", ""})
#: Slurm prints no larger number; columns and their sums can hold it, and floats are exact.
_MOST = 2**53
#: A priority of this many digits is certainly smaller than _MOST.
_MOST_DIGITS = 15
SCALE = {"K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(slots=True)
class QueueRow:
    """One record of `squeue`: a job, a task of a job array, or the rest of a pending array."""

    job_id: int  #: number of the record, different for each task
    array_id: int  #: number of the array; `job_id` for another job
    state: str
    reason: str
    priority: int  #: in the last snapshot that showed the record
    nice: int
    processors: int
    submit: float
    #: Without enforced limits a hold resets `eligible` but not `accrue`.
    eligible: float  #: seconds since the epoch; inf if Slurm gives none (held, dependency)
    accrue: float  #: since when its age counts; inf for none
    start: float  #: seconds since the epoch, expected if pending; NaN if Slurm gives none
    end: float  #: the same, expected unless the job is over
    time_limit: float  #: seconds; NaN if there is none
    account: str
    user: str
    partitions: tuple[str, ...]  #: in which it may start, at least one
    qos: str
    has_batch_script: bool
    nodes: str  #: node list; empty for a job that never started
    tasks: str  #: task numbers of the record; empty for a job that is no array
    name: str
    het_id: int = 0  #: number of the heterogeneous job of a component; 0 for others
    components: tuple[QueueRow, ...] = ()  #: of a whole heterogeneous job
    asked: NodeRequest | None = None  #: without processors; None if not read
    words: str = ""  #: its user's words for us, from its comment
    place: int = 0  #: of its line in `RowNumbers`, if it has one

    @property
    def held(self) -> bool:
        """Whether a user or an administrator holds it."""
        return self.reason in _HELD_REASONS or self.priority == 0


def queue_format(mark: str, names: Sequence[str] = QUEUE_FIELDS) -> dict[str, str]:
    """Variables by which `squeue` prints these fields; `mark` after the first begins a record.

    Variables and not `-O`, since every user of the host sees a command's arguments: a user who knew
    the mark could rename a job so that it reads like another job's record.
    """
    first, *others, last = names
    ends = [f"{first}:{SEPARATOR}{mark}{SEPARATOR}", *(f"{name}:{end_of(name)}" for name in others)]
    return {"SQUEUE_FORMAT2": ",".join([*ends, f"{last}:"]), **_AT_GREENWICH}


def queue_fields(
    *, requests: bool, comments: bool = False, release: tuple[int, int] = (0, 0)
) -> tuple[str, ...]:
    """Fields of `squeue` with requests or comments of jobs on a release (year and month)."""
    instead = {"OverSubscribe": EXCLUSIVE} if release >= _SHOWS_EXCLUSIVE else {}
    asked = [instead.get(each, each) for each in REQUEST_FIELDS] if requests else []
    return (*QUEUE_FIELDS[:-1], *asked, *([COMMENT] if comments else []), QUEUE_FIELDS[-1])


def end_of(name: str) -> str:
    """What ends a field of this name."""
    return _END if name in _ANY_TEXT else SEPARATOR


def parse_records(
    text: str, mark: str, known: Mapping[int, QueueRow], names: Sequence[str] = QUEUE_FIELDS
) -> dict[int, QueueRow]:
    """Read the answer of `squeue` with the variables of `queue_format(mark, names)`.

    A job name may hold newlines and separators. Only a user who knows `mark` could forge the
    beginning of a record, so every call must have a new one.

    The rows have a key of their record, by which rows of the last answer, `known`, are used again.
    Few of 10,000 pending jobs change between two snapshots, except for their priority, which Slurm
    computes again every few minutes. So the key holds no priority, only whether it is 0, and the
    row of the last answer gets the new one.
    """
    found = {}
    for record in _records(text, mark):
        *others, points, rest = record.split(SEPARATOR, _PRIORITY + 1)
        key = hash((*others, points == "0", rest))
        row = known.get(key)
        if row is None or not points.isdecimal() or len(points) > _MOST_DIGITS:
            row = _parse_record(record, names)
        else:
            row.priority = int(points)
        found[key] = row
    return found


def _records(text: str, mark: str) -> Iterator[str]:
    between = f"{SEPARATOR}{mark}{SEPARATOR}"
    end = text.find(between)
    number, is_any = text[: end if end >= 0 else None], end >= 0
    if not number.isdecimal() if is_any else number.strip():
        raise not_understood("squeue", next(iter(number.strip().splitlines()), ""))
    while end >= 0:  # a line with the number of the next record ends each piece
        begin = end + len(between)
        end = text.find(between, begin)
        rest, _, following = text[begin : end if end >= 0 else None].rpartition("\n")
        yield f"{number}{SEPARATOR}{rest}"
        number = following
    if is_any and number:
        raise not_understood("squeue", number)


def _parse_record(record: str, names: Sequence[str]) -> QueueRow:
    texts = len(_ANY_TEXT.intersection(names))
    values = record.split(SEPARATOR, len(names) - 1 - texts)
    if texts:
        values[-1:] = values[-1].split(_END, texts)
    if len(values) != len(names):
        raise not_understood("squeue", record)
    try:
        return to_row(values, names)
    except ValueError as error:
        raise not_understood("squeue", record) from error


@lru_cache(maxsize=1 << 16)
def _shared(text: str) -> str:
    """Equal text as one object. Early releases of Python 3.12 would never free interned text."""
    return text


def to_row(values: Sequence[str], names: Sequence[str] = QUEUE_FIELDS) -> QueueRow:
    """A row from its fields in their order; text that many rows share is kept once.

    ValueError for a field in another form.
    """
    job, array, state, reason, priority, nice, processors = values[:7]
    submit, eligible, accrue, start, end, limit = values[7:13]
    account, user, partitions, qos, batch_flag, nodes, tasks, het, *asked, name = values[13:]
    words = words_for_us(asked.pop()) if COMMENT in names else ""
    job_id, array_id = parse_integer(job), parse_integer(array)
    alone = EXCLUSIVE if EXCLUSIVE in names else "OverSubscribe"
    request = node_request(tuple(asked), alone) if asked else None
    return QueueRow(
        job_id=job_id,
        array_id=job_id if array_id == job_id else array_id,
        state=_shared(state),
        reason=_shared(reason),
        priority=parse_integer(priority),
        nice=parse_integer(nice),
        processors=max(parse_count(processors), _cpus_with_gpus(asked, request)),
        submit=parse_time(submit, math.nan),
        eligible=parse_time(eligible, math.inf),
        accrue=parse_time(accrue, math.inf),
        start=parse_time(start, math.nan),
        end=parse_time(end, math.nan),
        time_limit=parse_duration(limit),
        account=_shared(account),
        user=_shared(user),
        partitions=_partitions(partitions),
        qos=_shared(qos),
        has_batch_script=batch_flag == "1",
        nodes=_shared(nodes),
        tasks="" if tasks == "N/A" else tasks,
        name=_shared(name),
        het_id=0 if het == "N/A" else parse_integer(het),
        asked=request,
        words=_shared(words),
    )


def _cpus_with_gpus(values: Sequence[str], request: NodeRequest | None) -> int:
    if request is None or (each := values[_CPUS_PER_GPU]) == _NO_CPUS_PER_GPU:
        return 0
    return cpus_with_gpus(each, dict(request.amounts).get(GPUS, 0.0))


@lru_cache(maxsize=4096)  # most jobs are eligible when submitted, and few time limits are common
def parse_time(text: str, missing: float) -> float:
    """Seconds since the epoch, as printed under SLURM_TIME_FORMAT=%s."""
    return missing if text in NO_TIME else float(parse_integer(text))


@lru_cache(maxsize=4096)
def parse_duration(text: str) -> float:
    """Seconds as Slurm prints them; NaN for its words for no limit."""
    return math.nan if text in NO_LIMIT else printed_seconds(text)


@lru_cache(maxsize=4096)
def _partitions(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def parse_count(text: str) -> int:
    """Read a number that Slurm may shorten with K, M or G, or the least of a range."""
    least = text.partition("-")[0]
    if least[-1:] not in SCALE:
        return parse_integer(least)
    return int(bounded(float(least[:-1]) * SCALE[least[-1]]))


def parse_integer(text: str) -> int:
    """Read a whole number that columns can hold."""
    number = int(text)
    bounded(number)
    return number


def bounded(number: float) -> float:
    """The number; ValueError if columns cannot hold it."""
    if not abs(number) <= _MOST:
        raise ValueError("larger than any number that Slurm prints")
    return number


SINFO = ("sinfo", "--noheader", "--all", "--Node", "-o", "%N|%C|%R|%p")


class Capacity(NamedTuple):
    """The answer of SINFO."""

    usable: int  #: processors, allocated and idle
    whole: int  #: all processors, down and drained nodes included
    tiers: dict[str, int]  #: PriorityTier of each partition with nodes


def parse_capacity(text: str) -> Capacity:
    """Processors, each node once, and the tiers of partitions."""
    nodes: dict[str, tuple[int, int]] = {}
    tiers: dict[str, int] = {}
    for line in text.splitlines():
        try:
            name, counts, partition, tier = line.split(SEPARATOR)
            allocated, idle, _other, whole = (parse_count(part) for part in counts.split("/"))
            tiers[partition] = parse_integer(tier)
        except ValueError as error:
            raise not_understood("sinfo", line) from error
        nodes[name] = allocated + idle, whole
    usable, whole = (sum(each[at] for each in nodes.values()) for at in (0, 1))
    return Capacity(usable, whole, tiers)


@cache
def reasons() -> dict[str, Any]:
    """What is known of reasons why jobs wait, see reasons.toml."""
    return tomllib.loads(read_whole(Path(__file__).parents[1] / "reasons.toml").decode())


@lru_cache(maxsize=1000)  # a queue shows few reasons, and a user cannot make up any
def waits_for_processors(reason: str) -> bool:
    """Whether the job waits for free processors alone."""
    return all(each in reasons()["for_processors"] for each in reason.split(","))


@lru_cache(maxsize=1000)
def reason_word(reason: str) -> str:
    """The first word of a reason: nodes and further reasons may follow it."""
    return re.split(r"[,:( ]", reason, maxsplit=1)[0]


@lru_cache(maxsize=1000)
def is_own_doing(reason: str) -> bool:
    """Whether the job waits for something that its user controls."""
    return re.match(reasons()["own_doing"], reason, re.VERBOSE) is not None
