"""Managers ask their neighbours, as far and as long as a request allows."""

from dataclasses import dataclass, field, replace

import pytest

from slurm_rl_plugin.brokers.market.domains import (
    KEPT_OFFERS,
    MetaManager,
    UtilityRequest,
    reach,
)
from slurm_rl_plugin.brokers.market.functions import user_function
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError

NAN = float("nan")


def request(time_limit: float = 600.0) -> JobRequest:
    job = JobDescription(
        partition="",
        qos="",
        name="",
        time_limit=time_limit,
        has_batch_script=None,
        account="",
        user="",
    )
    return JobRequest(job=job, processors=4)


@dataclass
class FixedSite:
    name: str
    start: float | None
    price: float = 0.0
    asked: list[JobRequest] = field(default_factory=list)

    def offer(self, request: JobRequest) -> SiteOffer | None:
        self.asked.append(request)
        if self.start is None:
            return None
        return SiteOffer(
            site=self.name,
            expected_start=self.start,
            utility=0.5,
            price=self.price,
            processors=16,
        )


def wish(utility: str = "-StartTime", hops: int = 3, expires: float = 1e9) -> UtilityRequest:
    return UtilityRequest(request(), user_function(utility), 1000.0, hops, expires)


def chain(count: int, clock=lambda: 1000.0) -> list[MetaManager]:
    """Domains a, b, c ... in a ring; each site starts later the nearer it is."""
    managers = [
        MetaManager(chr(97 + place), [FixedSite(f"site-{place}", 2000.0 - place)], clock)
        for place in range(count)
    ]
    for place, manager in enumerate(managers):
        manager.neighbours += [managers[(place + 1) % count], managers[place - 1]]
    return managers


@pytest.mark.parametrize(("hops", "reached"), [(0, {0}), (1, {0, 1, 5}), (2, {0, 1, 2, 4, 5})])
def test_requests_go_no_further_than_their_hops(hops, reached):
    managers = chain(6)
    found = managers[0].negotiate(wish(hops=hops))
    assert {each.offer.site for each in found} == {f"site-{place}" for place in reached}
    assert found[0].offer.site == f"site-{max(reached)}"


def test_no_domain_answers_twice():
    managers = chain(4)
    managers[0].negotiate(wish(hops=9))
    assert [len(manager.sites[0].asked) for manager in managers] == [1, 1, 1, 1]


def test_requests_are_passed_on_only_while_time_is_left():
    now = iter([1000.0, 1005.0, 1011.0])
    managers = chain(6, clock=lambda: next(now))
    found = managers[0].negotiate(wish(hops=5, expires=1010.0))
    assert {each.offer.site for each in found} == {"site-0", "site-1", "site-5"}


def test_a_manager_keeps_its_best_offers_only():
    sites = [FixedSite(f"s{place}", 1100.0 - place) for place in range(KEPT_OFFERS + 4)]
    found = MetaManager("a", sites, lambda: 1000.0).negotiate(wish(hops=0))
    last = KEPT_OFFERS + 3
    assert [each.offer.site for each in found] == [f"s{last - place}" for place in range(3)]


def test_reach_of_a_line():
    line = {"a": ["b"], "b": ["c"], "c": []}
    assert reach(line, 0).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert reach(line, 1).tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
    assert reach(line, 10**9).tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]


def test_reach_names_an_unknown_neighbour():
    with pytest.raises(ConfigurationError, match="'z' is a neighbour but is not described"):
        reach({"a": ["z"]}, 1)


def values_of(sites: list[FixedSite], asked: UtilityRequest) -> list[tuple[str, float]]:
    found = MetaManager("a", sites, lambda: 1000.0).negotiate(asked)
    return [(each.offer.site, each.value) for each in found]


def test_offers_are_ranked_by_the_users_own_function():
    sites = [FixedSite("soon", 1010.0, price=9.0), FixedSite("cheap", 1500.0, price=1.0)]
    assert values_of(sites, wish()) == [("soon", -10.0), ("cheap", -500.0)]
    assert values_of(sites, wish("-JobCost")) == [("cheap", -1.0), ("soon", -9.0)]


def test_equal_offers_go_to_the_cheaper():
    sites = [FixedSite("a", 1010.0, price=9.0), FixedSite("b", 1010.0, price=1.0)]
    assert values_of(sites, wish()) == [("b", -10.0), ("a", -10.0)]


def test_sites_without_an_offer_or_without_a_value_are_left_out():
    sites = [FixedSite("down", None), FixedSite("free", 1100.0), FixedSite("dear", 1200.0, 2.0)]
    assert values_of(sites, wish("1 / JobCost")) == [("dear", 0.5)]
    assert values_of([], wish()) == []


def test_a_job_without_a_time_limit_can_be_asked_for_its_start_but_not_for_its_end():
    site = FixedSite("a", 1100.0)
    endless = replace(wish(), request=request(NAN))
    assert values_of([site], endless) == [("a", -100.0)]
    by_end = replace(wish("-EndTime"), request=request(NAN))
    assert values_of([site], by_end) == []
