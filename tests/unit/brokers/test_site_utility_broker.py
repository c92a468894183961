"""The ranking by published utilities, and what happens where a site is silent."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.brokers.earliest_start import EarliestStartBroker
from slurm_rl_plugin.brokers.site_utility import SiteUtilityBroker
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.domain.published_utilities import PublishedUtilities
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer

NOW = 1000.0


@dataclass(frozen=True)
class PlainSite:
    name: str
    start: float | None

    def offer(self, request: JobRequest) -> SiteOffer | None:
        if self.start is None:
            return None
        return SiteOffer(
            site=self.name, expected_start=self.start, utility=0.0, price=0.0, processors=10
        )


def request(qos: str = "", account: str = "physics") -> JobRequest:
    job = JobDescription(
        partition="work",
        qos=qos,
        name="",
        time_limit=7200.0,
        has_batch_script=True,
        account=account,
        user="ann",
    )
    return JobRequest(job=job, processors=1)


def publication(
    site: str, batch: float, interactive: float, age: float = 0.0
) -> PublishedUtilities:
    return PublishedUtilities(
        site=site,
        time=NOW - age,
        valid_for=60.0,
        model="abc",
        utilities={"batch": {"physics": batch}, "interactive": {"physics": interactive}},
    )


def broker(*published: PublishedUtilities) -> SiteUtilityBroker:
    known = {each.site: each for each in published}
    return SiteUtilityBroker(known.get, lambda: NOW)


SITES = [PlainSite("north", 1300.0), PlainSite("east", 1100.0), PlainSite("south", 1200.0)]


def test_the_site_that_expects_most_of_the_jobs_class_comes_first() -> None:
    asked = broker(
        publication("north", 0.9, 0.1),
        publication("east", 0.2, 0.7),
        publication("south", 0.5, 0.6),
    )
    batch = asked.rank(request(), SITES)
    assert [each.site for each in batch] == ["north", "south", "east"]
    assert [each.merit for each in batch] == [0.9, 0.5, 0.2]
    assert batch[0].reason == "It expects a utility of 0.900 of batch jobs of physics."
    assert batch[0].offer is not None
    assert batch[0].offer.expected_start == 1300.0
    quick = asked.rank(request(qos="interactive"), SITES)
    assert [each.site for each in quick] == ["east", "south", "north"]


def test_nothing_fresh_falls_back_to_the_earliest_start() -> None:
    stale = broker(publication("north", 0.9, 0.9, age=61.0))
    ranked = stale.rank(request(), SITES)
    assert [each.site for each in ranked] == ["east", "south", "north"]
    assert ranked[0].reason == (
        "It would start there in 100 s, and it has published nothing fresh of batch jobs of "
        "physics."
    )
    plain = EarliestStartBroker(larger_first=False).rank(request(), SITES)
    assert [(each.site, each.merit) for each in plain] == [(r.site, r.merit) for r in ranked]


def test_a_site_that_speaks_comes_before_silent_ones() -> None:
    asked = broker(publication("north", 0.1, 0.1), publication("east", 0.2, 0.2, age=100.0))
    assert [each.site for each in asked.rank(request(), SITES)] == ["north", "east", "south"]
    other = asked.rank(request(account="history"), SITES)
    assert [each.site for each in other] == ["east", "south", "north"]


def test_a_site_that_cannot_run_the_job_is_left_out() -> None:
    asked = broker(publication("north", 0.9, 0.9))
    assert asked.rank(request(), [PlainSite("north", None)]) == []
    assert [each.site for each in asked.rank(request(), [PlainSite("north", None), SITES[1]])] == [
        "east"
    ]


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.8]), st.floats(0, 1e9)), max_size=6))
def test_equal_utilities_go_by_the_earlier_start(rows: list[tuple[float, float]]) -> None:
    sites = [PlainSite(f"site{place}", start) for place, (_, start) in enumerate(rows)]
    known = [publication(site.name, u, u) for site, (u, _) in zip(sites, rows, strict=True)]
    ranked = broker(*known).rank(request(), sites)
    keys = [(-each.merit, each.offer.expected_start) for each in ranked if each.offer]
    assert keys == sorted(keys)
    assert sorted(each.site for each in ranked) == sorted(site.name for site in sites)
