"""Clients that reach a port: of the metrics, and of the offers of a site."""

from __future__ import annotations

import io
import itertools
import json
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from slurm_rl_plugin.services.offer_service import build_offer_pages
from slurm_rl_plugin.serving.page_server import OF_ONE_CLIENT, OpenConnections
from slurm_rl_plugin.serving.tls import reading_context
from tests.fakes.certificates import self_signed
from tests.fakes.fake_cluster import FakeCluster

TOKEN = "t" * 40
ATTACKER = Path(__file__).with_name("slow_client.py")


class Site:
    """The offer service of a configured site, asked without a socket."""

    def __init__(self, folder: Path) -> None:
        (folder / "token").write_text(TOKEN)
        path = folder / "slurm-rl.toml"
        path.write_text(f'[offer]\ntoken_file = "{folder}/token"\nrequests_per_minute = 60\n')
        self.pages = build_offer_pages(read_configuration(path, environment={}))

    def ask(self, address: str, token: str, path: str = "/offer", method: str = "POST") -> int:
        """The status of one answer."""
        said: list[tuple[str, dict[str, str]]] = []
        body = json.dumps({"processors": 1, "time_limit": 600}).encode()
        environ: dict[str, Any] = {
            "REMOTE_ADDR": address,
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_AUTHORIZATION": f"Bearer {token}",
            "wsgi.input": io.BytesIO(body),
        }
        self.pages(environ, lambda status, headers: said.append((status, dict(headers))))
        [(status, self.headers)] = said
        return int(status[:3])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name, value in FakeCluster(tmp_path).env.items():
        monkeypatch.setenv(name, value)
    return Site(tmp_path)


@pytest.mark.parametrize("path", ["/offer", "/utilities", "/"])
def test_20000_requests_without_the_token_take_none_from_its_holder(site: Site, path: str) -> None:
    """They come from the holder's own address, as another user of his login node sends them."""
    statuses = {site.ask("127.0.0.1", "wrong" * 8, path) for _ in range(20_000)}
    assert statuses == {401, 429}
    assert 0 < int(site.headers["Retry-After"]) <= 3
    assert site.ask("127.0.0.9", "wrong" * 8, path) == 401
    assert site.headers["WWW-Authenticate"] == "Bearer"
    assert site.ask("127.0.0.1", TOKEN) == 200


def test_a_thousand_addresses_without_the_token_do_not_make_the_holders_forgotten(
    site: Site,
) -> None:
    """Neither is he kept out, nor does his own count begin anew when others are remembered."""
    while site.ask("127.0.0.1", TOKEN, "/nothing") != 429:
        pass
    begin = time.monotonic()
    for number in range(5000):
        site.ask(f"127.1.{number // 250}.{number % 250}", "wrong" * 8)
    more = 0
    while site.ask("127.0.0.1", TOKEN, "/nothing") != 429:
        more += 1
    assert more <= time.monotonic() - begin + 1.0  # one a second; anew it would be 20
    assert site.ask("127.0.0.2", TOKEN) == 200


def test_a_holder_has_no_more_requests_than_the_site_says(site: Site) -> None:
    statuses = [site.ask("127.0.0.1", TOKEN, "/nothing") for _ in range(40)]
    assert statuses.count(404) in range(20, 23)
    assert statuses.count(429) >= 18


