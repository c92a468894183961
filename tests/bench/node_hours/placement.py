"""What jobs had of each node, told from `scontrol -o -d show jobs`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_JOB = re.compile(r"JobId=(\d+) ")
_GIVEN = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+)")
_GPUS = re.compile(r" JOB_GRES=gpu:(\d+)")
_LIST = re.compile(r"([\w-]+)\[([^]]+)\]|([\w-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What a job has of a node; memory in MB."""

    node: str
    processors: int
    memory: int
    gpus: int


def placements_of(told: str) -> dict[int, list[Placement]]:
    """Job id -> what it has of each of its nodes, of those that ran."""
    jobs = ((_JOB.match(line), line) for line in told.splitlines())
    return {int(job[1]): _placements(line) for job, line in jobs if job}


def _placements(line: str) -> list[Placement]:
    given = [
        (name, len(_numbers(numbers)), int(memory))
        for nodes, numbers, memory in _GIVEN.findall(line)
        for name in node_names(nodes)
    ]
    gpus = _GPUS.search(line)  # of the whole job: what is said of a node goes when the job ends
    share = int(gpus[1]) // len(given) if gpus and given else 0
    return [
        Placement(node=name, processors=processors, memory=memory, gpus=share)
        for name, processors, memory in given
    ]


def node_names(text: str) -> list[str]:
    """Of a list such as b[1-2,4],g1."""
    found = []
    for prefix, inside, alone in _LIST.findall(text):
        found += [alone] if alone else [f"{prefix}{each}" for each in _numbers(inside)]
    return found


def _numbers(text: str) -> list[int]:
    """Of a list such as 1-2,4."""
    ends = (part.partition("-")[::2] for part in text.split(","))
    return [each for first, last in ends for each in range(int(first), int(last or first) + 1)]
