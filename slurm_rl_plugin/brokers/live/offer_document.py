"""A site's offer as the JSON object that it answers, and back with every bound checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from slurm_rl_plugin.brokers.live.job_document import LONGEST_TEXT, MOST_PROCESSORS
from slurm_rl_plugin.domain.site import SiteOffer
from slurm_rl_plugin.errors import RequestRefused

_NUMBERS = ("expected_start", "utility", "price")
#: The year 9999, beyond which no clock of ours can tell the time.
_LATEST = 253_370_764_800.0
#: Offers of other sites that an answer may have.
MOST_FORWARDED = 64
#: A name that sbatch takes for one cluster.
_CLUSTER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
NOT_UNDERSTOOD = "502 Bad Gateway"


def offer_document(offer: SiteOffer) -> dict[str, Any]:
    """The object that `site_offer` reads."""
    return {
        "site": offer.site,
        **{name: getattr(offer, name) for name in _NUMBERS},
        "processors": offer.processors,
        "published": offer.published,
    }


def forwarded_offers(document: Mapping[str, Any]) -> list[SiteOffer]:
    """Offers of other sites in an answer, which are the answering site's word; faulty ones not."""
    given = document.get("forwarded", [])
    found = []
    for each in given[:MOST_FORWARDED] if isinstance(given, list) else []:
        name = each.get("site") if isinstance(each, Mapping) else None
        if isinstance(name, str) and _CLUSTER.fullmatch(name) is not None:
            with suppress(RequestRefused):
                found.append(site_offer(each, name))
    return found


def site_offer(document: Mapping[str, Any], site: str) -> SiteOffer:
    """The offer that a site answered; fields that a later release adds are left alone.

    Args:
        document: the answer.
        site: who was asked; another one's offer is none.

    Raises:
        RequestRefused: a field is missing, of another kind or out of bounds; names it.
    """
    named = document.get("site")
    if named != site:
        shown = named[:LONGEST_TEXT] if isinstance(named, str) else named
        raise RequestRefused(NOT_UNDERSTOOD, f"answers for site {shown!r}: check its url.")
    numbers = {name: _number(name, document.get(name)) for name in _NUMBERS}
    processors = document.get("processors")
    if type(processors) is not int or not 1 <= processors <= MOST_PROCESSORS:
        raise _refusal("processors")
    if not 0.0 <= numbers["expected_start"] <= _LATEST:
        raise _refusal("expected_start")
    if not 0.0 <= numbers["utility"] <= 1.0:
        raise _refusal("utility")
    published = document.get("published", False)  # a site that does not say so publishes nothing
    if type(published) is not bool:
        raise _refusal("published")
    return SiteOffer(site=site, processors=processors, published=published, **numbers)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refusal(name)
    try:
        number = float(value)
    except OverflowError:
        raise _refusal(name) from None
    if not math.isfinite(number):
        raise _refusal(name)
    return number


def _refusal(field: str) -> RequestRefused:
    return RequestRefused(NOT_UNDERSTOOD, f"its answer has no {field} that can be used.")
