"""Runs of an accounting log gathered as columns: a million of them are a handful of arrays."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.pbs.fields import JobNumber
from slurm_rl_plugin.accounting.pbs.requests import PbsRequest, requests_of_runs
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.units import FloatArray, IntArray

_TIMES = ("submit", "eligible", "start", "end", "time_limit")
_NUMBERS = ("number", "subjob", "processors")
_NAMES = ("server", "user", "account", "queue", "job_name")


class Run(NamedTuple):
    """One run of a job; times in seconds since the epoch, the limit in seconds (NaN for none)."""

    job: JobNumber
    submit: float
    eligible: float
    start: float
    end: float
    processors: int
    time_limit: float
    user: str
    account: str
    queue: str
    job_name: str
    request: PbsRequest


class Oddities(NamedTuple):
    """Counts of what the table hides."""

    told_twice: int
    submit_going_backwards: int


class RunColumns:
    """Columns that grow by one run at a time."""

    def __init__(self) -> None:
        self._times = {name: array("d") for name in _TIMES}
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._indices = {name: array("q") for name in _NAMES}
        self._names: dict[str, dict[str, int]] = {name: {} for name in _NAMES}
        self._requests: dict[PbsRequest, int] = {}
        self._request = array("q")

    def append(self, run: Run) -> None:
        """Add a run."""
        for name, column in self._times.items():
            column.append(getattr(run, name))
        numbers = (run.job.number, run.job.subjob, run.processors)
        for name, number in zip(_NUMBERS, numbers, strict=True):
            self._numbers[name].append(number)
        names = (run.job.server, run.user, run.account, run.queue, run.job_name)
        for name, text in zip(_NAMES, names, strict=True):
            known = self._names[name]
            self._indices[name].append(known.setdefault(text, len(known)))
        self._request.append(self._requests.setdefault(run.request, len(self._requests)))

    def job_log(self) -> tuple[JobLog, Oddities]:
        """The table, in submit order."""
        times = {name: np.array(column) for name, column in self._times.items()}
        kept = self._told_last(times)
        submit = times["submit"][kept]
        backwards = int(np.count_nonzero(np.diff(submit) < 0))
        order = kept[np.argsort(submit, kind="stable")]
        log = self._table({name: column[order] for name, column in times.items()}, order)
        return log, Oddities(len(times["submit"]) - len(kept), backwards)

    def _told_last(self, times: dict[str, FloatArray]) -> IntArray:
        """Places of the runs, each once: a server that is restarted may tell an end again."""
        keys = (
            times["start"],
            np.array(self._numbers["subjob"]),
            np.array(self._numbers["number"]),
            np.array(self._indices["server"]),
        )
        order = np.lexsort((np.arange(len(times["start"])), times["end"], *keys))
        if not len(order):
            return order
        same = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
        return np.sort(order[np.append(~same, True)])

    def _table(self, times: dict[str, FloatArray], order: IntArray) -> JobLog:
        account, accounts = self._index("account", order)
        user, users = self._index("user", order)
        partition, partitions = self._index("queue", order)
        processors = np.array(self._numbers["processors"], dtype=np.int64)[order]
        request = np.array(self._request, dtype=np.int64)[order]
        return JobLog(
            job_id=np.array(self._numbers["number"], dtype=np.int64)[order],
            submit=times["submit"],
            eligible=times["eligible"],
            start=times["start"],
            run_time=times["end"] - times["start"],
            processors=processors,
            time_limit=times["time_limit"],
            account=account,
            user=user,
            partition=partition,
            accounts=accounts,
            users=users,
            partitions=partitions,
            job_name=self._texts("job_name", order),
            kind="pbs",
            requests=requests_of_runs(list(self._requests), request, processors),
        )

    def _column(self, name: str) -> IntArray:
        return np.array(self._indices[name], dtype=np.int64)

    def _texts(self, name: str, order: IntArray) -> tuple[str, ...]:
        texts = list(self._names[name])
        return tuple(texts[place] for place in self._column(name)[order].tolist())

    def _index(self, name: str, order: IntArray) -> tuple[IntArray, tuple[str, ...]]:
        texts = list(self._names[name])
        places, column = np.unique(self._column(name)[order], return_inverse=True)
        rank = np.argsort(np.array([texts[place] for place in places], dtype=object))
        position = np.empty(len(rank), dtype=np.int64)
        position[rank] = np.arange(len(rank))
        distinct = tuple(texts[places[place]] for place in rank)
        return position[column].astype(np.int64), distinct
