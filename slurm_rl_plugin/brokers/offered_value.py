"""The market's user, live: ranks the offers by a formula of his own (2002, user functions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slurm_rl_plugin.brokers.live.offer_worth import offer_value
from slurm_rl_plugin.brokers.market.formula import user_function
from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError


class OfferedValueBroker:
    """Ranks by what the user's formula says of each offer; see `Broker`.

    Args:
        formula: over USER_VARIABLES; higher is better.
        is_interactive: rules for job classes.
        clock: seconds since the epoch.

    Raises:
        FormulaError: the formula is refused.
    """

    def __init__(
        self,
        formula: str,
        is_interactive: Callable[[JobDescription], bool],
        clock: Callable[[], float],
    ) -> None:
        user_function(formula)
        self._formula, self._is_interactive, self._clock = formula, is_interactive, clock

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """Sites by the formula's value of their offers, highest first; no value, no rank."""
        now = self._clock()
        offers = [offer for site in sites if (offer := site.offer(request)) is not None]
        valued = [(self._value(request, offer, now), offer) for offer in offers]
        known = [(value, offer) for value, offer in valued if value is not None]
        known.sort(key=lambda each: (-each[0], each[1].expected_start, each[1].site))
        return [
            RankedSite(
                site=offer.site, merit=value, reason=f"is worth {value:.6g} to you", offer=offer
            )
            for value, offer in known
        ]

    def _value(self, request: JobRequest, offer: SiteOffer, now: float) -> float | None:
        quick = self._is_interactive(request.job)
        try:
            return offer_value(self._formula, request, offer, now, interactive=quick)
        except ConfigurationError:
            return None

    def learn(self, job: RoutedJob) -> None:
        """Learn nothing: prices and starts are all that counts."""