@contextmanager
def attacker(port: int, *words: str) -> Iterator[None]:
    """A process that holds connections until the test is over."""
    process = subprocess.Popen(
        [sys.executable, str(ATTACKER), str(port), *words], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(1.0)
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(timeout=10)
        process.stdout.close()


#: Seconds that Prometheus waits for an answer by default.
SCRAPE_TIMEOUT = 10.0


def scrapes(url: str, context: ssl.SSLContext | None = None) -> int:
    """How many of ten have their answer as long as Prometheus waits."""
    good = 0
    for _ in range(10):
        try:
            with urllib.request.urlopen(url, timeout=SCRAPE_TIMEOUT, context=context) as answer:
                good += b"slurm_rl_long" in answer.read()
        except OSError as error:
            sys.stderr.write(f"lost: {error!r}\n")
        time.sleep(0.05)
    return good


@pytest.fixture
def metrics() -> CycleMetrics:
    """Of 1 MB, which no socket takes at once."""
    metrics = CycleMetrics(CollectorRegistry(), {})
    long = Gauge("slurm_rl_long", "words", ["name"], registry=metrics.registry)
    for number in range(400):
        long.labels(f"{'y' * 2500}{number}").set(1.0)
    return metrics


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.9", "many"])
@pytest.mark.parametrize("kind", ["silent", "bytes", "untaken", "body", "head"])
def test_one_client_that_holds_all_it_can_keeps_no_scrape_out(
    metrics: CycleMetrics, kind: str, source: str
) -> None:
    """Prometheus may have the same address as the attacker, and he as many as the loopback has."""
    port = serve_metrics(metrics, "127.0.0.1", 0)
    with attacker(port, "64", source, kind, "0.01"):
        assert scrapes(f"http://127.0.0.1:{port}/metrics") == 10


def test_a_client_that_stays_after_its_answer_keeps_no_place(metrics: CycleMetrics) -> None:
    """Nor does one whose request is refused hold up the thread that accepts connections."""
    port = serve_metrics(metrics, "127.0.0.1", 0)
    begin = time.monotonic()
    for head in (b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /metrics\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=SCRAPE_TIMEOUT) as client:
            client.sendall(head)
            while client.recv(1 << 20):
                pass
    assert time.monotonic() - begin < 2.0


def test_no_variable_of_a_parent_chooses_what_is_listened_on(
    metrics: CycleMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    port = serve_metrics(metrics, "127.0.0.1", 0)
    assert scrapes(f"http://127.0.0.1:{port}/metrics") == 10


#: A service of its own: it says its port, and then what memory it has taken for each line it reads.
SERVICE = """
import re, sys
from prometheus_client import CollectorRegistry, Gauge
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
metrics = CycleMetrics(CollectorRegistry(), {})
Gauge("slurm_rl_long", "words", registry=metrics.registry)
print(serve_metrics(metrics, "127.0.0.1", 0), flush=True)
for _ in sys.stdin:
    print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1], flush=True)
"""
#: KiB above idle that a flood may cost a service.
MOST_MEMORY = 64 * 1024


@pytest.mark.parametrize("kind", ["head", "chunk", "negative"])
def test_a_flood_of_long_requests_costs_little_memory_and_keeps_nobody_out(kind: str) -> None:
    command = [sys.executable, "-c", SERVICE]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        port = int(service.stdout.readline())

        def peak() -> int:
            print(file=service.stdin, flush=True)
            assert service.stdout is not None
            return int(service.stdout.readline())

        url, answered = f"http://127.0.0.1:{port}/metrics", 0
        assert scrapes(url) == 10
        idle = peak()
        with (
            attacker(port, "64", "many", kind, "0"),
            attacker(port, "64", "127.0.0.1", kind, "0"),
        ):
            for _ in range(3):
                answered += scrapes(url)
        assert peak() - idle < MOST_MEMORY
        assert answered == 30
        service.stdin.close()


def test_who_has_just_come_is_not_put_out_for_one_that_talks_without_an_end() -> None:
    """Between its connection and its request an honest client has sent nothing yet."""
    places, pairs = OpenConnections(), [socket.socketpair() for _ in range(OF_ONE_CLIENT)]
    for number, (theirs, ours) in enumerate(pairs):
        if number < OF_ONE_CLIENT - 1:
            theirs.sendall(b"x")
        places.begin(ours, "127.0.0.1", float(number))
    now = float(OF_ONE_CLIENT)
    for late, put_out in ((-0.9, 0), (0.0, OF_ONE_CLIENT - 1)):  # silent for a second
        assert places.make_room("127.0.0.1", now + late)
        theirs, ours = pairs[put_out]
        ours.setblocking(False)
        assert ours.recv(9)[1:] == b""
        places.begin(ours, "127.0.0.1", now)
    for each in itertools.chain.from_iterable(pairs):
        each.close()


def test_who_never_begins_tls_keeps_no_scrape_out(metrics: CycleMetrics, tmp_path: Path) -> None:
    files = self_signed(tmp_path, "head")
    port = serve_metrics(metrics, "127.0.0.1", 0, files)
    with attacker(port, "64", "127.0.0.1", "silent", "0.01"):
        context = reading_context(files.certificate)
        assert scrapes(f"https://127.0.0.1:{port}/metrics", context) == 10
