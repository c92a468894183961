"""The lever port: which number of a job counts in its priority, how it is read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from slurm_rl_plugin.batch_systems.port import ApplyReport, LeverTraits
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.priorities import PriorityTerms
from slurm_rl_plugin.batch_systems.slurm.levers.writes import ValueWrite


class Lever(Protocol):
    """A number of a job by which our factor gets into its priority, and can be told from others."""

    @property
    def name(self) -> str:
        """Slurm's own word for the number: SiteFactor or Nice."""
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

    def write(self, changes: Sequence[ValueWrite]) -> ApplyReport:
        """Set factors; raises as `FactorWriter.write` does."""
        ...

    def give_back(self, job_ids: Sequence[int] = ()) -> ApplyReport:
        """Take our values from these jobs and from all known to have one, the queue unread.

        For a number that has no effect under the site's PriorityType, and would have one once that
        changes.
        """
        ...
