"""Published records as jobs: which ran, and what is odd about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.port import Tally
from slurm_rl_plugin.accounting.stored.log import COLUMNS, REQUESTS, WHOLE_NUMBERS, request_columns
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: No machine has as many processors or nodes.
MOST = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedJobs:
    """Records in the domain's words, those that never ran too; every column has shape [n].

    Attributes:
        job_id: number of each.
        submit, eligible, start: seconds; NaN where a record does not tell. What is eligible before
            its submission or after its start counts as not told.
        run_time, time_limit: seconds; NaN where a record does not tell.
        processors: that it got; NaN where a record does not tell.
        texts: account, user, partition, qos, job_name: those that the layout has.
        total: CPUs, MiB of memory and GPUs that the whole job asks for, shape [n, 3].
        nodes: that it asks for; NaN where a record does not tell.
        cpus_per_task: CPUs that must be on one node together, >= 1.
        exclusive: it wants its nodes for itself.
        constraint: expression over features of nodes, "" for any; None where no job has one.
        odd: oddity -> which records show it.
    """

    job_id: IntArray
    submit: FloatArray
    eligible: FloatArray
    start: FloatArray
    run_time: FloatArray
    time_limit: FloatArray
    processors: FloatArray
    texts: Mapping[str, pl.Series]
    total: FloatArray
    nodes: FloatArray
    cpus_per_task: IntArray
    exclusive: BoolArray
    constraint: pl.Series | None = None
    odd: Mapping[str, BoolArray] = field(default_factory=dict)

    def reasons(self) -> dict[str, BoolArray]:
        """Why there is no job; of several reasons the first counts."""
        return {
            "no submit time": np.isnan(self.submit),
            "negative submit time": self.submit < 0,
            "negative run time": self.run_time < 0,
            "never ran": ~(self.run_time > 0) | np.isnan(self.start),
            "start before submit": self.start < self.submit,
            "no processors": ~(self.processors > 0),
            "impossible processors": self.processors > MOST,
        }


def kept_jobs(jobs: PublishedJobs, tally: Tally) -> pl.DataFrame:
    """The jobs of a batch that ran, in its order; columns as `stored.log` has them."""
    places = np.flatnonzero(tally.sift(jobs.reasons(), len(jobs.job_id)))
    for oddity, shown in jobs.odd.items():
        tally.noticed[oddity] += int(np.count_nonzero(shown[places]))
    tally.keep(jobs.submit[places])
    return _frame(jobs, places)


def _frame(jobs: PublishedJobs, places: IntArray) -> pl.DataFrame:
    count = len(places)
    columns: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        if kind == pl.String:
            texts = jobs.texts.get(name)
            columns[name] = [""] * count if texts is None else texts.gather(places)
            continue
        column = getattr(jobs, name)[places]
        columns[name] = column.astype(np.int64) if name in WHOLE_NUMBERS else column
    submit, eligible = columns["submit"], columns["eligible"]
    within = (submit <= eligible) & (eligible <= columns["start"])
    columns["eligible"] = np.where(within, eligible, submit)
    columns |= request_columns(_requests(jobs, places), slice(None))
    return pl.DataFrame(columns, schema={**COLUMNS, **REQUESTS})


def _requests(jobs: PublishedJobs, places: IntArray) -> ResourceRequests:
    asked = ResourceRequests.of_totals(jobs.total[places], nodes=whole_numbers(jobs.nodes[places]))
    asked = replace(
        asked, cpus_per_task=jobs.cpus_per_task[places], exclusive=jobs.exclusive[places]
    )
    if jobs.constraint is None:
        return asked
    constraint = jobs.constraint.gather(places)
    constraints = sorted({"", *constraint.unique().to_list()})
    index = constraint.replace_strict(constraints, range(len(constraints)), return_dtype=pl.Int64)
    return replace(asked, constraint=index.to_numpy().copy(), constraints=tuple(constraints))


def whole_numbers(column: FloatArray, least: int = 0) -> IntArray:
    """A column as whole numbers from `least` to MOST, `least` where there is none."""
    return np.clip(np.nan_to_num(column), least, MOST).astype(np.int64)


def first_positive(*columns: FloatArray) -> FloatArray:
    """The first of several columns that is above 0, for each record; NaN where none is."""
    found = np.full(len(columns[0]), np.nan)
    for column in reversed(columns):
        found = np.where(column > 0, column, found)
    return found
