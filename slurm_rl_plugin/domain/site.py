"""A site as a broker sees it: it answers a job's request with an offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from slurm_rl_plugin.domain.job_class import JobDescription

#: What else a job may ask for, in the words of Slurm's options.
NEEDS = (
    *("ntasks", "cpus-per-task", "ntasks-per-node", "nodes", "mem", "mem-per-cpu"),
    *("constraint", "gres", "gpus", "gpus-per-node", "gpus-per-task", "licenses", "exclusive"),
    *("gpus-per-socket", "sockets-per-node", "tres-per-task"),
    *("mem-per-gpu", "cpus-per-gpu", "ntasks-per-gpu"),
)
#: Of `PublishedUtilities.document`; raised whenever its meaning changes.
VERSION = 1
JOB_CLASSES = ("interactive", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What sites know of a job before it is submitted anywhere."""

    job: JobDescription  #: its words; `job.time_limit` is the run time it asks for, in seconds
    processors: int  #: how many it asks for
    #: What else it asks for: NEEDS and their values, by name; the site decides on the others.
    needs: tuple[tuple[str, str], ...] = ()


class Allocation(NamedTuple):
    """Processors that a schedule gives to a job; seconds since the epoch."""

    begin: float
    end: float
    processors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOffer:
    """What a site promises for one job; an expectation, not a reservation."""

    site: str  #: its name
    expected_start: float  #: seconds since the epoch
    #: Of such a job in [0, 1]: where `published`, the long-term one that the site expects (2008,
    #: II.C), else the time utility of the expected wait; they are not in one unit.
    utility: float
    price: float  #: in the unit of the site's price function; 0 where it asks for none
    processors: int  #: that the site has in all
    published: bool = False  #: whether the site's own model gives the utility


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedUtilities:
    """The long-term utility that a site expects of one more job of each class and account.

    The site-level utility function of 2008, section II.C: matchmakers rank sites by these indices
    and need not know how a site orders its queue.
    """

    site: str  #: its name
    time: float  #: of the queue that it speaks of, seconds since the epoch
    valid_for: float  #: seconds after `time` after which it is stale
    model: str  #: sha256 of the model, hexadecimal
    #: Job class -> account -> utility in [0, 1]; at 0.5 the site's objective neither gains nor
    #: loses by such a job.
    utilities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def fresh_at(self, now: float) -> bool:
        """Whether it may still be used; a time to come is no fresher than one long past."""
        return abs(now - self.time) <= self.valid_for

    def of(self, job_class: str, account: str) -> float | None:
        """The utility of one more such job; None where the site says nothing of it."""
        return self.utilities.get(job_class, {}).get(account)

    def document(self) -> dict[str, Any]:
        """The publication as a JSON object."""
        return {"version": VERSION, **asdict(self)}


class Site(Protocol):
    """A place with a cluster of its own, one of several that a broker chooses among."""

    @property
    def name(self) -> str:
        """The site's name in offers and rankings; of a Slurm site the cluster's name."""
        ...

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """What the site promises for the job; None where it cannot run it or gives no answer."""
        ...
