"""The ranking by published utilities, and what happens where a site is silent."""

from __future__ import annotations

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.remote_site import SiteAnswer
from slurm_rl_plugin.brokers.registry import SiteUtilityBroker
from slurm_rl_plugin.domain.site import SiteOffer

REQUEST = job_request({"processors": 1, "account": "physics"})


def site(name: str, start: float, published: float | None = None) -> SiteAnswer:
    """One that publishes nothing offers the time utility of the wait instead."""
    offer = SiteOffer(
        site=name,
        expected_start=start,
        utility=0.99 if published is None else published,
        price=0.0,
        processors=8,
        published=published is not None,
    )
    return SiteAnswer(name=name, promised=offer)


def test_the_site_that_expects_most_comes_first_however_late_it_starts_the_job() -> None:
    sites = [site("north", 1300.0, 0.9), site("east", 1100.0, 0.2), site("south", 1200.0, 0.5)]
    ranking = SiteUtilityBroker().rank(REQUEST, sites)
    assert [each.site for each in ranking] == ["north", "south", "east"]
    assert [each.merit for each in ranking] == [0.9, 0.5, 0.2]
    assert ranking[0].reason == "expects a utility of 0.900 from it"
    assert ranking[0].offer == sites[0].promised
