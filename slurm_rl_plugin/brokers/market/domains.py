"""MetaManagers: which domains a request gets to (2002, section 3 and 4).

Each domain has machines, a MetaManager, and links to other domains that its administrator chose. A
user's request goes to the MetaManager of the user's own domain. A MetaManager that gets a request
for the first time makes offers on its machines and forwards the request over its links, while the
request has hops left and its time to live lasts. One that got the request before does nothing.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import BoolArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Domains:
    """Domains and how requests are forwarded between them.

    Attributes:
        sizes: machines of each domain; those of the first domain come first in the market.
        links: domains to which each forwards requests.
        hops: how often a request may be forwarded; 0 asks the user's own domain only.
        time_to_live: seconds after which a request is not forwarded.
        delay: seconds that one forwarding takes; starts are not put off by it.
        directory: whether a domain that lacks processors within reach finds all others by a
            directory.
    """

    sizes: tuple[int, ...]
    links: tuple[tuple[int, ...], ...]
    hops: int
    time_to_live: float = math.inf
    delay: float = 0.0
    directory: bool = True

    def __post_init__(self) -> None:
        count = len(self.sizes)
        if len(self.links) != count or not all(
            0 <= each < count for links in self.links for each in links
        ):
            raise ConfigurationError(f"links must name, for each of {count} domains, some of them.")

    def asked(self, home: int) -> list[int]:
        """The domains that a request from one domain gets to, in the order in which it does."""
        heard = dict.fromkeys([home])
        on_the_way = [(0.0, 0, home)]
        while on_the_way:
            time, hops, domain = heapq.heappop(on_the_way)
            heard[domain] = None
            later = time + self.delay
            if hops == self.hops or later > self.time_to_live:
                continue
            for each in self.links[domain]:
                if each not in heard:
                    heapq.heappush(on_the_way, (later, hops + 1, each))
        return list(heard)

    def reach(self, homes: IntArray, wanted: IntArray, machines: IntArray) -> BoolArray:
        """The machines that make offers for each job, shape [n, machines].

        Args:
            homes: domain of each job's user.
            wanted: processors that the machines within reach must have together, shape [n].
            machines: processors of each.

        Raises:
            ConfigurationError: there are not as many machines as the domains have.
        """
        if sum(self.sizes) != len(machines):
            raise ConfigurationError(
                f"the domains have {sum(self.sizes)} machines and the market {len(machines)}."
            )
        domain_of = np.repeat(np.arange(len(self.sizes)), self.sizes)
        from_home = np.array(
            [np.isin(domain_of, self.asked(home)) for home in range(len(self.sizes))]
        )
        reach: BoolArray = from_home[homes]
        if self.directory:
            reach[(reach * machines).sum(axis=1) < wanted] = True
        return reach


def ring(machines: int, hops: int) -> Domains:
    """As many domains as machines, each linked to its two neighbours."""
    links = tuple(((each - 1) % machines, (each + 1) % machines) for each in range(machines))
    return Domains(sizes=(1,) * machines, links=links, hops=hops)
