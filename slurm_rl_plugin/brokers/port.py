"""The broker port: rank sites for a job, and learn from its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer

#: Outcome of a job; see `RoutedJob`.
Outcome = Literal["ran", "failed", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSite:
    """A site in a broker's ranking."""

    site: str
    merit: float  #: the figure of the ranking, in the broker's unit; higher is better
    reason: str  #: one sentence for the user
    offer: SiteOffer | None = None  #: None for a broker that requests no offers


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedJob:
    """The outcome of a routed job."""

    site: str
    request: JobRequest
    #: submitted, started, ended: seconds since the epoch; all equal for a refused job.
    submitted: float
    started: float
    ended: float
    #: "failed" by the site, not by the user; "refused" at submission.
    outcome: Outcome = "ran"


class Broker(Protocol):
    """Chooses a site for each job."""

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites that may run the job, best first; empty where none may."""
        ...

    def learn(self, job: RoutedJob) -> None:
        """Learn from an ended job; a broker without memory ignores it."""
        del job
