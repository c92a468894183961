"""Brokers that go by what the sites offer, and by nothing else."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.remote_site import SiteAnswer
from slurm_rl_plugin.brokers.registry import EarliestStartBroker, OfferedValueBroker
from slurm_rl_plugin.domain.site import SiteOffer
from slurm_rl_plugin.errors import ConfigurationError

REQUEST = job_request({"processors": 2})


def site(name: str, start: float, utility: float, processors: int = 8) -> SiteAnswer:
    offer = SiteOffer(
        site=name, expected_start=start, utility=utility, price=0.0, processors=processors
    )
    return SiteAnswer(name=name, promised=offer)


def test_the_earliest_start_is_first_and_silent_sites_are_left_out() -> None:
    sites = [site("a", 90.0, 0.1), site("b", 30.0, 0.2), SiteAnswer(name="c", why_not="silent")]
    ranking = EarliestStartBroker().rank(REQUEST, sites)
    assert [each.site for each in ranking] == ["b", "a"]
    assert ranking[0].merit > ranking[1].merit
    assert [each.reason for each in ranking] == [
        "would start it first",
        "would start it 1 min later",
    ]


def test_of_two_equal_starts_the_larger_site_is_first() -> None:
    sites = [site("a", 30.0, 0.5, 8), site("b", 30.0, 0.5, 64)]
    assert [each.site for each in EarliestStartBroker().rank(REQUEST, sites)] == ["b", "a"]


def market(formula: str) -> OfferedValueBroker:
    return OfferedValueBroker(formula, lambda job: False, lambda: 10.0)


def test_the_market_goes_by_the_formula_of_the_user() -> None:
    sites = [site("a", 90.0, 0.7), site("b", 30.0, 0.2), SiteAnswer(name="c", why_not="silent")]
    patient = market("1000 * utility - wait").rank(REQUEST, sites)
    assert [(each.site, each.merit) for each in patient] == [("a", 620.0), ("b", 180.0)]
    hasty = market("-wait").rank(REQUEST, sites)
    assert [(each.site, each.merit) for each in hasty] == [("b", -20.0), ("a", -80.0)]


def test_an_offer_for_which_the_formula_has_no_value_is_none() -> None:
    sites = [site("a", 10.0, 0.7), site("b", 30.0, 0.2)]
    assert [each.site for each in market("1 / wait").rank(REQUEST, sites)] == ["b"]
    with pytest.raises(ConfigurationError):
        market("wait ** 99")
