"""The batch-system port: read one snapshot, apply changes of priority, roll them back.

A call to the batch system raises BatchSystemUnavailable if it gives no answer in time, and
BatchSystemError if an answer cannot be understood. A call that writes raises ChangeRejected if the
daemon lacks the right; without an answer in time its writes may or may not have been made.
Docstrings in this package name only other errors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import ChangeRejected
from slurm_rl_plugin.units import FloatArray, IntArray

#: Calls of any adapter that load accounting and not the scheduler.
ACCOUNTING_CALLS = frozenset({"sacct"})
#: The highest priority of a job, unless a batch system has another.
HIGHEST_PRIORITY = 2**32 - 1024
#: Bound of factors in both directions: 32 bits around an offset, whose outermost values mean none.
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
    """The outcome of the changes in one call; `|` joins the reports of several calls."""

    accepted: frozenset[int] = frozenset()  #: job numbers
    #: Job number -> the batch system's message, also for jobs that have started or ended.
    rejected: Mapping[int, str] = field(default_factory=dict)
    later: frozenset[int] = frozenset()  #: rejected, but may still carry our factor: write again

    @property
    def applied(self) -> int:
        """Number of changed jobs."""
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
    """How the batch system orders; read again in each cycle, since a site may change it."""

    release: str  #: of the batch system, for people to read
    lever: str  #: what we write, by the batch system's name; "" for nothing
    harm: str | None  #: why writes have no effect or are undone; None if they work
    points_an_hour: float  #: priority points of an hour of waiting
    pass_interval: float  #: seconds between the scheduler's own passes over the queue
    in_charge: bool | None  #: False: another host's daemon must act; None: not known now
    highest_priority: int = HIGHEST_PRIORITY  #: all terms together
    controller_here: bool = True  #: whether this host has a controller
    fairshare_points: float = 0.0  #: points of an account that has used nothing; 0 if unknown
    replaced_points: float = 0.0  #: points of age, fair share, size and resources; 0 for none
    write_cost: str = ""  #: what a write costs, one sentence; "" if unknown
    no_influence: str | None = None  #: why hours cannot bound our order; None if they can
    alone: str | None = None  #: why no daemon may run next to another controller's
    #: First and last tested release.
    tried: tuple[tuple[int, int], tuple[int, int]] | None = None

    def bound(self, hours: float) -> float:
        """Hours of waiting that our first place adds; 0 if our order cannot be bounded."""
        return 0.0 if self.no_influence is not None else hours


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLoad:
    """How busy the batch system is, as read between two cycles."""

    struggles: str | None  #: why we should write nothing now; None if it is well
    events: tuple[int, ...]  #: counters of jobs; a changed counter means a changed queue
    backlog: int = 0  #: messages that wait for the accounting daemon; 0 if unknown
    submitted: int = 0  #: jobs submitted since the batch system began to count; 0 if unknown


class Check(NamedTuple):
    """One check of `slurm-rl check`: PASS, WARN or FAIL, its name, the finding and the fix."""

    result: str
    name: str
    what: str


class SiteNames(NamedTuple):
    """Names in the jobs of a site; None if they are not known."""

    accounts: frozenset[str] | None
    partitions: frozenset[str] | None
    qos: frozenset[str] | None


class BatchSystem:
    """A queue that can be read and reordered. Every call ends within the adapter's time-out.

    Capabilities of only some batch systems do nothing in this class.
    """

    name: str  #: of the adapter in reports and metrics, such as `slurm_commands`
    lists_pending: bool = False  #: whether `pending_now` costs less than a whole snapshot
    #: Which pending jobs show no factor, and why: one sentence; "" for none.
    hidden_factors: str = ""

    def facts(self) -> SchedulerFacts:
        """Read how the batch system orders."""
        raise NotImplementedError

    def load(self) -> SchedulerLoad:
        """Read how busy the batch system is, and its counters of jobs; cheap."""
        raise NotImplementedError

    def snapshot(self) -> QueueSnapshot:
        """Read the queue, our current factors, shares and usage."""
        raise NotImplementedError

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write factors; single refusals are reported, not raised."""
        raise NotImplementedError

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Set our factor to 0 for these jobs, or for every pending job that has one."""
        raise NotImplementedError

    def pending_now(self) -> QueueSnapshot:
        """The last snapshot with the present pending jobs, priorities and factors.

        If `lists_pending`, all else is as in that snapshot, and no job has started or ended.
        """
        return self.snapshot()

    def go_on_from(self, earlier: BatchSystem) -> None:
        """Take over the state of an adapter of the same kind, so that each start is reported once.

        The earlier adapter makes no snapshot after that; one of another kind is ignored.
        """

    def tell_past(self, days: float) -> None:
        """Report, in the next snapshot, the runs of these days that accounting has."""

    def beat(self) -> None:
        """Show that the daemon lives, every few seconds; OSError if it cannot."""

    def leave(self) -> None:
        """Show that there is nothing left to undo; OSError if it cannot."""

    def limit_batch(self, amounts: Mapping[str, int] | None) -> None:
        """Let all batch jobs together use at most this; None removes our limit.

        Running jobs continue. The site's own limit is saved before the first change, and restored
        with None. Only differences are written, and each write is read back. Amounts are at least
        1, memory in MiB; a missing resource gets no limit.
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
        """Check what only this batch system has; with `wants_runs` accounting must answer."""
        del wants_runs
        return ()

    def site_names(self) -> SiteNames:
        """Names that jobs can have; None for what the batch system does not say."""
        return SiteNames(None, None, None)


#: Characters of a name in a label, a table or the audit log; a longer one is cut, with a digest.
LONGEST_NAME = 200


class Names:
    """Numbers names in the order of their first use."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._index: dict[str, int] = {}
        for name in first:
            self.number(name)

    def number(self, name: str) -> int:
        """The number of a name, which is cut to LONGEST_NAME."""
        if len(name) > LONGEST_NAME:
            digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]
            name = f"{name[: LONGEST_NAME - 13]}~{digest}"
        return self._index.setdefault(name, len(self._index))

    @property
    def all(self) -> tuple[str, ...]:
        """Every name in the order of the numbers."""
        return tuple(self._index)


def to_sum_one(column: FloatArray) -> FloatArray:
    """The column scaled to sum 1, unless it is all 0."""
    whole = column.sum()
    return column / whole if whole > 0 else column
