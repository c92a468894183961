"""The files of the hook, and which jobs carry a factor of the daemon; kept across restarts.

No other part of the hook knows those jobs. The list is never too short: the daemon writes the state
file before a factor, and removes a job late.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem, FactorChange
from slurm_rl_plugin.domain import Memory, PendingJobs, QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemUnavailable, SlurmRLError
from slurm_rl_plugin.units import BoolArray, IntArray
from slurm_rl_plugin.whole_file import (
    PRIVATE,
    UNREADABLE,
    JsonRecord,
    beside,
    owner_of_folder,
    read_own,
    typed,
    version_of,
    write_whole,
)

logger = logging.getLogger(__name__)


ACCOUNTING, CLOCK, FACTOR, FOUND, STATE = DISTURBANCES = (
    "accounting_behind",
    "clock",
    "factor_changed",
    "found_factors",
    "state_file",
)
#: Seconds by which the clock of the day may leave the other clock between two cycles.
LEAST_STEP = 5.0
#: Looks in a row at a backlog of accounting that does not shrink, after which it counts.
BACKLOG_LOOKS = 3


@dataclass(slots=True)
class Disturbances:
    """Counts external faults until the next report takes them."""

    _counts: Counter[str] = field(default_factory=Counter)

    def report(self, reason: str, words: str) -> None:
        """Log and count one of DISTURBANCES; `words` are its details, `key=value` first."""
        logger.warning("disturbance=%s %s", reason, words)
        self._counts[reason] += 1

    def taken(self) -> Mapping[str, int]:
        """Reason -> how many since the last call."""
        taken, self._counts = dict(self._counts), Counter()
        return taken


@dataclass(slots=True)
class AccountingWatch:
    """Reports a backlog of messages to the accounting daemon, once until it is gone."""

    _before: int = 0
    _looks: int = 0

    def look(self, waiting: int, disturbances: Disturbances) -> None:
        """Take in how many wait now."""
        shrinks = waiting == 0 or waiting < self._before
        reported = self._looks >= BACKLOG_LOOKS
        if waiting == 0 and reported:
            logger.info("accounting=caught_up")
        if waiting == 0 or (shrinks and not reported):
            self._looks = 0
        else:
            self._looks += not shrinks
        self._before = waiting
        if not reported and self._looks >= BACKLOG_LOOKS:
            words = f"messages={waiting}: the accounting daemon accepts none; check whether it runs"
            disturbances.report(ACCOUNTING, words)


@dataclass(slots=True)
class ClockWatch:
    """Compares the clock of the day with a clock that is never set, and reports a step."""

    _ahead: float | None = None

    def look(self, now: float, monotonic: float, disturbances: Disturbances) -> None:
        """Take in both clocks, seconds."""
        ahead = now - monotonic
        step = 0.0 if self._ahead is None else ahead - self._ahead
        self._ahead = ahead
        if abs(step) > LEAST_STEP:
            disturbances.report(CLOCK, f"seconds={step:+.0f}: the clock was set, or the host slept")


#: First words of a memory's only line of text; the numbers follow it, 8 bytes each.
_KIND = "slurm-rl memory 1"
_NUMBERS = np.dtype("<f8")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile:
    """What one model remembers; a memory of another model, or a broken one, is no memory.

    One line of text, `slurm-rl memory 1 MODEL COUNT`, then the numbers, 100,000 and more. Losing
    the file costs some good decisions and never a job, so no fault here stops a cycle.
    """

    path: Path
    model_sha256: str  #: of the memory
    read_only: bool = False  #: `write` does nothing

    def read(self) -> Memory | None:
        """The memory; None if there is no memory of this model."""
        try:
            content = read_own(self.path, owners=owner_of_folder(self.path))
            head, _, numbers = content.partition(b"\n")
            kind, *named = head[:200].decode("ascii", errors="replace").rsplit(" ", 2)
            if kind != _KIND or len(named) != 2:
                raise ValueError("no memory of a policy")
            memory = np.frombuffer(numbers, dtype=_NUMBERS).astype(np.float64)
            if len(memory) != int(named[1]) or not np.isfinite(memory).all():
                raise ValueError("not the numbers that were written")
            return memory if named[0] == self.model_sha256 else None
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            logger.warning("memory=unreadable path=%s error=%s", self.path, error)
        return None

    def write(self, memory: Memory) -> None:
        """Replace the file; a cycle does not wait for the disk."""
        if self.read_only:
            return
        head = f"{_KIND} {self.model_sha256} {len(memory)}\n".encode()
        try:
            content = head + memory.astype(_NUMBERS).tobytes()
            write_whole(self.path, content, sync=False, mode=PRIVATE)
        except OSError as error:
            logger.warning("memory=unwritable path=%s error=%s", self.path, error)


def memory_path(state_path: Path, *, of_candidate: bool = False) -> Path:
    """The file of the configured model's memory, or of a candidate's."""
    return beside(state_path, "memory" + ".candidate" * of_candidate)


#: Seconds in which slurmctld may still execute a write that got no answer: the command has sent
#: it, and a slurmctld that resumes executes waiting writes in any order.
SETTLED = 2.0
#: Jobs restored between two writes of the state file, so that an interrupted release can resume.
RELEASED_AT_ONCE = 2000
#: Seconds for which a job that is neither pending nor running is remembered: while it completes
#: or is suspended it can still be requeued, and comes back with what it had.
REMEMBERED_AFTER_END = 600.0


@dataclass(frozen=True, slots=True)
class StateFile:
    """The file of the jobs that may carry a factor; written before a factor is."""

    path: Path
    #: What a rollback without the configuration needs; None keeps what the file holds.
    way_out: Mapping[str, Any] | None = None

    @property
    def _record(self) -> JsonRecord:
        return JsonRecord(self.path, "state", versions=(1, 2))  # version 1 has no `way_out`

    def read(self) -> set[int] | None:
        """The job ids; an empty set without a file, None where the file cannot be trusted."""
        try:
            return self._record.read(_jobs)
        except FileNotFoundError:
            return set()

    def left_behind(self) -> Mapping[str, Any]:
        """How to restore the factors, as the file holds it; {} if it holds nothing."""
        found = self._entry("way_out")
        return found if isinstance(found, dict) else {}

    def is_unanswered(self) -> bool:
        """Whether a write got no answer, so that the batch system may still do it."""
        return self._entry("unanswered") is True

    def write(self, jobs: Iterable[int], *, unanswered: bool = False) -> None:
        """Replace the file; ConfigurationError where the folder is missing or not writable."""
        way_out = self.left_behind() if self.way_out is None else self.way_out
        content = {"way_out": way_out, "jobs": sorted(jobs)}
        self._record.write(content | {"unanswered": True} if unanswered else content)

    def _entry(self, name: str) -> object:
        """None where the file has none, or cannot be trusted."""
        try:
            return self._record.document().get(name)
        except UNREADABLE:
            return None


def _jobs(found: dict[str, Any]) -> set[int]:
    jobs = set(typed(list[int], found["jobs"]))
    if min(jobs, default=1) < 1:
        raise ValueError(f"{min(jobs)} is no job's number")
    return jobs


NOTHING: IntArray = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class CarriedFactors:
    """The jobs that may carry a factor of the daemon, and the factor that each showed last."""

    state: StateFile  #: the daemon of another controller may write it too
    #: Count a file that cannot be trusted, or a factor that is not the daemon's.
    disturbances: Disturbances = field(default_factory=Disturbances)
    sleep: Callable[[float], None] = time.sleep  #: seconds
    _jobs: set[int] | None = None
    _is_lost: bool = False  #: the file is lost: any job of the queue may carry a factor
    _version: tuple[int, int] | None = None
    #: Since when remembered jobs are neither pending nor running.
    _absent: dict[int, float] = field(default_factory=dict)
    _has_way_out: bool = False  #: the file holds this daemon's `way_out`
    _is_unanswered: bool = False  #: a write got no answer, and none since has got one
    _file_unanswered: bool = False
    #: Jobs that were seen last, in rising order, and their factors; then what was written since,
    #: None where it is not known whether it was.
    _seen: tuple[IntArray, IntArray] = (NOTHING, NOTHING)
    _written: dict[int, int | None] = field(default_factory=dict)

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
            return f"any job may carry a factor of the daemon, since {self.path} cannot be trusted"
        if not jobs and self._is_unanswered:
            return "a write of factors got no answer and may still take effect"
        return f"{len(jobs)} jobs are remembered to carry a factor of the daemon"

    def is_outstanding(self) -> bool:
        """Whether a job may carry a factor of the daemon; see `Outstanding`."""
        jobs = self._known()
        return jobs is None or bool(jobs) or self._is_unanswered

    def compare(self, snapshot: QueueSnapshot) -> None:
        """Report factors that differ from what the daemon wrote or saw last."""
        pending = snapshot.pending
        visible = np.flatnonzero(_shows_factor(pending, snapshot.now))
        order = visible[np.argsort(pending.jobs.job_id[visible])]
        jobs, factors = pending.jobs.job_id[order], pending.factor[order]
        expected = self._expected(jobs, factors)
        if (changed := np.flatnonzero(expected != factors)).size:
            first = changed[order[changed].argmin()]
            self.disturbances.report(
                FACTOR,
                f"jobs={len(changed)} first={jobs[first]} was={expected[first]} "
                f"is={factors[first]}: writes were lost, or another program writes",
            )
        self._seen = jobs, factors
        self._written.clear()

    def _expected(self, jobs: IntArray, factors: IntArray) -> IntArray:
        """Factors that jobs in rising order should show; what they show where that is unknown."""
        expected, (known, values) = factors.copy(), self._seen
        _, now, then = np.intersect1d(jobs, known, assume_unique=True, return_indices=True)
        expected[now] = values[then]
        for job, factor in self._written.items():
            place = int(np.searchsorted(jobs, job))
            if place < len(jobs) and jobs[place] == job:
                expected[place] = factors[place] if factor is None else factor
        return expected

    def forget_values(self) -> None:
        """Expect no values any more: another daemon writes the factors, or they are restored."""
        self._seen, self._written = (NOTHING, NOTHING), {}

    def write(
        self,
        snapshot: QueueSnapshot,
        changes: Sequence[FactorChange],
        send: Callable[[], ApplyReport],
    ) -> ApplyReport:
        """Remember the jobs that are about to be written, then write them.

        Without an answer they may still be done, also after a write that takes them back. Where the
        state file cannot be written, ConfigurationError, nothing was sent.
        """
        self.before_writing(snapshot, (change.job_id for change in changes))
        if not changes:
            return ApplyReport()
        for change in changes:  # until it is known which writes were accepted
            self._written[change.job_id] = None
        try:
            report = send()
        except BatchSystemUnavailable:
            self._answered(False)
            raise
        self._answered(True)
        accepted = (change for change in changes if change.job_id in report.accepted)
        self._written |= {change.job_id: change.new for change in accepted}
        return report

    def before_writing(self, snapshot: QueueSnapshot, job_ids: Iterable[int]) -> None:
        """Remember the jobs about to be written, and forget those that have ended.

        Called before the write, so that a crash in between can only remember too many jobs.
        """
        pending = snapshot.pending
        alive = {*pending.jobs.job_id.tolist(), *snapshot.running.numbers}
        carrying = set(pending.jobs.job_id[pending.factor != 0].tolist())
        self._remember(carrying | self._not_yet_gone(alive, snapshot.now) | set(job_ids))

    def restore(self, system: BatchSystem) -> ApplyReport:
        """Set every factor of the daemon to 0, twice if an earlier write got no answer.

        Running jobs are included: a requeued job has its earlier factor again.
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
                words = f"path={self.state.path}: any pending job may carry a factor"
                self.disturbances.report(STATE, words)
                found = self._jobs or set()
            self._jobs = found
        return None if self._is_lost else self._jobs

    def _remember(self, jobs: set[int]) -> None:
        adds = self.state.way_out is not None and not self._has_way_out
        is_same = self._file_unanswered == self._is_unanswered
        if jobs != self._jobs or self._is_lost or adds or not is_same:
            self.state.write(jobs, unanswered=self._is_unanswered)
            self._has_way_out, self._file_unanswered = True, self._is_unanswered
            self._version, self._is_lost = version_of(self.state.path), False
        self._jobs = jobs

    def _not_yet_gone(self, alive: set[int], now: float) -> set[int]:
        """The jobs, without those that ended too long ago for Slurm to requeue them."""
        known = self._known()
        jobs = (self._jobs or set()) | alive if known is None else known
        self._absent = {job: self._absent.get(job, now) for job in jobs - alive}
        return {job for job in jobs if now - self._absent.get(job, now) <= REMEMBERED_AFTER_END}


def _shows_factor(pending: PendingJobs, now: float) -> BoolArray:
    """Which jobs show the factor that the batch system has, shape [n].

    A priority set by hand hides the factor. Slurm shows no factor of held jobs and of jobs that are
    not eligible yet, such as requeued ones, which have their earlier factor again. If the
    components of a job have several priorities, the one that is shown may change.
    """
    shows = ~pending.admin_set & ~pending.held & (pending.jobs.eligible <= now)
    return shows if pending.spread is None else shows & (pending.spread == 0)
