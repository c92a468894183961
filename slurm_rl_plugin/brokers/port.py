"""The broker port: rank sites for a job, and learn from what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer

#: What became of a job; see `RoutedJob`.
Outcome = Literal["ran", "failed", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSite:
    """A site's place in a broker's ranking: its merit, and why, in words."""

    site: str  #: its name
    merit: float  #: what the broker ranks by, in its own unit; higher is better
    reason: str  #: one sentence for the user
    offer: SiteOffer | None = None  #: what the site promised; None for a broker that asks none


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedJob:
    """What became of a job that a broker sent somewhere."""

    site: str  #: where it was sent
    request: JobRequest  #: as the broker was given it
    #: submitted, started, ended: seconds since the epoch; of a refused job all the same.
    submitted: float
    started: float
    ended: float
    #: "failed" where the site failed it, not its user; "refused" where the site did not take it.
    outcome: Outcome = "ran"


class Broker(Protocol):
    """Chooses a site for each job."""

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites that may run the job, best first; empty where none may."""
        ...

    def learn(self, job: RoutedJob) -> None:
        """Take notice of a job that ended; a broker without memory ignores it."""
        del job
