"""The simple orders that every learned policy must beat, each one line.

A rule gives a score from what is known of a job; higher starts earlier. Rules whose order never
changes while jobs wait are static: the simulator ranks a whole log once. Elementwise, plain numpy
style. `estimate` is the estimated run time in seconds. A job's `size` is in processors: those that
it asks for, or more where it asks for a larger part of another resource of the machine.
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
    # Carastan-Santos and de Camargo 2017; submit times count from the start of the log, which
    # whoever orders one sees to: of seconds since 1970 the logarithm never changes
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
#: Static orders by run times predicted from the user's last runs at submission, which a log tells:
#: (size, predicted seconds, mean of 1 / max(run time, 10 s)) -> scores.
PREDICTED_RULES: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "sjf-predicted": lambda _size, predicted, _rate: -predicted,
    "saf-predicted": lambda size, predicted, _rate: -predicted * size,
    # weighted shortest processing time (Smith 1956): a job weighs what a second costs in slowdown
    "wspt-predicted": lambda size, predicted, rate: rate / (predicted * size),
}
