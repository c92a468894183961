"""Domains and their MetaManagers: who asks whom for offers, how far and how long (2002, 3 and 4).

A user asks the manager of his own domain. It asks its own sites, keeps the best offers, and passes
the request on to its neighbours while hops and time are left; no domain answers a request twice.
There is no auctioneer: each manager sends back what it kept, and the first one chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.brokers.market.formula import Formula
from slurm_rl_plugin.brokers.market.functions import USER_VARIABLES
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError, FormulaError
from slurm_rl_plugin.units import BoolArray

#: Offers that a manager keeps of its own sites, and sends back of all.
KEPT_OFFERS = 3


@dataclass(frozen=True, slots=True)
class UtilityRequest:
    """A job with its user's wishes.

    Attributes:
        request: what sites are told.
        utility: the user's function of USER_VARIABLES; more is better.
        made_at: when it was made, seconds since the epoch.
        hops: how many domains away it may be passed.
        expires: when it is passed on no more, seconds since the epoch.
    """

    request: JobRequest
    utility: Formula
    made_at: float
    hops: int
    expires: float

    def value(self, offer: SiteOffer) -> float:
        """Worth of an offer to the user.

        Raises:
            FormulaError: it has none, as where a job without a time limit is asked for its end.
        """
        run_time, start = self.request.job.time_limit, offer.expected_start - self.made_at
        values = (
            start,
            start + run_time,
            run_time,
            float(self.request.processors),
            offer.price,
            offer.utility,
            float(offer.processors),
        )
        return self.utility.value(dict(zip(USER_VARIABLES, values, strict=True)))


@dataclass(frozen=True, slots=True)
class ValuedOffer:
    """An offer, what it is worth to the user, and how many domains away it was made."""

    offer: SiteOffer
    value: float
    distance: int


def best_first(offers: Sequence[ValuedOffer]) -> list[ValuedOffer]:
    """Highest value first; of equal ones the cheaper, then the nearer, then by name."""
    return sorted(
        offers,
        key=lambda each: (-each.value, each.offer.price, each.distance, each.offer.site),
    )


@dataclass(slots=True)
class MetaManager:
    """Answers the requests of one domain.

    Attributes:
        domain: its name.
        sites: of the domain.
        clock: gives seconds since the epoch.
        neighbours: managers that it knows; set after all are made.
    """

    domain: str
    sites: Sequence[Site]
    clock: Callable[[], float]
    neighbours: list[MetaManager] = field(default_factory=list)

    def negotiate(self, request: UtilityRequest) -> list[ValuedOffer]:
        """The best offers of all domains within reach, best first; empty where there is none.

        Sites that make no offer, or one that has no value for the user, are left out. Domains are
        asked by distance: the few hops of a request go to those near, not along one long path.
        """
        asked, found = {self.domain}, self._own_offers(request, 0)
        ring = [self]
        for distance in range(1, request.hops + 1):
            ring = _next_ring(ring, asked)
            for manager in ring:
                if self.clock() >= request.expires:
                    return best_first(found)
                found += manager._own_offers(request, distance)
        return best_first(found)

    def _own_offers(self, request: UtilityRequest, distance: int) -> list[ValuedOffer]:
        """The first selection: the best few of the domain's own sites."""
        found = []
        for site in self.sites:
            offer = site.offer(request.request)
            if offer is None:
                continue
            try:
                found.append(ValuedOffer(offer, request.value(offer), distance))
            except FormulaError:
                continue
        return best_first(found)[:KEPT_OFFERS]


def _next_ring(ring: Sequence[MetaManager], asked: set[str]) -> list[MetaManager]:
    """Managers one hop further that have not seen the request, which they now have."""
    found = []
    for manager in ring:
        for neighbour in manager.neighbours:
            if neighbour.domain not in asked:
                asked.add(neighbour.domain)
                found.append(neighbour)
    return found


def reach(neighbours: Mapping[str, Sequence[str]], hops: int) -> BoolArray:
    """Which domains a request of each domain gets to.

    Args:
        neighbours: domain -> those that its manager knows.
        hops: as in a request.

    Returns:
        Shape [domains, domains] in the order of the mapping; a row for the asking domain.

    Raises:
        ConfigurationError: a neighbour that is no domain.
    """
    names = list(neighbours)
    unknown = sorted({each for known in neighbours.values() for each in known} - set(names))
    if unknown:
        raise ConfigurationError(f"domain {unknown[0]!r} is a neighbour but is not described.")
    step = np.eye(len(names), dtype=np.bool_)
    for place, name in enumerate(names):
        for each in neighbours[name]:
            step[place, names.index(each)] = True
    found = np.eye(len(names), dtype=np.bool_)
    for _ in range(min(hops, len(names))):
        found = (found.astype(np.int64) @ step.astype(np.int64)) > 0
    return found
