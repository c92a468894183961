"""Which jobs carry a factor of ours: remembered across restarts, forgotten late, never too few."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import SlurmRLError
from slurm_rl_plugin.hook.disturbances import STATE, Disturbances
from slurm_rl_plugin.hook.memory.state_file import StateFile
from slurm_rl_plugin.whole_file import version_of

logger = logging.getLogger(__name__)

#: Seconds in which the batch system does what nobody waits for any more: a command that was ended
#: without an answer has sent its writes, and a slurmctld that wakes up does them in any order.
SETTLED = 2.0
#: After so many the state file is written: a release that is cut short goes on there.
RELEASED_AT_ONCE = 2000
#: Seconds for which a job that is neither pending nor running is remembered: while it completes
#: or is suspended it can still be requeued, and comes back with what it had.
REMEMBERED_AFTER_END = 600.0


@dataclass(slots=True)
class CarriedFactors:
    """The jobs that may carry a factor of ours.

    Attributes:
        state: the file that keeps them; the daemon beside another controller may write it too.
        disturbances: told where the file cannot be trusted.
        sleep: waits some seconds.
    """

    state: StateFile
    disturbances: Disturbances = field(default_factory=Disturbances)
    sleep: Callable[[float], None] = time.sleep
    _jobs: set[int] | None = None
    #: The file is lost: whatever is in the queue may carry a factor of ours.
    _is_lost: bool = False
    _version: tuple[int, int] | None = None
    #: Since when remembered jobs are neither pending nor running.
    _absent: dict[int, float] = field(default_factory=dict)
    #: The file holds our way out.
    _has_told: bool = False
    #: A write got no answer, and none since has got one.
    _is_unanswered: bool = False
    _told_unanswered: bool = False

    name = "factors"

    @property
    def path(self) -> Path:
        """The state file."""
        return self.state.path

    @property
    def words(self) -> str:
        """How many jobs may carry a factor; see `Outstanding`."""
        jobs = self._known()
        if jobs is None:
            return f"any job may carry a factor of ours, since {self.path} cannot be trusted"
        if not jobs and self._is_unanswered:
            return "a write of factors got no answer and may still take effect"
        return f"{len(jobs)} jobs are remembered to carry a factor of ours"

    def is_outstanding(self) -> bool:
        """Whether a job may carry a factor of ours; see `Outstanding`."""
        jobs = self._known()
        return jobs is None or bool(jobs) or self._is_unanswered

    def before_writing(self, snapshot: QueueSnapshot, job_ids: Iterable[int]) -> None:
        """Remember the jobs about to be written, and forget those that are gone for good.

        Called before the write: a crash in between may only remember too many.

        Raises:
            ConfigurationError: the state file cannot be written; then nothing may be.
        """
        pending = snapshot.pending
        alive = {*pending.jobs.job_id.tolist(), *snapshot.running.numbers}
        carrying = set(pending.jobs.job_id[pending.factor != 0].tolist())
        self._remember(carrying | self._not_yet_gone(alive, snapshot.now) | set(job_ids))

    def without_answer(self) -> None:
        """A write got no answer: it may still be done, also after one that takes it back."""
        if not self._is_unanswered:
            self._is_unanswered = True
            self._forget_all_but(self._jobs or set())

    def answered(self) -> None:
        """The batch system has done what came last."""
        if self._is_unanswered:
            self._is_unanswered = False
            self._forget_all_but(self._jobs or set())

    def restore(self, system: BatchSystem) -> ApplyReport:
        """Set every factor of ours back to 0, twice if an earlier write got no answer.

        Running jobs are included: a requeued one comes back with the factor that it had.
        """
        ours = np.array(sorted(self._known() or ()), dtype=np.int64)
        result = self._release(system)
        if self._is_unanswered:
            self.sleep(SETTLED)
            result |= system.release(ours if len(ours) else None)
            self._is_unanswered = False
            self._forget_all_but(set(result.later))
        return result

    def _release(self, batch_system: BatchSystem) -> ApplyReport:
        jobs = self._known()
        result = ApplyReport()
        if jobs is None:  # whatever carries a factor may be ours; of a job that runs it is not seen
            result = batch_system.release(None)
            jobs = (self._jobs or set()) | batch_system.snapshot().running.numbers
        waiting = sorted(jobs)
        if not waiting:
            self._forget_all_but(set(result.later))
        while waiting:
            now, waiting = waiting[:RELEASED_AT_ONCE], waiting[RELEASED_AT_ONCE:]
            result |= batch_system.release(np.array(now, dtype=np.int64))
            self._forget_all_but({*result.later, *waiting})
        return result

    def _forget_all_but(self, jobs: set[int]) -> None:
        try:
            self._remember(jobs)
        except SlurmRLError as error:  # the factors are gone, which is what counts
            logger.error("state=unwritable reason=%s", error)
            self._jobs, self._is_lost = jobs, False

    def _known(self) -> set[int] | None:
        """The jobs; None where the file is lost, what this process knows itself is kept then."""
        version = version_of(self.state.path)
        if self._jobs is None or (version is not None and version != self._version):
            found, self._version = self.state.read(), version
            self._is_lost = found is None
            self._is_unanswered |= self.state.is_unanswered()
            if found is None:
                words = f"path={self.state.path}: every job in the queue may carry a factor of ours"
                self.disturbances.tell(STATE, words)
                found = self._jobs or set()
            self._jobs = found
        return None if self._is_lost else self._jobs

    def _remember(self, jobs: set[int]) -> None:
        tells = self.state.way_out is not None and not self._has_told
        told = self._told_unanswered == self._is_unanswered
        if jobs != self._jobs or self._is_lost or tells or not told:
            self.state.write(jobs, unanswered=self._is_unanswered)
            self._has_told, self._told_unanswered = True, self._is_unanswered
            self._version, self._is_lost = version_of(self.state.path), False
        self._jobs = jobs

    def _not_yet_gone(self, alive: set[int], now: float) -> set[int]:
        """Ours, except those away for so long that they will not be requeued any more."""
        known = self._known()
        jobs = (self._jobs or set()) | alive if known is None else known
        self._absent = {job: self._absent.get(job, now) for job in jobs - alive}
        return {job for job in jobs if now - self._absent.get(job, now) <= REMEMBERED_AFTER_END}
