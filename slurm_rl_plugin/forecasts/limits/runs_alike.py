"""What had been seen of a job's like when it was submitted: how many runs, how long they were."""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.units import FloatArray, IntArray


class RunsAlike(NamedTuple):
    """Of each job the ended runs of its user with the same processors and limit; shape [n].

    Attributes:
        template: number of its user with these processors and this limit.
        seen: how many.
        middle: their median, seconds; nan for none.
        longest: seconds; nan for none.
    """

    template: IntArray
    seen: IntArray
    middle: FloatArray
    longest: FloatArray


class Template(NamedTuple):
    """Jobs of one user that ask for the same."""

    user: int
    processors: int
    limit: float


def limits_of(log: JobLog) -> FloatArray:
    """Requested seconds, nan for none, shape [n]."""
    return np.where(np.isfinite(log.time_limit) & (log.time_limit > 0), log.time_limit, np.nan)


def runs_alike(log: JobLog) -> tuple[RunsAlike, dict[Template, list[float]]]:
    """What was known of each job's like at its submission, and the runs of each template at last.

    Args:
        log: with recorded starts; a job without one is taken to have started at once.

    Returns:
        Columns of shape [n]; template -> run times in ascending order, seconds.
    """
    templates = [
        Template(*each)
        for each in zip(
            log.user.tolist(), log.processors.tolist(), limits_of(log).tolist(), strict=True
        )
    ]
    end = np.where(np.isfinite(log.start), log.start, log.submit) + log.run_time
    ended = np.argsort(end, kind="stable").tolist()
    known: dict[Template, list[float]] = {}
    seen = np.zeros(len(log), dtype=np.int64)
    middle, longest = np.full(len(log), np.nan), np.full(len(log), np.nan)
    place, run_time = 0, log.run_time.tolist()
    for job, submit in enumerate(log.submit.tolist()):
        while place < len(ended) and end[ended[place]] <= submit:
            insort(known.setdefault(templates[ended[place]], []), run_time[ended[place]])
            place += 1
        runs = known.get(templates[job])
        if runs:
            seen[job], middle[job], longest[job] = len(runs), runs[len(runs) // 2], runs[-1]
    for job in ended[place:]:
        insort(known.setdefault(templates[job], []), run_time[job])
    numbers = {each: number for number, each in enumerate(dict.fromkeys(templates))}
    template = np.array([numbers[each] for each in templates], dtype=np.int64)
    return RunsAlike(template=template, seen=seen, middle=middle, longest=longest), known
