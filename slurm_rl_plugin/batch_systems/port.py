"""The batch-system port: read one snapshot, apply changes of priority, take them back.

A call that asks the batch system raises BatchSystemUnavailable where no answer comes in time, and
BatchSystemError where an answer cannot be understood. A call that writes raises ChangeRejected
where the right is missing; without an answer in time its writes may have been done or not.
Docstrings in this package name only what is raised besides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import ChangeRejected
from slurm_rl_plugin.units import IntArray

#: Calls of any adapter that ask accounting, which is not the scheduler: its load does not count.
ACCOUNTING_CALLS = frozenset({"sacct"})
#: The highest priority that a job can be given, where a batch system names no other.
HIGHEST_PRIORITY = 2**32 - 1024
#: Factors lie between + and - this: 32 bits around an offset, whose outermost values mean none.
LARGEST_FACTOR = 2147483645
PASS, WARN, FAIL = "pass", "warn", "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorChange:
    """Set our additive term in the priority of one pending job (array, for a job array)."""

    job_id: int  #: as in `JobTable.job_id`
    old: int  #: the factor that the snapshot reported
    new: int  #: the factor to write, in the batch system's priority points


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReport:
    """What became of the changes sent in one call, or in several calls: `|` joins reports."""

    accepted: frozenset[int] = frozenset()  #: job numbers
    #: Job number -> the batch system's words; jobs that have started or ended show here too.
    rejected: Mapping[int, str] = field(default_factory=dict)
    later: frozenset[int] = frozenset()  #: rejected, but may still carry our factor: write again

    @property
    def applied(self) -> int:
        """How many jobs were changed, each counted once."""
        return len(self.accepted)

    def __or__(self, other: ApplyReport) -> ApplyReport:
        return ApplyReport(
            accepted=self.accepted | other.accepted,
            rejected={
                **{job: why for job, why in self.rejected.items() if job not in other.accepted},
                **other.rejected,
            },
            later=(self.later - other.accepted) | other.later,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFacts:
    """What the batch system orders by; read again in each cycle, since a site may change it."""

    release: str  #: of the batch system, for people to read
    lever: str  #: what we write, in the batch system's words; "" for nothing
    harm: str | None  #: why writing does nothing or is undone; None where it works
    points_an_hour: float  #: priority points that an hour of waiting is worth
    pass_interval: float  #: seconds between the scheduler's own passes over the queue
    in_charge: bool | None  #: False: another host's daemon has to act; None: not known now
    highest_priority: int = HIGHEST_PRIORITY  #: all terms together
    controller_here: bool = True  #: whether this host has a controller
    fairshare_points: float = 0.0  #: points of an account that has used nothing; 0 where unknown
    replaced_points: float = 0.0  #: points of age, fair share, size and resources; 0 for none
    write_cost: str = ""  #: what a write costs, one sentence; "" where unknown
    no_influence: str | None = None  #: why hours cannot bound our order; None if they can
    alone: str | None = None  #: why no daemon may run beside another controller's
    tried: tuple[tuple[int, int], tuple[int, int]] | None = None  #: first and last release

    def bound(self, hours: float) -> float:
        """Hours of waiting that our first place is worth; 0 if our order cannot be bounded."""
        return 0.0 if self.no_influence is not None else hours


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLoad:
    """How busy the batch system is, as read between two cycles."""

    struggles: str | None  #: why we should write nothing now; None where it is well
    events: tuple[int, ...]  #: counts of what happens to jobs; any change changes the queue
    backlog: int = 0  #: messages that wait for the accounting daemon; 0 where unknown
    submitted: int = 0  #: jobs submitted since the batch system counts; 0 where it does not


class Check(NamedTuple):
    """One check of `slurm-rl check`: PASS, WARN or FAIL, its name, what was found and the fix."""

    result: str
    name: str
    what: str


class SiteNames(NamedTuple):
    """Names that the jobs of a site can have; None where they are not known."""

    accounts: frozenset[str] | None
    partitions: frozenset[str] | None
    qos: frozenset[str] | None


class BatchSystem:
    """A queue that can be read and reordered. Every call ends within the adapter's time-out.

    Methods for what only some batch systems can do change nothing in this class.
    """

    name: str  #: what reports and metrics call the adapter, `slurm_commands` for example
    lists_pending: bool = False  #: whether `pending_now` costs less than a whole snapshot
    #: Which waiting jobs show no factor, and why: one sentence; "" for none.
    hidden_factors: str = ""

    def facts(self) -> SchedulerFacts:
        """Read what the batch system orders by."""
        raise NotImplementedError

    def load(self) -> SchedulerLoad:
        """Read how busy the batch system is, and whether anything has happened; cheap."""
        raise NotImplementedError

    def snapshot(self) -> QueueSnapshot:
        """Read the queue, our current factors, shares and usage."""
        raise NotImplementedError

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write factors; single refusals are reported, not raised."""
        raise NotImplementedError

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Set our factor back to 0: for the jobs named, or for every pending job that has one."""
        raise NotImplementedError

    def pending_now(self) -> QueueSnapshot:
        """The last snapshot with the pending jobs, priorities and factors of now.

        Where `lists_pending`, all else is as in that snapshot, and no job has started or ended.
        """
        return self.snapshot()

    def go_on_from(self, earlier: BatchSystem) -> None:
        """Take over what an adapter of the same kind saw, so that each start is told once.

        The earlier adapter gives no snapshot any more; nothing is taken from one of another kind.
        """

    def tell_past(self, days: float) -> None:
        """Let the next snapshot tell the runs of so many days that accounting remembers."""

    def beat(self) -> None:
        """Tell the batch system that the daemon lives, every few seconds; OSError if it cannot."""

    def leave(self) -> None:
        """Tell the batch system that nothing of ours is left to undo; OSError if it cannot."""

    def limit_batch(self, amounts: Mapping[str, int] | None) -> None:
        """Let batch jobs use at most this together; None takes our limit away.

        Running jobs go on. A limit of the site's own is saved before the first change and given
        back with None. Only differences are written, and each write is read back. Amounts are at
        least 1, memory in MiB; a resource that is not there has no limit of ours.
        """
        del amounts
        raise ChangeRejected(
            f'{self.name} cannot limit batch jobs: set [reserve] mechanism = "off"'
        )

    def limit_checks(self, *, writes: bool) -> Iterator[Check]:
        """Check that a limit on batch jobs works; `writes` allows a write that changes nothing."""
        del writes
        yield Check(FAIL, "reserve", f"{self.name} cannot limit batch jobs: turn it off")

    def own_checks(self, *, wants_runs: bool = False) -> Iterable[Check]:
        """Check what only this batch system has; with `wants_runs` accounting has to answer."""
        del wants_runs
        return ()

    def site_names(self) -> SiteNames:
        """All names that jobs can have, though none waits; what cannot be asked is None."""
        return SiteNames(None, None, None)


#: Characters of the longest name; of a longer one the rest is a digest.
LONGEST_NAME = 200


class Names:
    """Numbers names in the order in which they are first met."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._index: dict[str, int] = {}
        for name in first:
            self.number(name)

    def number(self, name: str) -> int:
        """Give the name's number, a new one at first sight."""
        return self._index.setdefault(_short(name), len(self._index))

    @property
    def all(self) -> tuple[str, ...]:
        """Every name so far, in the order of the numbers."""
        return tuple(self._index)


def _short(name: str) -> str:
    """A name that is not too long for a label, a table or a line of the audit log."""
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{name[: LONGEST_NAME - 13]}~{digest}"
