"""Builds the offer service of a configured site: joins the batch system to the broker's side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from slurm_rl_plugin.batch_systems.port import OfferingSite
from slurm_rl_plugin.brokers.live.bound_offers import BoundOffers
from slurm_rl_plugin.brokers.live.job_document import Forwarding
from slurm_rl_plugin.brokers.live.offer_pages import Forwarder, OfferDesk, OfferPages
from slurm_rl_plugin.brokers.live.offer_worth import OfferWorth
from slurm_rl_plugin.brokers.live.recent_starts import OwnUtilities, RecentStarts
from slurm_rl_plugin.brokers.live.remote_site import ask_sites
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.files import read_sites
from slurm_rl_plugin.domain.site import JobRequest, PublishedUtilities, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError, PolicyError
from slurm_rl_plugin.policies.q_network import QNetworkPolicy, load_q_network
from slurm_rl_plugin.policies.site_utilities import check_site_utility, published_utilities
from slurm_rl_plugin.services.configured_site import build_batch_system, chosen_batch_system
from slurm_rl_plugin.services.model_trial import try_out
from slurm_rl_plugin.serving.clients import RequestRate, SharedToken

T = TypeVar("T")
#: Seconds for which name and processors of the site are taken as they were.
_KNOWN_FOR = 60.0
#: Questions to other sites that are on their way at a time.
_QUESTIONS = 32
#: Part of the requests of a minute that may come without a pause.
_AT_ONCE = 1 / 3


def build_offer_pages(configuration: Configuration, bound: BoundOffers | None = None) -> OfferPages:
    """The page that the service serves."""
    given, site = configuration.sections.offer, offering_site(configuration)
    utilities = build_own_utilities(configuration, site)
    starts = RecentStarts(
        *(site.expected_start, time.monotonic),
        keep=float(given.keep),
        at_once=given.tests_at_once,
        busy_share=float(given.busy_share),
        patience=float(given.timeout),
    )
    worth = OfferWorth(
        given.price,
        configuration.classifier,
        None if utilities is None else utilities.utility,
        _remembered(site.schedule),
    )
    desk = OfferDesk(
        site=_remembered(site.name),
        starts=starts,
        worth=worth,
        all_processors=_remembered(site.processors),
        clock=time.time,  # noqa: TID251 - the composition root hands out the clock
        forwarder=build_forwarder(configuration, site),
        bound=bound,
    )
    if utilities is not None:
        utilities.renew()
    return OfferPages(
        desk=desk,
        utilities=None if utilities is None else utilities.current,
        token=SharedToken(Path(given.token_file)),
        rate=_rate(given.requests_per_minute),
        strangers=_rate(given.requests_per_minute),
        monotonic=time.monotonic,
    )


def _rate(per_minute: float) -> RequestRate:
    return RequestRate(
        per_minute=per_minute, at_once=per_minute * _AT_ONCE, monotonic=time.monotonic
    )


def offering_site(configuration: Configuration) -> OfferingSite:
    """What the service asks of the batch system."""
    given, kind = configuration.sections.offer, chosen_batch_system(configuration).kind
    if kind.offers is None:
        raise ConfigurationError(
            f"offers need Slurm's will-run test, and {kind.title} has none: run `slurm-rl offer` "
            "at sites with Slurm only."
        )
    return kind.offers(float(given.timeout), given.account)


def build_bound_offers(configuration: Configuration) -> BoundOffers | None:
    """The offers that are bound, also those that an earlier process left; None for neither."""
    given, site = configuration.sections.offer, offering_site(configuration)
    if given.bind_seconds == 0 and not Path(given.bind_file).exists():
        return None
    clock = time.time  # noqa: TID251 - the composition root hands out the clock
    return BoundOffers(
        *(site.reserve, site.release, Path(given.bind_file), clock),
        seconds=float(given.bind_seconds),
        most=given.bind_most,
        part=float(given.bind_part),
    )


def build_forwarder(configuration: Configuration, site: OfferingSite) -> Forwarder | None:
    """What asks the sites of [route] sites_file; None where nothing is forwarded."""
    hops = configuration.sections.offer.forward_hops
    if hops == 0:
        return None
    path = Path(configuration.sections.route.sites_file)
    addresses = read_sites([path]) if path.is_file() else []
    if not addresses:
        raise ConfigurationError(
            f"[offer] forward_hops is {hops}, and [route] sites_file {path} names no site: write a "
            "[[site]] there, or forward_hops = 0."
        )
    name, places = _remembered(site.name), threading.BoundedSemaphore(_QUESTIONS)

    def ask(request: JobRequest, forwarding: Forwarding) -> tuple[list[SiteOffer], dict[str, str]]:
        own, left = name(), forwarding.time_to_live
        sites = [each for each in addresses if each.name != own]
        answers = ask_sites(
            sites, request, left, time.monotonic, forwarding=forwarding, places=places
        )
        offers = [each.promised for each in answers if each.promised is not None]
        return offers, {each.name: each.why_not for each in answers if each.promised is None}

    return Forwarder(ask, hops)


def utility_model(configuration: Configuration) -> QNetworkPolicy | None:
    """The model of [offer] utility_model; None where there is none."""
    name = configuration.sections.offer.utility_model
    if not name:
        return None
    try:
        try_out(Path(name))
        policy = load_q_network(Path(name))
        check_site_utility(policy)
    except PolicyError as error:
        raise ConfigurationError(f"[offer] utility_model: {error}") from None
    return policy


def build_own_utilities(configuration: Configuration, site: OfferingSite) -> OwnUtilities | None:
    """What publishes the site's utilities, from a look at the queue as the daemon has it."""
    policy = utility_model(configuration)
    if policy is None:
        return None
    given, calls = configuration.sections.offer, list[tuple[str, float]]()
    name = _remembered(site.name)
    # asks which adapter may work, so not before the first publication
    batch_system = cache(lambda: build_batch_system(configuration, calls))

    def publish() -> PublishedUtilities:
        calls.clear()
        return published_utilities(policy, batch_system().snapshot(), site=name())

    return OwnUtilities(
        make=publish,
        patience=float(given.timeout) / 2.0,  # the will-run test of the same request takes time
        busy_share=float(given.busy_share),
        clock=time.time,  # noqa: TID251 - the composition root hands out the clock
        monotonic=time.monotonic,
    )


def _remembered(ask: Callable[[], T]) -> Callable[[], T]:
    """A fact of the site that rarely changes: asked again a minute later, one thread at a time."""
    lock, known = threading.Lock(), list[tuple[float, T]]()

    def value() -> T:
        with lock:
            if not known or time.monotonic() >= known[0][0]:
                found = ask()
                known[:] = [(time.monotonic() + _KNOWN_FOR, found)]
            return known[0][1]

    return value
