"""The lever port: which number of a job Slurm heeds, how it is read and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slurm_rl_plugin.batch_systems.port import ApplyReport
from slurm_rl_plugin.batch_systems.slurm_fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm_priorities import PriorityTerms
from slurm_rl_plugin.batch_systems.slurm_writes import Change


class Lever(Protocol):
    """Puts our factor into the priority of a job, and knows it again."""

    @property
    def name(self) -> str:
        """Slurm's own word for it."""
        ...

    def look(self) -> None:
        """Read what the rows of the queue do not show; after they were read.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        ...

    def terms(self, waiting: Sequence[QueueRow]) -> list[PriorityTerms]:
        """Our factor and the rest of the priority, for one row of each job or array."""
        ...

    def carrying(self, rows: Sequence[QueueRow]) -> list[int]:
        """Numbers of the jobs and arrays that have a factor of ours, or may have one."""
        ...

    def write(self, changes: Sequence[Change]) -> ApplyReport:
        """Set factors; raises as `FactorWriter.write` does."""
        ...
