"""Tokens and rates of the offer service."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.brokers.live.offer_pages import OfferPages
from slurm_rl_plugin.brokers.live.remote_site import SiteAddress
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.serving.clients import MOST_CLIENTS, RequestRate, SharedToken, read_token

TOKEN = "t" * 40


def test_a_client_may_ask_some_at_once_and_then_at_his_rate() -> None:
    now = [0.0]
    rate = RequestRate(per_minute=60.0, at_once=3.0, monotonic=lambda: now[0])
    assert [rate.pause("10.0.0.1") for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert rate.pause("10.0.0.2") == 0.0
    now[0] = 0.5
    assert rate.pause("10.0.0.1") == 0.5
    now[0] = 1.0
    assert [rate.pause("10.0.0.1") for _ in range(2)] == [0.0, 1.0]


def test_what_a_request_cost_is_known_behind_it() -> None:
    now = [0.0]
    rate = RequestRate(per_minute=60.0, at_once=6.0, monotonic=lambda: now[0])
    assert [rate.pause("a", 4.0) for _ in range(2)] == [0.0, 2.0]
    rate.give_back("a", 3.0)
    assert rate.pause("a", 4.0) == 0.0
    rate.give_back("a", -5.0)  # it cost more than was taken: he owes that
    assert rate.pause("a", 4.0) == 8.0
    rate.give_back("a", 100.0)
    assert [rate.pause("a", 6.0) for _ in range(2)] == [0.0, 6.0]


def test_a_network_of_ipv6_is_one_client_and_a_mapped_address_that_of_ipv4() -> None:
    rate = RequestRate(per_minute=60.0, at_once=1.0, monotonic=lambda: 0.0)
    assert rate.pause("2001:db8::1") == 0.0
    assert rate.pause("2001:db8::2") > 0.0
    assert rate.pause("2001:db8:0:1::2") == 0.0
    assert rate.pause("10.0.0.1") == 0.0
    assert rate.pause("::ffff:10.0.0.1") > 0.0
    assert rate.pause("fe80::1%eth0") == 0.0


def test_clients_that_are_remembered_are_bounded() -> None:
    rate = RequestRate(per_minute=60.0, at_once=1.0, monotonic=lambda: 0.0)
    for number in range(MOST_CLIENTS + 10):
        rate.pause(f"client-{number}")
    assert len(rate._left) == MOST_CLIENTS


@pytest.mark.parametrize("text", ["", "short\n", "x" * 40 + " y", "é" * 40, "x" * 600])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigurationError, match="holds no token"):
        read_token(tmp_path / "token")


@pytest.mark.parametrize(
    "header", ["", "Bearer", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN} ", "é"]
)
def test_only_the_whole_header_counts(tmp_path: Path, header: str) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    token = SharedToken(tmp_path / "token")
    assert token.is_in(f"Bearer {TOKEN}")
    assert not token.is_in(header)


def test_who_asks_too_often_hears_when_to_ask_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)

    def rate() -> RequestRate:
        return RequestRate(per_minute=60.0, at_once=1.0, monotonic=lambda: 0.0)

    pages = OfferPages(
        answer=lambda document: {},
        token=SharedToken(tmp_path / "token"),
        rate=rate(),
        strangers=rate(),
        monotonic=lambda: 0.0,
    )
    said: list[tuple[str, dict[str, str]]] = []

    def start_response(status: str, headers: list[tuple[str, str]]) -> None:
        said.append((status, dict(headers)))

    environ = {"wsgi.input": None, "REMOTE_ADDR": "10.0.0.1", "REQUEST_METHOD": "GET"}
    pages(dict(environ), start_response)
    pages(dict(environ), start_response)
    holder = {**environ, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}
    pages(dict(holder), start_response)
    pages(dict(holder), start_response)
    assert [status[:3] for status, _ in said] == ["401", "429", "404", "429"]
    assert said[0][1]["WWW-Authenticate"] == "Bearer"
    assert said[1][1]["Retry-After"] == "1"


@pytest.mark.parametrize(
    "url",
    [
        "http://host.example:9344",
        "http://10.0.0.1",
        "ftp://localhost",
        "https://",
        "https://host:0",
        "https://host:99999",
        "https://host:port",
        "https://[::1",
        "https://user:word@host",
        "https://host?x=1",
        "host:9344",
        "http://localhost.evil.example",
    ],
)
def test_a_token_is_sent_by_tls_or_stays_on_this_host(url: str) -> None:
    with pytest.raises(ConfigurationError):
        SiteAddress(name="x", url=url, token_file=Path("token"))
    for good in (
        "https://host:9344",
        "https://host/prefix",
        "http://127.0.0.1:1",
        "http://[::1]:2",
    ):
        SiteAddress(name="x", url=good, token_file=Path("token"))
