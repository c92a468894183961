"""The lever port: which number of a job Slurm heeds, how it is read and how it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from slurm_rl_plugin.batch_systems.port import ApplyReport, LeverTraits
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.priorities import PriorityTerms
from slurm_rl_plugin.batch_systems.slurm.levers.writes import Change


class Lever(Protocol):
    """Puts our factor into the priority of a job, and knows it again."""

    @property
    def name(self) -> str:
        """Slurm's own word for it."""
        ...

    @property
    def traits(self) -> LeverTraits:
        """What it costs and can do."""
        ...

    @property
    def carries(self) -> bool:
        """Whether some job is known to have a value of ours."""
        ...

    def look(self) -> None:
        """Read what the rows of the queue do not show; after they were read.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        ...

    def terms(self, waiting: Sequence[QueueRow], tiers: Mapping[str, int]) -> list[PriorityTerms]:
        """Our factor and the rest of the priority, for one row of each job or array.

        Args:
            waiting: the rows.
            tiers: partition -> its PriorityTier.
        """
        ...

    def carrying(self, rows: Sequence[QueueRow]) -> list[int]:
        """Numbers of the jobs and arrays that have a factor of ours, or may have one."""
        ...

    def write(self, changes: Sequence[Change]) -> ApplyReport:
        """Set factors; raises as `FactorWriter.write` does."""
        ...

    def give_back(self, job_ids: Sequence[int] = ()) -> ApplyReport:
        """Take our values from these jobs and from all known to have one, unread.

        For a lever that Slurm heeds no longer, whose values would count again once it does.
        """
        ...
