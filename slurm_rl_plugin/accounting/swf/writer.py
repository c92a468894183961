"""Writes a table of jobs as SWF, so that reading it back gives the same table."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import write_whole

_SWF_NAME = re.compile(r"-1|0|[1-9]\d{0,14}", re.ASCII)


def write_swf(path: Path, log: JobLog, *, comments: Sequence[str]) -> None:
    """Write jobs as SWF, gzipped if the name ends in .gz; the file appears whole or not at all.

    SWF holds neither QOS, job names, submit lines nor eligible times, and of what jobs ask of nodes
    memory alone, in KB for each processor. Names that are no numbers are numbered from 1 and
    explained in the comments, lines for the header. A log of one account reads back with its users
    as accounts, as every SWF log does.

    Raises:
        AccountingLogError: the file cannot be written.
        ValueError: a submit time is negative, which SWF cannot hold.
    """
    if np.any(log.submit < 0):
        raise ValueError("SWF cannot hold negative submit times; shift the log's epoch")
    content = "".join(f"{line}\n" for line in _lines(log, comments)).encode(errors="replace")
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        write_whole(path, content)
    except OSError as error:
        problem = f"the file cannot be written ({error.strerror}); check the folder"
        raise AccountingLogError(path, problem) from error


def _lines(log: JobLog, comments: Sequence[str]) -> Iterator[str]:
    yield "; Version: 2.2"
    if log.processors_available is not None:
        yield f"; MaxProcs: {log.processors_available}"
    for comment in comments:
        yield from _comment(comment)
    users = _numbers(log.users)
    of_users = log.accounts == log.users and np.array_equal(log.account, log.user)
    groups = ["-1"] * len(log.accounts) if of_users else _numbers(log.accounts)
    queues = _numbers(log.partitions)
    for kind, names, numbers in (
        ("User", log.users, users),
        ("Group", log.accounts, groups),
        ("Queue", log.partitions, queues),
    ):
        for name, number in zip(names, numbers, strict=True):
            if number not in (name, "-1"):
                yield from _comment(f"{kind} {number}: {name}")
    yield from _rows(log, users, groups, queues)


def _comment(text: str) -> Iterator[str]:
    # A zero byte would make the file look binary.
    for line in text.replace("\0", "?").splitlines():
        yield f"; {line}"


def _numbers(names: tuple[str, ...]) -> list[str]:
    if all(_SWF_NAME.fullmatch(name) for name in names):
        return list(names)
    return [str(position) for position in range(1, len(names) + 1)]


def _rows(log: JobLog, users: list[str], groups: list[str], queues: list[str]) -> Iterator[str]:
    wait = log.start - log.submit
    memory = np.zeros(len(log)) if log.requests is None else log.requests.of(MEMORY)
    # KB for each processor; a sum of MiB is off by a last digit, which would not survive a rewrite
    asked = np.where(memory > 0, np.round(memory * 1024 / log.processors, 6), np.nan)
    named = ((log.user, users), (log.account, groups), (log.partition, queues))
    columns = zip(
        log.job_id.tolist(),
        _written(log.submit),
        _written(np.where(wait >= 0, wait, np.nan)),
        _written(log.run_time),
        log.processors.tolist(),
        _written(log.time_limit),
        _written(asked),
        *([numbers[place] for place in index.tolist()] for index, numbers in named),
        strict=True,
    )
    for job, submit, waited, ran, processors, limit, memory, user, group, queue in columns:
        yield (
            f"{job} {submit} {waited} {ran} {processors} -1 -1 {processors} {limit} {memory} "
            f"1 {user} {group} -1 {queue} -1 -1 -1"
        )


def _written(amounts: FloatArray) -> list[str]:
    """Write whole numbers as integers, others with every digit, unknown ones as -1."""
    return [
        "-1" if each != each else str(int(each)) if each.is_integer() else repr(each)  # noqa: PLR0124
        for each in amounts.tolist()
    ]
