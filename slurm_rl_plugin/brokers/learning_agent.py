"""A broker that learns for each user which site answers soonest, without asking the sites.

The probing rule of `agents.rules` on real sites: a few sites are looked at for each job, in
proportion to their processors, and that with the shortest expected response is ranked first. Users
share nothing, as the agents of the 2005 paper. It learns only when jobs have ended; told of those
that were sent (`sent`), it also learns from their silence. It keeps nothing between two calls of
`slurm-rl route`: it is told of all jobs again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.brokers.agents.rules import (
    ProbeSettings,
    drawn_places,
    expected_wait,
    learned_wait,
    waited_so_far,
)
from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest, Site
from slurm_rl_plugin.units import DAY, HOUR

#: On real sites times are seconds, and queues change in hours.
LIVE_PROBES = ProbeSettings(probes=4, weight=0.1, recent=HOUR, fading=7 * DAY)
#: What a job without a time limit is taken to ask for, seconds.
_TIME_LIMIT = HOUR


@dataclass(slots=True, kw_only=True)
class WaitsAtSite:
    """What one user met at one site.

    Attributes:
        mean_wait, last_wait: seconds.
        heard: of the last of them, seconds since the epoch.
        count: of jobs that ended there.
    """

    mean_wait: float = 0.0
    last_wait: float = 0.0
    heard: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentJob:
    """A job that was sent to a site, of which nothing was heard yet.

    Attributes:
        site: its name.
        submitted: seconds since the epoch.
        run_time: that it asks for, seconds.
    """

    site: str
    submitted: float
    run_time: float


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
        self._users: dict[str, dict[str, WaitsAtSite]] = {}
        self._sent: dict[str, list[SentJob]] = {}

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

    def sent(self, site: str, request: JobRequest, submitted: float) -> None:
        """Take notice of a submission: as long as nothing is heard of it, it still waits or runs.

        Not part of the port; a caller that knows what was submitted makes the broker better. Of a
        job that nobody hears of any more (it was cancelled) the notice ends with `fading`.
        """
        job = SentJob(site=site, submitted=submitted, run_time=_run_time(request))
        recent = [each for each in self._sent.get(request.job.user, []) if self._recent(each)]
        self._sent[request.job.user] = [*recent, job]

    def _recent(self, job: SentJob) -> bool:
        return self._clock() - job.submitted <= self._settings.fading

    def learn(self, job: RoutedJob) -> None:
        """Take notice of a wait; one that is no number, or negative, teaches nothing."""
        user, wait = job.request.job.user, job.started - job.submitted
        self._end_notice(user, job)
        if not (math.isfinite(wait) and wait >= 0.0 and math.isfinite(job.ended)):
            return
        met = self._users.setdefault(user, {}).setdefault(job.site, WaitsAtSite())
        met.mean_wait = learned_wait(met.mean_wait, met.count, wait, self._settings.weight)
        if job.ended >= met.heard:
            met.last_wait, met.heard = wait, job.ended
        met.count += 1

    def _end_notice(self, user: str, job: RoutedJob) -> None:
        """The job is heard of now: that notice of the site ends which is nearest in time."""
        notices = [each for each in self._sent.get(user, []) if each.site == job.site]
        if notices:
            self._sent[user].remove(min(notices, key=lambda n: abs(n.submitted - job.submitted)))

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
        user, settings, now = request.job.user, self._settings, self._clock()
        met = self._users.get(user, {}).get(site, WaitsAtSite(heard=now))
        wait = expected_wait(
            met.mean_wait,
            met.last_wait,
            max(now - met.heard, 0.0),
            settings.recent,
            settings.fading,
            self._known_wait(user, site, now),
        )
        return float(wait + max(request.processors, 1) * _run_time(request) / processors)

    def _known_wait(self, user: str, site: str, now: float) -> float:
        """What the user's own jobs there that have not ended have waited at least, seconds."""
        ages = [
            waited_so_far(now - job.submitted, job.run_time, 1.0)
            for job in self._sent.get(user, [])
            if job.site == site and self._recent(job)
        ]
        return max(ages, default=0.0)

    def _reason(self, user: str, site: str, *, looked_at: bool) -> str:
        if not looked_at:
            return "Not among the sites drawn for this job."
        met = self._users.get(user, {}).get(site)
        if met is None:
            return "No job of this user has run there yet."
        jobs = "1 job" if met.count == 1 else f"{met.count} jobs"
        return f"Mean wait of {jobs} of this user there: {met.mean_wait:.0f} s."


def _run_time(request: JobRequest) -> float:
    """Run time that a job asks for, seconds."""
    limit = request.job.time_limit
    return limit if math.isfinite(limit) and limit > 0.0 else _TIME_LIMIT
