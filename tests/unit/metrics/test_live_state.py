"""A daemon's live state, over HTTP and as words."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain.resources import ResourcesNow
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.experiment.turns import ExperimentReport, GoalSeen
from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.hook.rails.reserve import LimitReport
from slurm_rl_plugin.metrics.admin_page import AdminView, admin_page
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.services import configured_site
from slurm_rl_plugin.services.configured_site import read_live_state
from slurm_rl_plugin.whole_file import UNREADABLE
from tests.unit.hook.queues import pending_jobs, snapshot_of


def test_a_document_of_the_state_is_read_as_the_same_state() -> None:
    metrics = CycleMetrics(CollectorRegistry(), {"name": "default", "sha256": "abc"})
    metrics.publish(CycleReport(time=0.0, mode="active", policy="p", failure="write"))
    goal = GoalSeen(goal="wait", ratio=0.9, low=0.5, high=1.2, word="inconclusive")
    machine = ResourcesNow(names=("cpus",), capacity=np.ones(1), free=np.ones(1))
    metrics.publish(
        CycleReport(
            time=99.0,
            mode="fallback",
            policy="p",
            snapshot=replace(snapshot_of(pending_jobs([1, 1])), resources=machine),
            fallback_reason="x",
            limit=LimitReport(amounts={"cpus": 5}),
            experiment=ExperimentReport(phase="site", state="running", goals=(goal,), pairs=1),
            adjustments={"up": 2, "down": 1},
        )
    )
    state = metrics.state
    assert (state.fallback, state.cycles, state.failures, state.writes) == (
        True,
        2,
        {"write": 1},
        3,
    )
    assert LiveState.of_document(json.loads(json.dumps(state.document()))) == state


def test_who_got_what_is_said() -> None:
    state = LiveState(
        misdelivered=0.125,
        entitlement={str(n): n / 4 for n in range(5, 0, -1)},
        lifts={"1": 0.75, "2": 0.0},
    )
    assert (
        "service of a fortnight: 12.5 % to the wrong account; accounts that got least of their "
        "entitlement: 1 0.25 (lifted by 0.75 doublings), 2 0.50, 3 0.75"
    ) in state.lines()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cycles", "many"),
        ("mode", None),
        ("model", {"sha256": 1}),
        ("shares", {"physics": "half"}),
        ("limit", {"amounts": [1]}),
        ("limit", {"strange": 1}),
        ("pending", [[1]]),
        ("pending", [["batch", "batch", "many", 0.0, 0.0]]),
        ("resources", [{"name": "memory", "usable": "all", "running": 0.0, "pending": 0.0}]),
        ("misdelivered", 10**400),
        ("last_success", float("inf")),
        ("usage", {"physics": float("nan")}),
        ("experiment", {"phase": ["ours"]}),
        ("strange", 1),
    ],
)
def test_another_document_is_refused(name: str, value: object) -> None:
    with pytest.raises(UNREADABLE):
        LiveState.of_document({**LiveState().document(), name: value})


def test_a_usage_that_is_not_known_is_null() -> None:
    document = LiveState(usage={"physics": math.nan}).document()
    assert document["usage"] == {"physics": None}
    assert math.isnan(LiveState.of_document(document).usage["physics"])


def test_a_document_with_missing_accounts_makes_a_page() -> None:
    more = {
        "shares": {"physics": 1.0},
        "account_starts": {"physics": 1},
        "usage": {"physics": None},
    }
    state = LiveState.of_document({**LiveState().document(), **more})
    page = admin_page(state, AdminView(now=0.0, problems=(), facts=(), outstanding=()))
    assert "physics" in page


@pytest.fixture
def stranger() -> Iterator[tuple[HTTPServer, list[bytes]]]:
    """A server that is not ours, and what it says."""
    says = [b"up 1\n", b"200"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(says[1]))
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


@pytest.mark.parametrize("said", [b"up 1\n", b"\xff\xfe", b"", b"[]", b"{}", b"[" * 100_000])
def test_another_server_is_reported(stranger: tuple[HTTPServer, list[bytes]], said: bytes) -> None:
    server, says = stranger
    says[0] = said
    answer = read_live_state("0.0.0.0", server.server_port)
    assert isinstance(answer, str)
    assert "is not a slurm-rl daemon" in answer


@pytest.mark.parametrize(
    ("status", "said", "release"),
    [
        (200, b'{"version": "0.1.9", "cycles": 7}', "0.1.9"),
        (200, b'{"version": "0.3.0", "cycles": {"all": 7}}', "0.3.0"),
    ],
)
def test_a_daemon_of_another_release_is_to_be_restarted(
    stranger: tuple[HTTPServer, list[bytes]], status: int, said: bytes, release: str
) -> None:
    server, says = stranger
    says[:] = [said, b"%d" % status]
    answer = read_live_state("127.0.0.1", server.server_port)
    assert f"is of release {release}, not {__version__}: restart it" in str(answer)


def test_a_server_that_does_not_answer_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket  # noqa: PLC0415

    monkeypatch.setattr(configured_site, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = read_live_state("127.0.0.1", silent.getsockname()[1])
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
        answer = read_live_state("127.0.0.1", listener.getsockname()[1])
        thread.join()
    assert "is not a slurm-rl daemon" in str(answer)
