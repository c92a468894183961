"""CPUs of a node: told by its record or inferred, less those kept for the system."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_rl_plugin.machine_files.statements import ConfRecord

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Processors:
    """CPUs that jobs may have, and how many of them one core has."""

    count: int
    of_core: int


def processors_of(record: ConfRecord) -> Processors:
    """Infer as Slurm does: sockets from CPUs or boards, CPUs from sockets, cores and threads.

    Raises:
        ConfigurationError: a value is not understood.
    """
    cores = max(record.number("corespersocket", 1), 1)
    threads = max(record.number("threadspercore", 1), 1)
    sockets = max(_sockets(record, cores * threads), 1)
    whole = sockets * cores * threads
    cpus = record.number("cpus", whole)
    if cpus not in (sockets, sockets * cores, whole):
        cpus = whole  # as Slurm sets it anew
    of_core = max(cpus // (sockets * cores), 1)
    return Processors(max(cpus - _kept(record, of_core), 1), of_core)


def _sockets(record: ConfRecord, of_socket: int) -> int:
    boards = record.number("boards", 1)
    if "socketsperboard" in record.keys:
        return boards * record.number("socketsperboard", 1)
    if "sockets" in record.keys:
        return record.number("sockets", 1)
    cpus = record.number("cpus", 0)
    return cpus // of_socket if cpus and cpus % of_socket == 0 else boards


def _kept(record: ConfRecord, of_core: int) -> int:
    """CPUs of CpuSpecList, such as 0,1,8-11, or of CoreSpecCount cores."""
    value = record.keys.get("cpuspeclist")
    if value is None or not value.text or value.text == "(null)":
        return of_core * record.number("corespeccount", 0)
    named: set[int] = set()
    for word in value.words:
        found = _RANGE.fullmatch(word)
        if found is None:
            raise value.fault("this is no list of CPUs; write such as 0,1,8-11")
        named.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return len(named)
