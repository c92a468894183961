"""Clients that name themselves in the header of the portal's proxy."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from slurm_rl_plugin.serving.page_server import serve_pages
from tests.unit.forecasts.test_forecast_pages import ANN, BEN, ROOT, asked, pages

HEADER, TOKEN = "X-Forwarded-User", "Authorization: Bearer right"


@pytest.fixture(scope="module")
def port() -> int:
    return serve_pages(pages(), "127.0.0.1", 0, section="forecast")


def answered(port: int, *lines: str, path: str = "/start") -> tuple[int, dict[str, Any]]:
    """Status and document of a request whose head has these lines."""
    head = "\r\n".join([f"GET {path} HTTP/1.0", *lines, "", ""])
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as client:
        client.sendall(head.encode("latin-1"))
        text = client.makefile("rb").read()
    return int(text[9:12]), json.loads(text.partition(b"\r\n\r\n")[2])


def test_the_portal_names_its_user(port: int) -> None:
    assert [job["job"] for job in answered(port, TOKEN, f"{HEADER}: ann")[1]["jobs"]] == [7]
    assert answered(port, TOKEN, f"{HEADER}: ben")[1]["jobs"] == []
    assert answered(port, TOKEN, f"{HEADER}: ben", path="/start?user=ann")[0] == 404
    assert answered(port, TOKEN, f"{HEADER}: ben", path="/start?all=1")[1]["jobs"] == []
    assert answered(port, TOKEN, f"{HEADER}: root", path="/start?job=7")[0] == 404


@pytest.mark.parametrize("who", [ANN, BEN, ROOT, {"REMOTE_ADDR": "10.0.0.1"}])
def test_a_header_without_the_token_is_refused_whoever_sends_it(who: dict[str, str]) -> None:
    for more in ({}, {"HTTP_AUTHORIZATION": "Bearer wrong"}):
        named = {"HTTP_X_FORWARDED_USER": "ann", **more, **who}
        assert asked(pages(), "job=7", **named)[0] == "401 Unauthorized"


@pytest.mark.parametrize(
    "name", ["", "(null)", "-", "ann ben", "ann, ben", "ann\tx", "../ann", "a" * 300]
)
def test_a_portal_that_names_no_user_is_refused(port: int, name: str) -> None:
    """Apache writes (null) without a sign-in; the token alone would see all jobs."""
    assert answered(port, TOKEN, f"{HEADER}: {name}", path="/start?all=1")[0] == 401


def test_a_proxy_that_sets_another_header_shows_nothing(port: int) -> None:
    """Its token would show every browser the jobs of all users."""
    for path in ("/start?all=1", "/start?user=ann", "/start?job=7"):
        for sign in ("X-Forwarded-For: 10.0.0.9", "X-Real-IP: 10.0.0.9", "Forwarded: for=10.0.0.9"):
            assert answered(port, TOKEN, sign, path=path)[0] == 401
        assert answered(port, TOKEN, path=path)[0] == 200


def test_no_other_spelling_of_the_header_counts(port: int) -> None:
    """A proxy replaces the header that it sets, and lets other spellings of a client's pass."""
    spellings = ("X_Forwarded_User", "X-Forwarded_User", "x_forwarded-user")
    for each in spellings:
        for lines in ((f"{HEADER}: ben", f"{each}: ann"), (f"{each}: ann", f"{HEADER}: ben")):
            assert answered(port, TOKEN, *lines)[1]["jobs"] == []
        assert answered(port, f"{each}: ann", path="/start?job=7")[0] == 401


@pytest.mark.parametrize("more", [f"{HEADER}: ann", f"{HEADER.lower()}: ann", "\tann", TOKEN])
def test_a_header_that_is_given_twice_counts_for_nobody(port: int, more: str) -> None:
    """A proxy that adds its header leaves the client's; the last one must not win."""
    lines = (TOKEN, f"{HEADER}: ben", more)
    for each in (lines, (lines[0], lines[2], lines[1])):
        if not each[1].startswith("\t"):
            assert answered(port, *each)[0] == 401


def test_a_header_that_no_key_names_is_nothing() -> None:
    service = pages()
    service.user_key = ""
    named = {"HTTP_X_FORWARDED_USER": "ann", **BEN}
    assert asked(service, "job=7", **named)[0] == "404 Not Found"
