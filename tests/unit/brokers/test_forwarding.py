"""How far a request goes, and what is taken of the answers of others."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from slurm_rl_plugin.brokers.live.job_document import (
    LONGEST_LIFE,
    MOST_FORWARDED,
    MOST_HOPS,
    Forwarding,
    forwarded_offers,
    forwarding_of,
    job_request,
    offer_document,
)
from slurm_rl_plugin.brokers.live.offer_pages import Forwarder
from slurm_rl_plugin.brokers.live.remote_site import ask_sites
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import RequestRefused

JOB = job_request({"processors": 1})
FAR = Forwarding(request_id="0123456789", hops=2, time_to_live=10.0)


def offer(site: str) -> SiteOffer:
    return SiteOffer(site=site, expected_start=5.0, utility=0.5, price=0.0, processors=8)


def test_what_a_request_says_of_its_way_comes_back() -> None:
    assert forwarding_of(FAR.document()) == FAR
    assert forwarding_of({"processors": 1}) is None
    last = Forwarding(request_id="0123456789", hops=0, time_to_live=1.0)
    assert last.document() == {}  # which a site of any release reads


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", None),
        ("request_id", "short"),
        ("request_id", "with a blank"),
        ("hops", -1),
        ("hops", MOST_HOPS + 1),
        ("hops", 1.0),
        ("time_to_live", 0),
        ("time_to_live", LONGEST_LIFE + 1),
        ("time_to_live", "5"),
    ],
)
def test_a_way_out_of_bounds_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(RequestRefused, match=field):
        forwarding_of(FAR.document() | {field: value})


class Others:
    """What a forwarder asks; keeps how far the request may go."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked: list[Forwarding] = []
        self.seconds = seconds

    def __call__(
        self, request: JobRequest, forwarding: Forwarding
    ) -> tuple[Sequence[SiteOffer], dict[str, str]]:
        self.asked.append(forwarding)
        time.sleep(self.seconds)
        return [offer("far")], {"dark": "no answer"}


def test_each_site_forwards_with_fewer_hops_and_less_time() -> None:
    others = Others()
    assert Forwarder(others, 8).begin(JOB, FAR)() == [offer("far")]
    assert others.asked == [
        Forwarding(request_id=FAR.request_id, hops=1, time_to_live=pytest.approx(8.0))
    ]
    bounded = Others()
    Forwarder(bounded, 1).begin(JOB, FAR)()
    assert bounded.asked[0].hops == 0  # by the site, whatever was asked


def test_others_are_not_waited_for_longer_than_the_time_to_live() -> None:
    forwarder, began = Forwarder(Others(seconds=5.0), 2), time.monotonic()
    short = Forwarding(request_id="0123456789", hops=1, time_to_live=0.2)
    assert forwarder.begin(JOB, short)() == []
    assert time.monotonic() - began < 2.0


def test_of_the_offers_of_others_faulty_ones_are_left_out() -> None:
    good = offer_document(offer("far"))
    faulty: list[Any] = [7, None, {}, {**good, "utility": 2.0}]
    faulty += [{**good, "site": name} for name in ("a,b", "--x", "", "a b", "x" * 65, 7)]
    assert forwarded_offers({"forwarded": [*faulty, good]}) == [offer("far")]
    assert forwarded_offers({"forwarded": "far"}) == []
    assert len(forwarded_offers({"forwarded": [good] * 999})) == MOST_FORWARDED


class Answering:
    """A site that answers with offers."""

    def __init__(self, name: str, offers: list[SiteOffer]) -> None:
        self.name, self.offers = name, offers

    def answers(self, request: JobRequest, forwarding: Forwarding | None) -> list[SiteOffer]:
        return self.offers


def test_a_sites_own_offer_goes_before_what_another_says_of_it() -> None:
    said = SiteOffer(site="far", expected_start=0.0, utility=1.0, price=0.0, processors=8)
    near = Answering("near", [offer("near"), said, offer("third")])
    found = ask_sites([near, Answering("far", [offer("far")])], JOB, 5.0, time.monotonic)  # type: ignore[list-item]
    assert [each.name for each in found] == ["near", "far", "third"]
    assert found[1].promised == offer("far")
    silent = Answering("near", [said])
    (first, second) = ask_sites([silent], JOB, 5.0, time.monotonic)  # type: ignore[list-item]
    assert (first.why_not, second.promised) == ("makes no offer itself", said)


def test_questions_to_others_are_bounded() -> None:
    places = threading.BoundedSemaphore(1)
    sites = [Answering(name, [offer(name)]) for name in ("a", "b")]
    places.acquire()
    none = ask_sites(sites, JOB, 5.0, time.monotonic, places=places)  # type: ignore[arg-type]
    assert [each.promised for each in none] == [None, None]
    places.release()
    ask_sites(sites, JOB, 5.0, time.monotonic, places=places)  # type: ignore[arg-type]
    assert places.acquire(timeout=5.0)
