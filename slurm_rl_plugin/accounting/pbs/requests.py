"""What a run asked nodes for: `select` of PBS, `nodes` of Torque, and totals of the whole job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import NOT_READ
from slurm_rl_plugin.accounting.resource_amounts import resources_text, totals_of
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.units import IntArray

_ASKED = tuple(
    f"Resource_List.{name}"
    for name in ("select", "nodes", "ncpus", "mem", "pmem", "ngpus", "place")
)
#: Of these any tells of more than processors.
_TELLING = [name for name in _ASKED if name != "Resource_List.ncpus"]
_LIST = "Resource_List."
#: Of Resource_List, what is read, and what says nothing of the nodes that a run needs: its time,
#: how its processes use what it has, and counts that other names tell too.
_KNOWN = frozenset(
    {
        *_ASKED,
        *(
            f"{_LIST}{name}"
            for name in (
                *("walltime", "min_walltime", "max_walltime", "soft_walltime", "cput", "pcput"),
                *("nodect", "neednodes", "procs", "mpiprocs", "ompthreads", "nice"),
                *("preempt_targets", "start_time", "file"),
            )
        ),
    }
)
_KNOWN_OF_CHUNKS = frozenset(
    {*("ncpus", "mem", "ngpus", "mpiprocs", "ompthreads"), *("ppn", "pn", "gpus")}
)
_SIZE = re.compile(r"(\d{1,18})([kmgtpKMGTP]?)([bwBW]?)", re.ASCII)
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_WORD = 8
_COUNT = re.compile(r"\d{1,9}", re.ASCII)


class PbsRequest(NamedTuple):
    """What one run asked for; the columns of `stored.log.REQUESTS`."""

    resources: str = ""  #: amounts of the whole job, "" where processors alone are told
    nodes: int = 0  #: hosts that it got, 0 where none are told
    cpus_per_task: int = 1  #: CPUs of each chunk, 1 where chunks differ
    exclusive: bool = False


#: Of a record that tells of processors alone.
NOTHING = PbsRequest()


def unread_requests(values: Mapping[str, str]) -> tuple[str, ...]:
    """What the values of an E record ask for and nothing here reads."""
    asked = (f"{_LIST}select", f"{_LIST}nodes")
    return _unread(
        tuple(name for name in values if name.startswith(_LIST) and name not in _KNOWN),
        tuple(values.get(name, "") for name in asked),
    )


@lru_cache(maxsize=1 << 14)
def _unread(names: tuple[str, ...], chunks: tuple[str, ...]) -> tuple[str, ...]:
    found = list(names)
    for name, text in zip(("select", "nodes"), chunks, strict=True):
        for part in text.split("+"):
            first, *rest = part.split(":")
            # a chunk without a count begins with a request; what begins a part of nodes is a host
            words = [first, *rest] if name == "select" and "=" in first else rest
            keys = (word.partition("=")[0] for word in words)
            found += [f"{_LIST}{name} {key}" for key in keys if key not in _KNOWN_OF_CHUNKS]
    return tuple(f"{each}{NOT_READ}" for each in dict.fromkeys(found))


class _Chunk(NamedTuple):
    times: int
    cpus: int
    memory: float
    gpus: int


def request_of(values: Mapping[str, str], processors: int) -> PbsRequest:
    """What the values of an E record tell; what is not understood is left out."""
    if not any(name in values for name in _TELLING):
        return NOTHING
    request = _request(tuple(values.get(name, "") for name in _ASKED), processors)
    return request._replace(nodes=_hosts(values.get("exec_host") or values.get("exec_vnode", "")))


@lru_cache(maxsize=1 << 14)
def _request(asked: tuple[str, ...], processors: int) -> PbsRequest:
    select, nodes, ncpus, mem, pmem, ngpus, place = asked
    chunks = _chunks(select) if select else _torque_chunks(nodes)
    each_process = _mib(pmem) * processors
    memory = _mib(mem) or each_process or sum(each.times * each.memory for each in chunks)
    gpus = _number(ngpus) or sum(each.times * each.gpus for each in chunks)
    cpus = sum(each.times * each.cpus for each in chunks) or _number(ncpus) or processors
    sizes = {each.cpus for each in chunks}
    return PbsRequest(
        resources=resources_text({"cpus": cpus, "memory": memory, "gpus": gpus}),
        cpus_per_task=max(sizes.pop(), 1) if len(sizes) == 1 and select else 1,
        exclusive=any(word.startswith("excl") for word in place.split(":")),
    )


def _chunks(select: str) -> list[_Chunk]:
    """Chunks of `2:ncpus=8:mem=4gb:ngpus=1+1:ncpus=4`; a chunk without a count is one."""
    found = []
    for part in select.split("+"):
        first, *rest = part.split(":")
        counted = _COUNT.fullmatch(first) is not None
        words = rest if counted else [first, *rest]
        told = dict(word.split("=", 1) for word in words if "=" in word)
        count = int(first) if counted else 1
        cpus = _number(told.get("ncpus", "")) if "ncpus" in told else 1
        found.append(_Chunk(count, cpus, _mib(told.get("mem", "")), _number(told.get("ngpus", ""))))
    return found


def _torque_chunks(nodes: str) -> list[_Chunk]:
    """Chunks of `2:ppn=8:gpus=1+node7:ppn=4`; a name in place of a number is one node."""
    found = []
    for part in nodes.split("+") if nodes else ():
        first, *rest = part.split(":")
        told = dict(word.split("=", 1) for word in rest if "=" in word)
        count = int(first) if _COUNT.fullmatch(first) else 1
        cpus = _number(told.get("ppn", "")) or 1
        found.append(_Chunk(count, cpus, 0.0, _number(told.get("gpus", ""))))
    return found


def _hosts(where: str) -> int:
    """Different hosts of `a/0*4+b/0*4` or `(a:ncpus=4)+(b:ncpus=4)`."""
    parts = where.split("+") if where else []
    return len({re.split("[/:]", part.strip("()"), maxsplit=1)[0] for part in parts})


def _mib(text: str) -> float:
    found = _SIZE.fullmatch(text)
    if found is None:
        return 0.0
    size = int(found[1]) * _BYTES[found[2].lower()]
    return size * (_WORD if found[3].lower() == "w" else 1) / 1024**2


def _number(text: str) -> int:
    return int(text) if _COUNT.fullmatch(text) else 0


def requests_of_runs(
    distinct: Sequence[PbsRequest], place: IntArray, processors: IntArray
) -> ResourceRequests | None:
    """What runs asked for; None where no record told of more than processors.

    `place` is the index of each run into the distinct requests, shape [runs].
    """
    if set(distinct) <= {NOTHING}:
        return None
    texts = [each.resources for each in distinct]
    names, total = totals_of(texts, place, processors)
    none = np.zeros(len(place), dtype=np.int64)
    return ResourceRequests(
        names=names,
        total=total,
        nodes=np.array([each.nodes for each in distinct], dtype=np.int64)[place],
        cpus_per_task=np.array([each.cpus_per_task for each in distinct], dtype=np.int64)[place],
        memory_per_cpu=none.astype(np.bool_),
        exclusive=np.array([each.exclusive for each in distinct], dtype=np.bool_)[place],
        constraint=none,
    )
