"""What became of the jobs of a run, and which of them were lost, held, failed or starved."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

PENDING, COMPLETED = "PENDING", "COMPLETED"
#: Why Slurm itself holds a job that it started and forgot, as it was killed before it saved that.
LAUNCH_FAILED = "launch failed requeued held"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A job, or a task of an array, as `squeue` lists it; times in seconds since the epoch.

    Attributes:
        job: its number, with the task's for arrays.
        state: Slurm's word.
        reason: why it waits, in Slurm's word.
        restarts: how often it was run again.
        eligible: since when it could start; None where Slurm gives no time.
        start: None where it has not started.
        processors: that it asked for.
        priority: 0 for a held one.
    """

    job: str
    state: str
    reason: str
    restarts: int
    eligible: float | None
    start: float | None
    processors: int
    priority: int

    @property
    def held(self) -> bool:
        """Whether somebody keeps it from starting."""
        if self.state != PENDING or self.launch_failed:
            return False
        return self.reason.startswith("JobHeld") or self.priority == 0

    @property
    def launch_failed(self) -> bool:
        """Whether Slurm itself holds it; see LAUNCH_FAILED."""
        return self.reason.replace("_", " ") == LAUNCH_FAILED

    @property
    def wait(self) -> float:
        """Seconds from eligible to start; 0 where it has not started."""
        if self.eligible is None or self.start is None:
            return 0.0
        return max(self.start - self.eligible, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Jobs to which harm was done, by number; each with what is said of it."""

    lost: Sequence[str] = ()
    held: Sequence[str] = ()
    failed: Sequence[str] = ()
    starved: Sequence[str] = ()

    @property
    def harmed(self) -> list[str]:
        """All of them."""
        return [*self.lost, *self.held, *self.failed, *self.starved]


def lost(submitted: Collection[str], seen: Mapping[str, SeenJob]) -> list[str]:
    """Jobs that nobody knows any more."""
    return sorted(set(submitted) - set(seen))


def held(seen: Mapping[str, SeenJob], by_users: Collection[str]) -> list[str]:
    """Jobs that are held, and not by their users."""
    found = [each for each in seen.values() if each.held and each.job not in by_users]
    return [f"{each.job} ({each.reason})" for each in found]


def failed(
    seen: Mapping[str, SeenJob], cancelled: Collection[str], *, reruns: bool
) -> Iterator[str]:
    """Jobs that did not run to their end, or were run again.

    Args:
        seen: every job once all have ended.
        cancelled: by their users, on purpose.
        reruns: running again is Slurm's own doing.
    """
    for job in seen.values():
        if job.job not in cancelled and job.state != COMPLETED:
            yield f"{job.job} ({job.state})"
        elif job.restarts and not reruns:
            yield f"{job.job} (run again {job.restarts} times)"


def starved(
    jobs: Collection[SeenJob], bound: float, grace: float, until: float = math.inf
) -> list[str]:
    """Jobs that others passed though they had waited beyond the bound.

    One is passed where another with as many processors or more, which had not waited so long,
    starts before it.

    Args:
        jobs: that have started.
        bound: seconds after which a job goes first.
        grace: seconds more in which nobody could see to that.
        until: from then on no daemon orders the queue, seconds since the epoch.
    """
    found = []
    for job in jobs:
        if job.eligible is None or job.start is None:
            continue
        due = job.eligible + bound + grace
        passed = [
            each.job
            for each in jobs
            if each.start is not None
            and due < each.start < min(job.start, until)
            and each.processors >= job.processors
            and each.wait <= bound
        ]
        if passed:
            found.append(f"{job.job} (waited {job.wait:.0f} s, passed by {' '.join(passed)})")
    return found
