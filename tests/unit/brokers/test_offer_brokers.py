"""Brokers that go by what the sites offer, and by nothing else."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.remote_site import SiteAnswer
from slurm_rl_plugin.brokers.registry import OfferedValueBroker
from slurm_rl_plugin.domain.site import SiteOffer
from slurm_rl_plugin.errors import ConfigurationError

REQUEST = job_request({"processors": 2})


def site(name: str, start: float, utility: float, processors: int = 8) -> SiteAnswer:
    offer = SiteOffer(
        site=name, expected_start=start, utility=utility, price=0.0, processors=processors
    )
    return SiteAnswer(name=name, promised=offer)


def market(formula: str) -> OfferedValueBroker:
    return OfferedValueBroker(formula, lambda job: False, lambda: 10.0)


def test_an_offer_for_which_the_formula_has_no_value_is_none() -> None:
    sites = [site("a", 10.0, 0.7), site("b", 30.0, 0.2)]
    assert [each.site for each in market("1 / wait").rank(REQUEST, sites)] == ["b"]
    with pytest.raises(ConfigurationError):
        market("wait ** 99")
