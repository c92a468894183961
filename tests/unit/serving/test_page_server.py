"""The endpoint over real sockets: pages, TLS, and clients that mean no good."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from slurm_rl_plugin.services.configured_site import read_live_state
from slurm_rl_plugin.serving import page_server
from slurm_rl_plugin.serving.page_server import PageServer, serve_pages
from slurm_rl_plugin.serving.tls import ServedTls, TlsFiles, reading_context
from tests.fakes.certificates import self_signed


@pytest.fixture
def metrics() -> CycleMetrics:
    metrics = CycleMetrics(
        CollectorRegistry(), {"name": "<b>model</b>", "sha256": "0123456789abcdef"}
    )
    metrics.publish(
        CycleReport(time=1795300000.0, mode="fallback", policy="p", fallback_reason="broken")
    )
    return metrics


@pytest.fixture
def port(metrics: CycleMetrics) -> int:
    return serve_metrics(metrics, "127.0.0.1", 0)


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_only_three_pages_are_there(port: int) -> None:
    assert get(port, "/metrics")[0] == 200
    assert "slurm_rl_up 1.0" in get(port, "/metrics?x=1")[1]
    assert get(port, "/metrics/") == (404, "see /, /metrics and /state\n")
    assert get(port, "/../../etc/passwd")[0] == 404
    assert get(port, "/metrics", "POST")[0] == 405
    assert get(port, "/", "DELETE")[0] == 405


def test_our_fault_is_answered_logged(
    metrics: CycleMetrics, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def collect(self) -> Iterator[None]:
            raise ValueError("broken")

        def describe(self) -> list[None]:
            return []

    metrics.registry.register(Broken())  # type: ignore[arg-type]
    assert get(port, "/metrics")[0] == 500
    metrics.state = None  # type: ignore[assignment]
    assert get(port, "/")[0] == 500
    assert "metrics=broken path=/metrics" in caplog.text


def test_ipv6_is_served(metrics: CycleMetrics) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    port = serve_metrics(metrics, "::1", 0)
    assert isinstance(read_live_state("::1", port), LiveState)


def silent_clients(port: int, number: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port), 5) for _ in range(number)]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many connections are served by the servers of this test."""
    servers: list[PageServer] = []
    start = page_server._start

    def noted(found: PageServer, name: str) -> None:
        servers.append(found)
        start(found, name)

    monkeypatch.setattr(page_server, "_start", noted)
    return lambda: sum(
        thread.conn is not None for each in servers for thread in each.requests._threads
    )


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_client_that_sends_byte_by_byte_is_put_out(
    metrics: CycleMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time-out of each read alone would let it stay for ever."""
    monkeypatch.setattr(page_server, "REQUEST_DEADLINE", 1.0)
    port = serve_metrics(metrics, "127.0.0.1", 0)
    (slow,) = silent_clients(port, 1)

    def still_taken() -> bool:
        try:
            slow.sendall(b"G")
        except OSError:
            return False
        return True

    until(lambda: not still_taken())
    slow.close()


def test_a_client_that_takes_no_answer_is_put_out(
    metrics: CycleMetrics, monkeypatch: pytest.MonkeyPatch, served: Callable[[], int]
) -> None:
    monkeypatch.setattr(page_server, "DEADLINE", 1.0)
    long = Gauge("long", "x" * 50, ["name"], registry=metrics.registry)
    for number in range(3000):
        long.labels(f"{'y' * 3000}{number}")
    port = serve_metrics(metrics, "127.0.0.1", 0)
    (lazy,) = silent_clients(port, 1)
    lazy.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    until(lambda: served() == 1)
    until(lambda: served() == 0)
    lazy.close()


@pytest.mark.parametrize("seconds", [1.5, 60.0])
def test_an_answer_may_take_longer_to_make_than_to_take(
    monkeypatch: pytest.MonkeyPatch, served: Callable[[], int], seconds: float
) -> None:
    """A forecast plays a queue forward meanwhile; what takes no end is ended all the same."""
    monkeypatch.setattr(page_server, "REQUEST_DEADLINE", 0.1)
    monkeypatch.setattr(page_server, "DEADLINE", 1.0)  # whole seconds: sockets time out by it too
    monkeypatch.setattr(page_server, "ANSWER_DEADLINE", 3.0)
    over = threading.Event()

    def pages(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        over.wait(seconds)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"at last"]

    port = serve_pages(pages, "127.0.0.1", 0, section="metrics")
    if seconds < page_server.ANSWER_DEADLINE:
        assert get(port, "/") == (200, "at last")
    else:
        with pytest.raises(OSError):  # noqa: PT011 - a reset, or an answer that ends too early
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20)
    over.set()
    until(lambda: served() == 0)


@pytest.mark.parametrize(
    "sent", [b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 70000 + b"\r\n"]
)
def test_nonsense_is_survived_silently(
    port: int, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    (client,) = silent_clients(port, 1)
    client.sendall(sent)
    client.close()
    assert get(port, "/metrics")[0] == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "head", [b"GET http://[x/ HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n continued\r\n\r\n"]
)
def test_a_head_that_cannot_be_parsed_is_the_clients_fault(port: int, head: bytes) -> None:
    (client,) = silent_clients(port, 1)
    with client:
        client.sendall(head)
        assert b" 400 " in client.recv(100)


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return self_signed(tmp_path, "head")


def test_tls_is_served_and_read_with_the_sites_own_certificate(
    metrics: CycleMetrics, files: TlsFiles, tmp_path: Path
) -> None:
    port = serve_metrics(metrics, "127.0.0.1", 0, files)
    answer = read_live_state("127.0.0.1", port, files)
    assert isinstance(answer, LiveState)
    assert answer.mode == "fallback"
    other = read_live_state("127.0.0.1", port, self_signed(tmp_path, "other"))
    assert "certificate verify failed" in str(other)
    assert "no daemon answers at http://" in str(read_live_state("127.0.0.1", port))
    gone = replace(files, certificate=tmp_path / "gone.pem")
    assert "gone.pem cannot be read" in str(read_live_state("127.0.0.1", port, gone))


def test_old_tls_is_refused(files: TlsFiles) -> None:
    assert ServedTls(files).context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_clients_without_a_certificate_of_the_authority_are_refused(
    metrics: CycleMetrics, files: TlsFiles, tmp_path: Path
) -> None:
    client = self_signed(tmp_path, "prometheus")
    mutual = replace(files, client_authority=client.certificate)
    port = serve_metrics(metrics, "127.0.0.1", 0, mutual)
    assert "wants a client's certificate" in str(read_live_state("127.0.0.1", port, mutual))

    def status(certificate: TlsFiles | None) -> int:
        context = reading_context(files.certificate)
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        handler = urllib.request.HTTPSHandler(context=context)
        with urllib.request.build_opener(handler).open(
            f"https://127.0.0.1:{port}/metrics", timeout=5
        ) as answer:
            return int(answer.status)

    assert status(client) == 200
    for stranger in (None, files):
        with pytest.raises(OSError):  # noqa: PT011 - an alert, or a reset before it is read
            status(stranger)


def test_a_renewed_certificate_is_taken_without_a_restart(
    metrics: CycleMetrics, files: TlsFiles, tmp_path: Path
) -> None:
    port = serve_metrics(metrics, "127.0.0.1", 0, files)
    renewed = self_signed(tmp_path, "renewed")
    shutil.copy(renewed.certificate, files.certificate)  # half of it: the old one is served on
    time.sleep(0.02)  # another time of change
    old = ssl.get_server_certificate(("127.0.0.1", port))
    assert old.strip() not in files.certificate.read_text()
    shutil.copy(renewed.key, files.key)
    assert isinstance(read_live_state("127.0.0.1", port, files), LiveState)


def refused(metrics: CycleMetrics, files: TlsFiles) -> str:
    with pytest.raises(ConfigurationError) as caught:
        serve_metrics(metrics, "127.0.0.1", 0, files)
    (sentence,) = caught.value.faults
    assert "\n" not in sentence
    return sentence


def test_unusable_files_are_named(metrics: CycleMetrics, files: TlsFiles, tmp_path: Path) -> None:
    other = self_signed(tmp_path, "other")
    gone, text = tmp_path / "gone.pem", tmp_path / "text.pem"
    text.write_text("no certificate\n")
    assert "tls_certificate" in refused(metrics, replace(files, certificate=gone))
    assert "No such file" in refused(metrics, replace(files, key=gone))
    assert "KEY_VALUES_MISMATCH" in refused(metrics, replace(files, key=other.key))
    assert "cannot be used" in refused(metrics, replace(files, certificate=text))
    assert "tls_client_ca" in refused(metrics, replace(files, client_authority=text))


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(
    metrics: CycleMetrics, files: TlsFiles, tmp_path: Path
) -> None:
    locked = tmp_path / "locked.key"
    words = ["openssl", "ec", "-in", str(files.key), "-aes128", "-passout", "pass:secret"]
    subprocess.run([*words, "-out", str(locked)], check=True, capture_output=True)
    assert "without a passphrase" in refused(metrics, replace(files, key=locked))
