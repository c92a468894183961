"""A daemon's metrics read back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slurm_rl_plugin.cli.status import service_lines
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.metrics import served
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.served import ServedMetrics, read_served_metrics, served_metrics


def test_what_a_daemon_serves_is_understood() -> None:
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default", "sha256": "abc"})
    metrics.publish(CycleReport(time=0.0, mode="active", policy="p", failure="write"))
    metrics.publish(
        CycleReport(
            time=99.0,
            mode="fallback",
            policy="p",
            fallback_reason="x",
            adjustments={"up": 2, "down": 1},
        )
    )
    text = generate_latest(registry).decode()
    assert service_lines(served_metrics(text_string_to_metric_families(text))) == []
    assert served_metrics(text_string_to_metric_families(text)) == ServedMetrics(
        mode="fallback",
        up=True,
        fallback=True,
        last_success=99.0,
        cycles=2,
        failures={"write": 1},
        writes=3,
        model={"name": "default", "sha256": "abc"},
    )


def test_who_got_what_is_read_and_said() -> None:
    text = (
        "slurm_rl_up 1\nslurm_rl_fallback_active 0\nslurm_rl_cycles_total 3\n"
        "slurm_rl_last_success_timestamp_seconds 9\nslurm_rl_misdelivered_ratio 0.125\n"
        + "".join(f'slurm_rl_entitlement_ratio{{account="{n}"}} {n / 4}\n' for n in range(5, 0, -1))
        + 'slurm_rl_account_lift_doublings{account="1"} 0.75\n'
        + 'slurm_rl_account_lift_doublings{account="2"} 0\n'
    )
    found = served_metrics(text_string_to_metric_families(text))
    assert (found.misdelivered, found.entitlement["1"]) == (0.125, 0.25)
    assert service_lines(found) == [
        "service of a fortnight: 12.5 % to the wrong account; least of their entitlement got: "
        "1 0.25 (lifted by 0.75 doublings), 2 0.50, 3 0.75"
    ]


@pytest.fixture
def stranger() -> Iterator[tuple[HTTPServer, list[bytes]]]:
    """A server that is not ours, and what it says."""
    says = [b"up 1\n"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(says[0])

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server, says
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("said", [b"up 1\n", b"<html>{no}\n", b"\xff\xfe", b"", b"a{b=\n"])
def test_someone_else_at_the_port_is_said(
    stranger: tuple[HTTPServer, list[bytes]], said: bytes
) -> None:
    server, says = stranger
    says[0] = said
    answer = read_served_metrics("0.0.0.0", server.server_port)
    assert isinstance(answer, str)
    assert "is no slurm-rl daemon" in answer


def test_a_server_that_does_not_answer_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket  # noqa: PLC0415

    monkeypatch.setattr(served, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = read_served_metrics("127.0.0.1", silent.getsockname()[1])
    assert isinstance(answer, str)
    assert "no daemon answers" in answer


def test_who_does_not_speak_http_is_said() -> None:
    import socket  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        answer = read_served_metrics("127.0.0.1", listener.getsockname()[1])
        thread.join()
    assert "is no slurm-rl daemon" in str(answer)
