"""The simple orders that every learned policy must beat, one line each.

A rule scores a job by its known properties; a higher score starts earlier. The order of a static
rule never changes while jobs wait, so the simulator ranks a whole log once. Rules are elementwise.
`estimate` is the estimated run time in seconds. A job's `size` is its requested processors, or more
if it requests a larger part of another resource of the machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.domain.utility_class import SIGMA
from slurm_rl_plugin.units import FloatArray

Rule = Callable[[JobTable, FloatArray], FloatArray]

#: More seconds than any log spans: puts one class wholly before the other.
_CLASS_STEP = 1e10


def _f1(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    # Carastan-Santos and de Camargo 2017; the caller counts submit times from the start of the
    # log, since the logarithm of seconds since 1970 never changes
    submit = np.maximum(jobs.submit, 1.0)
    return -(np.log10(estimate) * jobs.size + 870.0 * np.log10(submit))


#: Orders that never change while jobs wait; ties are broken by submit time, then by job id.
STATIC_RULES: dict[str, Rule] = {
    "fifo": lambda jobs, _: -jobs.submit,
    "sjf": lambda _, estimate: -estimate,
    "saf": lambda jobs, estimate: -estimate * jobs.size,
    "least-share": lambda jobs, _: -jobs.size,
    "f1": _f1,
    "edf": lambda jobs, estimate: -(jobs.submit + estimate + SIGMA),
    "interactive-first": lambda jobs, _: jobs.interactive * _CLASS_STEP - jobs.submit,
    # run + wait = estimate + now - submit, and `now` is the same for all jobs of a queue
    "min-run-wait": lambda jobs, estimate: jobs.submit - estimate,
}
#: Static orders by run times predicted from the user's last runs in the log at submission:
#: (size, predicted seconds, mean of 1 / max(run time, 10 s)) -> scores.
PREDICTED_RULES: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "sjf-predicted": lambda _size, predicted, _rate: -predicted,
    "saf-predicted": lambda size, predicted, _rate: -predicted * size,
    # weighted shortest processing time (Smith 1956): a job weighs what a second costs in slowdown
    "wspt-predicted": lambda size, predicted, rate: rate / (predicted * size),
}
