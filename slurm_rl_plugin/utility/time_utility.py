"""Time utility of a job (Perez et al. 2008, eq. 1-3), of a site's own classes, and slowdown.

Elementwise in every argument, so that the same lines serve one job inside the compiled simulator
and a column of jobs in a report or on the head node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.utility_class import (
    ALPHA_ROW,
    BATCH,
    BETA_ROW,
    BUILT_IN,
    INTERACTIVE,
    RUN_ROW,
    SEGMENT,
    SEGMENTS,
    SIGMA_ROW,
    UtilityClass,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_BATCH, _INTERACTIVE = BUILT_IN[BATCH].row, BUILT_IN[INTERACTIVE].row


def choose(condition: Any, one: Any, other: Any) -> Any:
    """np.where for finite numbers; compiled, np.where makes an array on the heap each time."""
    return condition * one + (1.0 - condition) * other


def paper_row(interactive: Any) -> Any:
    """The built-in row of a job's class: True for exponential decay, False for the power law."""
    return (
        choose(interactive, _INTERACTIVE[ALPHA_ROW], _BATCH[ALPHA_ROW]),
        choose(interactive, _INTERACTIVE[BETA_ROW], _BATCH[BETA_ROW]),
        choose(interactive, _INTERACTIVE[SIGMA_ROW], _BATCH[SIGMA_ROW]),
        choose(interactive, _INTERACTIVE[RUN_ROW], _BATCH[RUN_ROW]),
    )


def time_utility(turnaround: Any, run_time: Any, row: Any) -> Any:
    """Utility in [0, 1] of completing `turnaround` seconds after submission (2008, eq. 1-3).

    The row is of the job's class (`UtilityClass.row`), or a column in each of its places.
    """
    deadline = row[RUN_ROW] * run_time + row[SIGMA_ROW]
    late = np.maximum(turnaround - deadline, 0.0)
    stretch = np.maximum(turnaround / deadline, 1.0)
    lost = 0.0
    for at in range(SEGMENTS, len(row), SEGMENT):
        passed = np.minimum(np.maximum(late - row[at], 0.0) / row[at + 1], 1.0)
        lost = lost + row[at + 2] * passed
    decay = np.exp(-(row[ALPHA_ROW] * late + row[BETA_ROW] * np.log(stretch)))
    return decay * np.maximum(1.0 - lost, 0.0)


def time_utility_loss_rate(
    turnaround: Any,
    run_time: Any,
    row: Any,
    utility: Any,
) -> Any:
    """Utility lost per second by waiting on (minus the time derivative of eq. 2 and 3).

    Inside the start-up allowance, where eq. 1 is flat, the rate at the deadline is given, so that a
    fresh job is not worthless to start. Segments of a row do not count; `utility` is `time_utility`
    of the same arguments.
    """
    reached = np.maximum(turnaround, row[RUN_ROW] * run_time + row[SIGMA_ROW])
    return utility * (row[ALPHA_ROW] + row[BETA_ROW] / reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUtilities:
    """The classes of n jobs, some of them configured by the site."""

    names: tuple[str, ...]  #: of all classes
    table: FloatArray  #: a row for each class, shape [classes, places]
    of_job: IntArray  #: number of each job's class, shape [n]
    allowed: FloatArray | None = None  #: seconds until each job's own deadline, NaN for none

    @classmethod
    def of(
        cls,
        classes: Mapping[str, UtilityClass],
        of_job: IntArray,
        allowed: FloatArray | None = None,
    ) -> JobUtilities:
        """Classes by name, the number of each job's class in their order, and own deadlines."""
        rows = [each.row for each in classes.values()]
        nothing = (0.0, 1.0, 0.0)  # a segment in which no utility is lost
        widest = max(map(len, rows))
        filled = [row + nothing * ((widest - len(row)) // SEGMENT) for row in rows]
        return cls(names=tuple(classes), table=np.array(filled), of_job=of_job, allowed=allowed)

    def select(self, index: IntArray | BoolArray) -> JobUtilities:
        """The same of the chosen jobs."""
        allowed = None if self.allowed is None else self.allowed[index]
        return replace(self, of_job=self.of_job[index], allowed=allowed)


def job_rows(interactive: BoolArray, own: JobUtilities | None) -> FloatArray:
    """The row of each job, shape [n, places]: of the site's own classes, or else of the paper's."""
    if own is None:
        return np.column_stack(paper_row(interactive))
    rows = own.table[own.of_job]
    if own.allowed is not None:  # the classes of these jobs have hours, so no run time counts
        rows[:, SIGMA_ROW] = np.where(np.isnan(own.allowed), rows[:, SIGMA_ROW], own.allowed)
    return rows


def responsiveness(wait: Any, run_time: Any) -> Any:
    """Run time over turnaround, in (0, 1] (Perez et al. 2011); run times below 1 s count as 1 s."""
    counted = np.maximum(run_time, 1.0)
    return counted / (counted + wait)


def relative_overhead(wait: Any, run_time: Any) -> Any:
    """Wait over run time (2008, Fig. 3); run times below 1 s count as 1 s."""
    return wait / np.maximum(run_time, 1.0)


def bounded_slowdown(wait: Any, run_time: Any, bound: float = 10.0) -> Any:
    """max(1, (wait + run) / max(run, bound)), with `bound` in seconds."""
    return np.maximum((wait + run_time) / np.maximum(run_time, bound), 1.0)
