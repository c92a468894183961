"""The value of an offer: the site's utility and price for a job, and a user's formula over them.

A formula that is refused, or has no finite value, raises FormulaError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.brokers.market.formula import (
    SCHEDULE_VARIABLES,
    machine_function,
    user_function,
)
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.site import Allocation, JobRequest, SiteOffer
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.utility.time_utility import time_utility

#: Run time of a job without a time limit, seconds.
UNKNOWN_RUN_TIME = HOUR


@dataclass(frozen=True, slots=True)
class OfferWorth:
    """Utility and price of one site; FormulaError for a refused price."""

    price: str  #: formula over MACHINE_VARIABLES
    classifier: JobClassifier  #: the site's rules for job classes, and their time utilities
    #: The published utility of a job of a class, or None; None for a site that publishes none.
    published: Callable[[JobRequest, bool], float | None] | None = None
    #: Running and planned jobs, read only if the price uses them.
    schedule: Callable[[], Sequence[Allocation]] = tuple

    def __post_init__(self) -> None:
        machine_function(self.price)

    def offer(
        self, site: str, request: JobRequest, *, now: float, start: float, all_processors: int
    ) -> SiteOffer:
        """The offer for a job that would start at `start`, both times in seconds since the epoch.

        The utility is the published one, otherwise the time utility of the job's class after the
        expected wait (2008, eq. 1-3).
        """
        quick = self.classifier.is_interactive(request.job)
        known = _variables(request, quick, start - now, all_processors)
        price = machine_function(self.price)
        if not price.names.isdisjoint(SCHEDULE_VARIABLES):
            begin = now + known["StartTime"]
            end, taken = begin + known["RunTime"], self.schedule()
            known |= schedule_variables(
                taken, now, begin, end, processors=request.processors, capacity=all_processors
            )
        published = None if self.published is None else self.published(request, quick)
        row = self.classifier.classes[self.classifier.class_of(request.job)].row
        return SiteOffer(
            site=site,
            expected_start=start,
            utility=float(time_utility(known["EndTime"], known["RunTime"], row))
            if published is None
            else published,
            published=published is not None,
            price=price.value(known),
            processors=all_processors,
        )

    def value(self, formula: str, request: JobRequest, offer: SiteOffer, now: float) -> float:
        """The formula's value for this offer; the site's rules give the job's class."""
        quick = self.classifier.is_interactive(request.job)
        return offer_value(formula, request, offer, now, interactive=quick)


def offer_value(
    formula: str, request: JobRequest, offer: SiteOffer, now: float, *, interactive: bool
) -> float:
    """The value of a user's formula over USER_VARIABLES for an offer; higher is better."""
    known = _variables(request, interactive, offer.expected_start - now, offer.processors)
    known |= {"JobCost": offer.price, "SiteUtility": offer.utility}
    return user_function(formula).value(known)


def schedule_variables(
    schedule: Sequence[Allocation],
    now: float,
    start: float,
    end: float,
    *,
    processors: int,
    capacity: int,
) -> dict[str, float]:
    """SCHEDULE_VARIABLES of a job, by numbers of processors; times in seconds since the epoch.

    The job is assumed to get the processors that have been idle for the shortest time and are
    needed again first, since the actual ones are unknown. `schedule` has the other jobs.
    """
    begins, ends, taken = np.array(schedule, dtype=float).reshape(-1, 3).T
    horizon = max(ends.max(initial=end), end)
    edges = np.unique(
        np.clip(np.concatenate([[now, start, end, horizon], begins, ends]), now, None)
    )
    edges = edges[edges <= horizon]
    width, at = np.diff(edges), edges[:-1]
    running = (begins <= at[:, None]) & (ends > at[:, None])
    used = np.minimum(running @ taken, capacity)
    free, area = capacity - used, processors * (end - start)
    before, during, after = at < start, (at >= start) & (at < end), at >= end
    spare = max(free[during].min(initial=capacity) - processors, 0.0)
    idle_before = np.minimum.accumulate(free[before][::-1])[::-1]
    idle_after = np.minimum.accumulate(free[after])
    left_right = float(np.clip(free[during] - processors, 0.0, None) @ width[during])
    return {
        "under": float(np.clip(idle_before - spare, 0.0, processors) @ width[before]),
        "over": float(np.clip(idle_after - spare, 0.0, processors) @ width[after]),
        "left_right": left_right,
        "left_right_rel": left_right / area,
        "utilization": (float(used @ width) + area) / (capacity * (horizon - now)),
    }


def _variables(
    request: JobRequest, interactive: bool, wait: float, all_processors: int
) -> dict[str, float]:
    start, limit = max(wait, 0.0), request.job.time_limit
    run_time = UNKNOWN_RUN_TIME if math.isnan(limit) else limit
    return {
        "NumberOfProcessors": float(request.processors),
        "RunTime": run_time,
        "StartTime": start,
        "EndTime": start + run_time,
        "Interactive": float(interactive),
        "SiteProcessors": float(all_processors),
    }
