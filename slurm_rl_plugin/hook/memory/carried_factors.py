"""Which jobs carry a factor of the daemon, and its value; kept across restarts.

No other part of the hook knows this. The list of jobs is never too short: the state file is written
before a factor is, and a job leaves it late.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE
from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem, FactorChange
from slurm_rl_plugin.domain import PendingJobs, QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemUnavailable, SlurmRLError
from slurm_rl_plugin.hook.disturbances import FACTOR, STATE, Disturbances
from slurm_rl_plugin.hook.memory.records import JsonRecord
from slurm_rl_plugin.units import BoolArray
from slurm_rl_plugin.whole_file import version_of

logger = logging.getLogger(__name__)
#: Subjobs of OpenPBS have numbers of their own above its 999999999999, up to what 64 bits hold.
_LARGEST = 2**63 - 1
#: Seconds in which slurmctld may still do a write that got no answer: the command has sent the
#: write, and a slurmctld that wakes up does pending writes in any order.
SETTLED = 2.0
#: Jobs that are restored between two writes of the state file, where a cut release goes on.
RELEASED_AT_ONCE = 2000
#: Seconds for which a job that is neither pending nor running is remembered: while it completes
#: or is suspended it can still be requeued, and comes back with what it had.
REMEMBERED_AFTER_END = 600.0


@dataclass(frozen=True, slots=True)
class StateFile:
    """The file of the jobs that may carry a factor; written before a factor is.

    Attributes:
        path: of the file.
        way_out: what is needed to take the factors back without the configuration; None keeps what
            the file holds.
    """

    path: Path
    way_out: Mapping[str, Any] | None = None

    @property
    def _record(self) -> JsonRecord:
        return JsonRecord(self.path, "state", versions=(1, 2))  # version 1 holds no way out

    def read(self) -> set[int] | None:
        """The job ids; an empty set without a file, None where the file cannot be trusted."""
        try:
            return self._record.read(lambda found: {_job_id(job) for job in found["jobs"]})
        except FileNotFoundError:
            return set()

    def left_behind(self) -> Mapping[str, Any]:
        """The way out as the file holds it; {} where it holds none."""
        found = self._entry("way_out")
        return found if isinstance(found, dict) else {}

    def is_unanswered(self) -> bool:
        """Whether a write got no answer, so that the batch system may still do it."""
        return self._entry("unanswered") is True

    def write(self, jobs: Iterable[int], *, unanswered: bool = False) -> None:
        """Replace the file.

        Raises:
            ConfigurationError: the folder is missing or not writable.
        """
        way_out = self.left_behind() if self.way_out is None else self.way_out
        content = {"way_out": way_out, "jobs": sorted(jobs)}
        self._record.write(content | {"unanswered": True} if unanswered else content)

    def _entry(self, name: str) -> object:
        """None where the file has none, or cannot be trusted."""
        try:
            return self._record.document().get(name)
        except UNREADABLE:
            return None


def _job_id(found: object) -> int:
    number = int(str(found))
    if not 1 <= number <= _LARGEST:
        raise ValueError(f"{number} is no job's number")
    return number


@dataclass(slots=True)
class CarriedFactors:
    """The jobs that may carry a factor of the daemon, and the factor that each showed last.

    Attributes:
        state: the file that keeps them; the daemon beside another controller may write it too.
        disturbances: take a file that cannot be trusted, or a factor that the daemon did not write.
        sleep: waits some seconds.
    """

    state: StateFile
    disturbances: Disturbances = field(default_factory=Disturbances)
    sleep: Callable[[float], None] = time.sleep
    _jobs: set[int] | None = None
    #: The file is lost: any job of the queue may carry a factor.
    _is_lost: bool = False
    _version: tuple[int, int] | None = None
    #: Since when remembered jobs are neither pending nor running.
    _absent: dict[int, float] = field(default_factory=dict)
    #: The file holds our way out.
    _has_told: bool = False
    #: A write got no answer, and none since has got one.
    _is_unanswered: bool = False
    _told_unanswered: bool = False
    #: Factors that we wrote or saw last.
    _values: dict[int, int] = field(default_factory=dict)

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

    def compare(self, snapshot: QueueSnapshot) -> None:
        """Report factors that differ from what the daemon wrote or saw last."""
        pending = snapshot.pending
        visible = np.flatnonzero(_shows_factor(pending, snapshot.now))
        jobs, factors = pending.jobs.job_id[visible].tolist(), pending.factor[visible].tolist()
        seen = dict(zip(jobs, factors, strict=True))
        changed = [job for job, factor in seen.items() if self._values.get(job, factor) != factor]
        if changed:
            first = changed[0]
            self.disturbances.tell(
                FACTOR,
                f"jobs={len(changed)} first={first} was={self._values[first]} is={seen[first]}: "
                "writes were lost, or another program writes",
            )
        self._values = seen

    def forget_values(self) -> None:
        """Expect no values any more: another daemon writes the factors, or they are restored."""
        self._values.clear()

    def write(
        self,
        snapshot: QueueSnapshot,
        changes: Sequence[FactorChange],
        send: Callable[[], ApplyReport],
    ) -> ApplyReport:
        """Remember the jobs that are about to be written, then write them.

        Raises:
            BatchSystemUnavailable: no answer in time: they may still be done, also after a write
                that takes them back.
            ConfigurationError: the state file cannot be written; nothing was sent.
        """
        self.before_writing(snapshot, (change.job_id for change in changes))
        if not changes:
            return ApplyReport()
        for change in changes:  # until it is known which writes were accepted
            self._values.pop(change.job_id, None)
        try:
            report = send()
        except BatchSystemUnavailable:
            self._answered(False)
            raise
        self._answered(True)
        accepted = (change for change in changes if change.job_id in report.accepted)
        self._values |= {change.job_id: change.new for change in accepted}
        return report

    def before_writing(self, snapshot: QueueSnapshot, job_ids: Iterable[int]) -> None:
        """Remember the jobs about to be written, and forget those that are gone for good.

        Called before the write: a crash in between may only remember too many.
        """
        pending = snapshot.pending
        alive = {*pending.jobs.job_id.tolist(), *snapshot.running.numbers}
        carrying = set(pending.jobs.job_id[pending.factor != 0].tolist())
        self._remember(carrying | self._not_yet_gone(alive, snapshot.now) | set(job_ids))

    def restore(self, system: BatchSystem) -> ApplyReport:
        """Set every factor of ours back to 0, twice if an earlier write got no answer.

        Running jobs are included: a requeued one comes back with the factor that it had.
        """
        self.forget_values()  # before: a release may be cut short
        ours = np.array(sorted(self._known() or ()), dtype=np.int64)
        result = self._release(system)
        if self._is_unanswered:
            self.sleep(SETTLED)
            result |= system.release(ours if len(ours) else None)
            self._is_unanswered = False
            self._forget_all_but(set(result.later))
        return result

    def _answered(self, answered: bool) -> None:
        if self._is_unanswered == answered:
            self._is_unanswered = not answered
            self._forget_all_but(self._jobs or set())

    def _release(self, batch_system: BatchSystem) -> ApplyReport:
        jobs = self._known()
        result = ApplyReport()
        if jobs is None:  # any factor may be ours, and a running job shows none
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
        """The jobs; None where the file is lost. The process keeps what it knows itself."""
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
        """The jobs, without those that ended so long ago that Slurm requeues them no more."""
        known = self._known()
        jobs = (self._jobs or set()) | alive if known is None else known
        self._absent = {job: self._absent.get(job, now) for job in jobs - alive}
        return {job for job in jobs if now - self._absent.get(job, now) <= REMEMBERED_AFTER_END}


def _shows_factor(pending: PendingJobs, now: float) -> BoolArray:
    """Which jobs show the factor that the batch system has, shape [n].

    A priority set by hand hides the factor. Slurm shows none of held jobs and of jobs that are not
    eligible yet, such as requeued ones, which come back with the factor that they had. If the
    components of a job have several priorities, the one that is shown may change.
    """
    shows = ~pending.admin_set & ~pending.held & (pending.jobs.eligible <= now)
    return shows if pending.spread is None else shows & (pending.spread == 0)
