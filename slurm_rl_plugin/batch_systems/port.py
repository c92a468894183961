"""The batch-system port: read one snapshot, apply changes of priority, take them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.units import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorChange:
    """Set our additive term in the priority of one pending job (array, for a job array).

    Attributes:
        job_id: as in `JobTable.job_id`.
        old: the factor that the snapshot reported.
        new: the factor to write, in the batch system's priority points.
    """

    job_id: int
    old: int
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReport:
    """What became of the changes sent in one call.

    Attributes:
        applied: number of changes that the batch system accepted.
        rejected: job id -> the batch system's own words. A job that started or ended in the
            meantime is normal racing and shows here too.
    """

    applied: int
    rejected: dict[int, str]


class BatchSystem(Protocol):
    """A queue that can be read and reordered. Every call ends within the adapter's time-out."""

    @property
    def name(self) -> str:
        """What reports and metrics call the adapter, `slurm_commands` for example."""
        ...

    def snapshot(self) -> QueueSnapshot:
        """Read the queue, our current factors, shares and usage.

        Raises:
            BatchSystemUnavailable: no answer in time; nothing was changed.
            BatchSystemError: an answer that cannot be understood.
        """
        ...

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write factors; single refusals are reported, not raised.

        Raises:
            BatchSystemUnavailable: no answer in time; some changes may have been written.
            ChangeRejected: the right to change priorities is missing altogether.
        """
        ...

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Set our factor back to 0: for the jobs named, or for every pending job that has one.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
        """
        ...
