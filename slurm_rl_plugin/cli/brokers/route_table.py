"""A ranking of sites as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slurm_rl_plugin.brokers.live.asked_sites import SiteAnswer
from slurm_rl_plugin.brokers.port import RankedSite
from slurm_rl_plugin.cli.tables import print_table, slurm_duration, slurm_time

HEADER = ("SITE", "START", "WAIT", "UTILITY", "PRICE", "REASON")


def print_ranking(ranking: Sequence[RankedSite], silent: Sequence[SiteAnswer], now: float) -> None:
    """The sites, best first, then those that make no offer and why."""
    rows: list[list[Any]] = [[each.site, *_offered(each, now), each.reason] for each in ranking]
    rows += [[each.name, None, None, None, None, each.why_not] for each in silent]
    print_table(HEADER, rows)


def _offered(each: RankedSite, now: float) -> list[Any]:
    offer = each.offer
    if offer is None:
        return [None] * 4
    wait = slurm_duration(max(offer.expected_start - now, 0.0))
    return [slurm_time(offer.expected_start), wait, offer.utility, offer.price]


def ranking_document(
    ranking: Sequence[RankedSite],
    silent: Sequence[SiteAnswer],
    submitted: tuple[str, int, str] | None,
    now: float,
) -> dict[str, Any]:
    """The same for programs; times in seconds since the epoch."""
    return {
        "time": now,
        "ranking": [_entry(each) for each in ranking],
        "skipped": [{"site": each.name, "why": each.why_not} for each in silent],
        "submitted": None
        if submitted is None
        else {"site": submitted[0], "job_id": submitted[1], "said": submitted[2]},
    }


def _entry(each: RankedSite) -> dict[str, Any]:
    offer = each.offer
    entry: dict[str, Any] = {"site": each.site, "merit": each.merit, "reason": each.reason}
    if offer is not None:
        entry |= {
            "expected_start": offer.expected_start,
            "utility": offer.utility,
            "price": offer.price,
            "processors": offer.processors,
            "published": offer.published,
        }
    return entry
