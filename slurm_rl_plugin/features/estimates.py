"""Run-time estimates: what a policy believes a job will run; part of the feature schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import HOUR, BoolArray, FloatArray

#: What `--estimates` accepts.
ESTIMATE_KINDS = ("oracle", "requested", "class-median")
#: Where neither a time limit nor a class median is known.
UNKNOWN_RUN_TIME = 1 * HOUR


class RunTimeEstimate(Protocol):
    """Estimates run times from what is known before a job runs."""

    @property
    def kind(self) -> str:
        """What it estimates by: one of ESTIMATE_KINDS."""
        ...

    def estimate(self, time_limit: FloatArray, interactive: BoolArray) -> FloatArray:
        """Seconds for each job, shape [n]; finite and > 0.

        Time limits are in seconds, NaN where none is known; `interactive` is the job class.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedLimit:
    """The requested time limit; UNKNOWN_RUN_TIME where a job asked for none."""

    kind: str = "requested"

    def estimate(self, time_limit: FloatArray, interactive: BoolArray) -> FloatArray:
        """The limit of each job, seconds, shape [n]."""
        del interactive
        known = np.isfinite(time_limit) & (time_limit > 0)
        return np.where(known, time_limit, UNKNOWN_RUN_TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMedian:
    """The papers' EST: the median run time of the job's class in a training log, seconds."""

    interactive_median: float
    batch_median: float
    kind: str = "class-median"

    def estimate(self, time_limit: FloatArray, interactive: BoolArray) -> FloatArray:
        """The median of each job's class, seconds, shape [n]."""
        del time_limit
        return np.where(interactive, self.interactive_median, self.batch_median)

    @property
    def entries(self) -> dict[str, str]:
        """Metadata of a model that was trained with these estimates."""
        medians = {"interactive": self.interactive_median, "batch": self.batch_median}
        return {"estimates": self.kind, "class_medians": json.dumps(medians)}

    @classmethod
    def of(cls, run_time: FloatArray, interactive: BoolArray) -> ClassMedian:
        """Medians of the jobs of a log; a class without jobs takes the median of all.

        Raises:
            ConfigurationError: the log has no job.
        """
        if len(run_time) == 0:
            raise ConfigurationError("class medians need a log with at least one job that ran.")
        medians = [
            float(np.median(run_time[mine] if mine.any() else run_time))
            for mine in (interactive, ~interactive)
        ]
        return cls(interactive_median=medians[0], batch_median=medians[1])
