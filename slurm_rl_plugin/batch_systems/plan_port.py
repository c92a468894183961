"""The port for plan estimates: times that a scheduler plans with, beside limits that kill.

Slurm has TimeMin under `time_min_as_soft_limit`, OpenPBS has soft_walltime. No adapter ever
changes a time limit (docs/plan-estimates.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from slurm_rl_plugin.batch_systems.port import ApplyReport, Check


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEstimate:
    """What stands on one job, and whether it may be given an estimate now.

    Attributes:
        seconds: of the estimate that stands, ours or another's; 0 for none.
        obstacle: why this job must not have one now, one sentence; None where it may.
    """

    seconds: int
    obstacle: str | None = None


@runtime_checkable
class PlansByEstimates(Protocol):
    """A batch system whose scheduler can plan a job by another time than its limit."""

    def estimates_refused(self) -> str | None:
        """Why no job of this cluster may have an estimate now, one sentence; None where they may.

        Asked before every write, since a site may change its scheduler at any time: where it says
        why, what stands of ours is taken back.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        ...

    def estimates(self) -> Mapping[int, JobEstimate]:
        """Every pending job by its number, and every running one that has an estimate.

        A running job's obstacle is None where its estimate can be taken away. Raises as
        `estimates_refused` does.
        """
        ...

    def write_estimates(self, seconds: Mapping[int, int]) -> ApplyReport:
        """Set the estimates of jobs, whole seconds, and take away those of 0; read back.

        No time limit changes. An adapter rounds up to what its batch system can hold, and refuses
        what would be below a minute or not below the job's limit.

        Raises:
            BatchSystemUnavailable: no answer in time; some may have been written.
            ChangeRejected: the right to set them is missing altogether.
        """
        ...


@runtime_checkable
class ChecksEstimates(Protocol):
    """A batch system that can tell whether plan estimates would work."""

    def estimate_checks(self, *, writes: bool) -> Iterator[Check]:
        """Every check.

        Args:
            writes: the right may be tried by a write that changes nothing.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        ...
