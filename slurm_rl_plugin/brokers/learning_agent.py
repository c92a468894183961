"""A broker that learns for each user which site answers soonest, without asking the sites.

The probing rule of `agent_rules` on real sites: a few sites are looked at for each job, in
proportion to their processors, and that with the shortest expected response is ranked first. Users
share nothing, as the agents of the 2005 paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.brokers.agent_rules import (
    ProbeSettings,
    drawn_places,
    expected_response,
    learned_wait,
)
from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest, Site
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import DAY, HOUR

#: On real sites times are seconds: a wait of a day ago counts 1/e.
LIVE_PROBES = ProbeSettings(probes=2, weight=0.3, fading=DAY)
#: What a job without a time limit is taken to ask for, seconds.
_TIME_LIMIT = HOUR
_VERSION = 1


@dataclass(slots=True, kw_only=True)
class SiteExperience:
    """What one user met at one site.

    Attributes:
        mean_wait: seconds.
        heard: when, seconds since the epoch.
        count: of jobs that started there.
    """

    mean_wait: float
    heard: float
    count: int


class LearningAgentBroker:
    """Ranks sites by what the user's own jobs met there.

    Args:
        clock: seconds since the epoch.
        seed: of the draws.
        settings: constants of the rule, times in seconds.
    """

    def __init__(
        self, *, clock: Callable[[], float], seed: int, settings: ProbeSettings = LIVE_PROBES
    ) -> None:
        self._clock, self._settings = clock, settings
        self._rng = np.random.default_rng(seed)
        self._processors: dict[str, int] = {}
        self._users: dict[str, dict[str, SiteExperience]] = {}

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """Sites with enough processors, best first; one of unknown size is asked for an offer once.

        The sites that were drawn come first, by their merit, then the others by theirs. The merit
        is minus the expected response in seconds, and of the others never above that of the drawn.
        """
        known = [(site.name, self._processors_of(site, request)) for site in sites]
        able = [(name, size) for name, size in known if size >= max(request.processors, 1)]
        if not able:
            return []
        chances = np.array([float(size) for _, size in able])
        places = drawn_places(chances, min(self._settings.probes, len(able)), self._rng)
        drawn = {able[place][0] for place in places}
        expected = {name: self._response(request, name, size) for name, size in able}
        order = sorted(expected, key=lambda name: (name not in drawn, expected[name]))
        worst = max(expected[name] for name in drawn)
        return [
            RankedSite(
                site=name,
                merit=-expected[name] if name in drawn else -max(expected[name], worst),
                reason=self._reason(request.job.user, name, looked_at=name in drawn),
            )
            for name in order
        ]

    def learn(self, job: RoutedJob) -> None:
        """Take notice of a wait; one that is no number, or negative, teaches nothing."""
        wait = job.started - job.submitted
        if not (math.isfinite(wait) and wait >= 0.0 and math.isfinite(job.ended)):
            return
        sites = self._users.setdefault(job.request.job.user, {})
        met = sites.setdefault(job.site, SiteExperience(mean_wait=0.0, heard=job.ended, count=0))
        met.mean_wait = learned_wait(met.mean_wait, met.count, wait, self._settings.weight)
        met.heard = max(met.heard, job.ended)
        met.count += 1

    def state(self) -> dict[str, Any]:
        """What it knows and where its draws stand, for a JSON file."""
        return {
            "version": _VERSION,
            "processors": dict(self._processors),
            "users": {
                user: {site: asdict(met) for site, met in sites.items()}
                for user, sites in self._users.items()
            },
            "draws": self._rng.bit_generator.state,
        }

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        *,
        clock: Callable[[], float],
        settings: ProbeSettings = LIVE_PROBES,
    ) -> LearningAgentBroker:
        """A broker that goes on where the other one was.

        Args:
            state: what `state` gave.
            clock: seconds since the epoch.
            settings: constants of the rule.

        Raises:
            ConfigurationError: it is no such state.
        """
        broker = cls(clock=clock, seed=0, settings=settings)
        try:
            broker._take(state)
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise ConfigurationError(
                f"the memory of the learning agents cannot be read ({fault!r}): remove its file "
                "to begin anew."
            ) from fault
        return broker

    def _take(self, state: Mapping[str, Any]) -> None:
        if state["version"] != _VERSION:
            raise ValueError(f"version {state['version']}")
        self._processors = {str(site): int(size) for site, size in state["processors"].items()}
        self._users = {
            str(user): {str(site): _experience(met) for site, met in sites.items()}
            for user, sites in state["users"].items()
        }
        self._rng.bit_generator.state = state["draws"]

    def _processors_of(self, site: Site, request: JobRequest) -> int:
        """Processors of a site; 0 where they are unknown and it makes no offer."""
        if site.name not in self._processors:
            offer = site.offer(request)
            if offer is None or offer.processors < 1:
                return 0
            self._processors[site.name] = offer.processors
        return self._processors[site.name]

    def _response(self, request: JobRequest, site: str, processors: int) -> float:
        """Expected wait, and the time that all the site's processors would need for the work."""
        limit = request.job.time_limit
        seconds = limit if math.isfinite(limit) and limit > 0.0 else _TIME_LIMIT
        met = self._users.get(request.job.user, {}).get(site)
        silence = 0.0 if met is None else max(self._clock() - met.heard, 0.0)
        return float(
            expected_response(
                0.0 if met is None else met.mean_wait,
                silence,
                self._settings.fading,
                0.0,
                max(request.processors, 1) * seconds,
                float(processors),
            )
        )

    def _reason(self, user: str, site: str, *, looked_at: bool) -> str:
        if not looked_at:
            return "Not among the sites drawn for this job."
        met = self._users.get(user, {}).get(site)
        if met is None:
            return "No job of this user has run there yet."
        jobs = "1 job" if met.count == 1 else f"{met.count} jobs"
        return f"Mean wait of {jobs} of this user there: {met.mean_wait:.0f} s."


def _experience(met: Mapping[str, Any]) -> SiteExperience:
    found = SiteExperience(
        mean_wait=float(met["mean_wait"]), heard=float(met["heard"]), count=int(met["count"])
    )
    if not (math.isfinite(found.mean_wait) and math.isfinite(found.heard) and found.count > 0):
        raise ValueError(f"experience {dict(met)}")
    return found
