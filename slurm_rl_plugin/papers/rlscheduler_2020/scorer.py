"""A score of queued jobs with weights to be found, for the scheduler of RLScheduler's benchmark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.papers.rlscheduler_2020.jobs import BenchmarkJobs
from slurm_rl_plugin.papers.rlscheduler_2020.protocol import STATE_TERMS, scored_starts
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.responsiveness import bounded_slowdown

#: What is known of a job from its submission on; each has its weight for each of STATE_TERMS.
#: The area is the sum of the second and the third.
JOB_TERMS = (
    "one",
    "log_requested",
    "log_processors",
    "log_requested * log_processors",
    "log_requested ** 2",
    "log_processors ** 2",
)
#: Requested seconds, about a day, whose logarithm counts as 1, whatever the trace.
_LONG_REQUEST = 1e5
#: Weights of a score. Two of them, of "one" with "one" and with "free_fraction", move all jobs of
#: a queue alike and so do nothing.
WEIGHTS = len(JOB_TERMS) * len(STATE_TERMS)


def job_terms(jobs: BenchmarkJobs, capacity: int) -> FloatArray:
    """JOB_TERMS of each job, of order 1, shape [n, len(JOB_TERMS)].

    Args:
        jobs: of which requested time (below 1 s taken as 1 s) and processors are looked at.
        capacity: processors, more than one.
    """
    requested = np.log(np.maximum(jobs.requested, 1.0)) / np.log(_LONG_REQUEST)
    processors = np.log(jobs.processors) / np.log(capacity)
    one = np.ones(len(requested))
    products = [requested * processors, requested**2, processors**2]
    return np.stack([one, requested, processors, *products], axis=1)


def sjf_weights() -> FloatArray:
    """Weights under which the shortest requested time starts first, shape [WEIGHTS]."""
    weights = np.zeros((len(JOB_TERMS), len(STATE_TERMS)))
    weights[JOB_TERMS.index("log_requested"), STATE_TERMS.index("one")] = 1.0
    return weights.ravel()


class Scored(NamedTuple):
    """What came of one vector of weights.

    Attributes:
        slowdown: bounded slowdown, mean over the jobs of a sequence, then over the sequences.
        decisions: how often a job was chosen.
    """

    slowdown: float
    decisions: int


@dataclass(frozen=True, slots=True)
class ScoredSequences:
    """Sequences of one trace on which weights are tried.

    Attributes:
        sequences: each on an empty machine of its own.
        capacity: processors, more than one.
        terms: JOB_TERMS of the jobs of each sequence.
    """

    sequences: tuple[BenchmarkJobs, ...]
    capacity: int
    terms: tuple[FloatArray, ...]

    @classmethod
    def of(cls, sequences: Iterable[BenchmarkJobs], capacity: int) -> ScoredSequences:
        """Find the terms of each sequence."""
        kept = tuple(sequences)
        return cls(kept, capacity, tuple(job_terms(each, capacity) for each in kept))

    def starts(self, place: int, weights: FloatArray) -> tuple[FloatArray, int]:
        """Starts in one sequence with the benchmark's backfilling, and how often a job was chosen.

        Args:
            place: of the sequence.
            weights: shape [WEIGHTS].
        """
        table = weights.reshape(len(JOB_TERMS), len(STATE_TERMS))
        return scored_starts(self.sequences[place], self.capacity, self.terms[place] @ table)

    def scored(self, weights: FloatArray) -> Scored:
        """Run all sequences under weights of shape [WEIGHTS]."""
        means, decisions = [], 0
        for place, sequence in enumerate(self.sequences):
            start, chosen = self.starts(place, weights)
            wait = start - sequence.submit
            means.append(float(bounded_slowdown(wait, sequence.run_time).mean()))
            decisions += chosen
        return Scored(float(np.mean(means)), decisions)
