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


def _fifo(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    del estimate
    return -jobs.submit


def _sjf(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    del jobs
    return -estimate


def _saf(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    return -estimate * jobs.size


def _f1(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    # Carastan-Santos and de Camargo 2017; submit times count from the start of the log, which
    # whoever orders one sees to: of seconds since 1970 the logarithm never changes
    submit = np.maximum(jobs.submit, 1.0)
    return -(np.log10(estimate) * jobs.size + 870.0 * np.log10(submit))


def _least_share(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    del estimate
    return -jobs.size


def _edf(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    return -(jobs.submit + estimate + SIGMA)


def _interactive_first(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    del estimate
    return np.asarray(jobs.interactive * _CLASS_STEP - jobs.submit, dtype=np.float64)


def _min_run_wait(jobs: JobTable, estimate: FloatArray) -> FloatArray:
    # run + wait = estimate + now - submit, and `now` is the same for all jobs of a queue
    return jobs.submit - estimate


#: Orders that never change while jobs wait; ties are broken by submit time, then by job id.
STATIC_RULES: dict[str, Rule] = {
    "fifo": _fifo,
    "sjf": _sjf,
    "saf": _saf,
    "least-share": _least_share,
    "f1": _f1,
    "edf": _edf,
    "interactive-first": _interactive_first,
    "min-run-wait": _min_run_wait,
}


def _sjf_predicted(size: FloatArray, predicted: FloatArray, rate: FloatArray) -> FloatArray:
    del size, rate
    return -predicted


def _saf_predicted(size: FloatArray, predicted: FloatArray, rate: FloatArray) -> FloatArray:
    del rate
    return -predicted * size


def _wspt_predicted(size: FloatArray, predicted: FloatArray, rate: FloatArray) -> FloatArray:
    # weighted shortest processing time (Smith 1956): a job weighs what a second costs in slowdown
    return rate / (predicted * size)


#: Static orders by run times predicted from the user's last runs at submission, which a log tells:
#: (size, predicted seconds, mean of 1 / max(run time, 10 s)) -> scores.
PREDICTED_RULES: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "sjf-predicted": _sjf_predicted,
    "saf-predicted": _saf_predicted,
    "wspt-predicted": _wspt_predicted,
}
