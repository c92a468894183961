"""A daemon's live state: what reports become in it and in the metrics, over HTTP and as words."""

from __future__ import annotations

import json
import math
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot, StartedJobs
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.experiment.turns import ExperimentReport, GoalSeen
from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.rails.reserve import LimitReport
from slurm_rl_plugin.metrics.admin_page import AdminView, admin_page
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import MetricsTextfile
from slurm_rl_plugin.services import configured_site
from slurm_rl_plugin.services.configured_site import read_live_state
from slurm_rl_plugin.whole_file import UNREADABLE
from tests.architecture.markdown_documents import TOP
from tests.bench.speed.metrics_answer import large_site_reports
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of


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


#: Of eight processors, memory and two GPUs.
CAPACITY = np.array([8.0, 4000.0, 2.0])
MACHINE = ResourcesNow(names=BASIC_RESOURCES, capacity=CAPACITY, free=CAPACITY)
NOBODY = snapshot_of(pending_jobs([]))


def report(**changes: object) -> CycleReport:
    snapshot = snapshot_of(pending_jobs([1, 1, 1]))
    first = CycleReport(time=1000.0, mode="active", policy="default", snapshot=snapshot)
    return replace(first, **changes)  # type: ignore[arg-type]


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Values by name, without our prefix, and labels: `up`, `pending_jobs{partition=batch}`."""
    return {
        f"{sample.name.removeprefix('slurm_rl_')}"
        + (f"{{{','.join(f'{k}={v}' for k, v in labels)}}}" if labels else ""): sample.value
        for family in registry.collect()
        for sample in family.samples
        for labels in [sorted(sample.labels.items())]
    }


def queue(asked: Mapping[str, Any]) -> QueueSnapshot:
    """Pending jobs of these columns, jobs that have just started, accounts, and a machine."""
    asked = dict(asked)
    waits, account = (asked.pop(name, None) for name in ("waits", "account"))
    shares, usage = (asked.pop(name, {}) for name in ("shares", "usage"))
    requests, machine = (asked.pop(name, None) for name in ("requests", "machine"))
    found = snapshot_of(pending_jobs(asked.pop("native", []), **asked))
    if waits is not None:
        count = len(waits)
        jobs = job_table(count, interactive=[True] * count, account=account or [0] * count)
        started = StartedJobs(jobs=jobs, start=jobs.eligible + np.array(waits))
        found = replace(found, started=started)
    if shares:
        parts = np.array(list(shares.values()))
        amounts = np.array(usage or [0.0] * len(shares))
        found = replace(found, accounts=tuple(shares), shares=parts, usage=amounts)
    if requests is not None:
        nodes = np.zeros(len(requests), dtype=np.int64)
        totals = ResourceRequests.of_totals(np.array(requests), nodes=nodes)
        jobs = replace(found.pending.jobs, requests=totals)
        found = replace(found, pending=replace(found.pending, jobs=jobs))
    return replace(found, resources=MACHINE) if machine or requests is not None else found


#: Reports by their names in the table.
NAMED = {
    "": report(),
    "FAILED": report(snapshot=None, failure="batch_system", time=0.0),
    "IN_FALLBACK": report(mode="fallback", fallback_reason="broken", reserve=5),
    "OF_NEW_JOBS": CycleReport(
        time=1001.0,
        mode="active",
        policy="default",
        of_new_jobs=True,
        adjustments={"up": 2},
        place_seconds=(0.5, 3.0),
    ),
}
#: How a value of the table becomes a field of a report; the queue is None if it is empty.
MADE: dict[str, Callable[[Any], object]] = {
    "queue": lambda asked: queue(asked) if asked else None,
    "service": lambda asked: ServiceSeen(**{n: np.array(each) for n, each in asked.items()}),
    "lifts": lambda asked: Lifts(**{**asked, "accounts": np.array(asked.get("accounts", []))}),
    "limit": lambda asked: LimitReport(**asked),
}


def made(asked: dict[str, Any]) -> CycleReport:
    first = NAMED[asked.pop("is", "")]
    fields = {name: MADE.get(name, lambda value: value)(each) for name, each in asked.items()}
    if "queue" in fields:
        fields["snapshot"] = fields.pop("queue")
    return replace(first, **fields)  # type: ignore[arg-type]


ROWS = tomllib.loads((TOP / "tests/assets/metrics_of_reports.toml").read_text())["row"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["promise"])
def test_what_reports_become(row: dict[str, Any]) -> None:
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default"}, max_accounts=row.get("accounts", 3))
    for asked in row["reports"]:
        metrics.publish(made(asked))
    found = samples(registry)
    assert {name: found.get(name, "none") for name in row["metrics"]} == {
        name: each if each == "none" else pytest.approx(each)
        for name, each in row["metrics"].items()
    }


def test_what_the_configuration_says_is_served() -> None:
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default"})
    assert samples(registry)["starvation_bound_seconds"] == float("inf")
    metrics.update(configured_mode="active", starvation_bound=3600.0, adapter="slurm_commands")
    metrics.publish(report(release="22.05.8"))
    metrics.publish(report(snapshot=None, failure="batch_system"))  # it did not say so again
    found = samples(registry)
    assert found["starvation_bound_seconds"] == 3600
    assert found["configured_mode{slurm_rl_configured_mode=active}"] == 1
    labels = f"adapter=slurm_commands,slurm_version=22.05.8,version={__version__}"
    assert found[f"build_info{{{labels}}}"] == 1


def test_a_large_site_is_served_in_less_than_300_kilobytes() -> None:
    """500 accounts, 50,000 pending jobs, 80 partitions; timed in tests/bench/speed."""
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default"})
    for large in large_site_reports():
        metrics.publish(large)
    text = generate_latest(registry)
    assert b'partition="_other"' in text
    assert b'account="_other"' in text
    assert len(text) < 300_000
    pending = [v for name, v in samples(registry).items() if name.startswith("pending_jobs{")]
    assert sum(pending) == 50_000  # capped, none forgotten


def test_the_utility_of_each_class_is_observed_when_its_jobs_end() -> None:
    """Two hours after they could start: a deadline of 3 hours, an own one of 1, and batch."""
    due = UtilityClass(form="deadline", hours=3.0)
    jobs = job_table(3, class_number=[2, 2, 0], allowed=[np.nan, 3600.0, np.nan])
    ended = EndedJobs(jobs=jobs, start=jobs.submit + 3600.0, end=jobs.submit + 7200.0)
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {})
    classes = {**BUILT_IN, "due": due}
    metrics.describe_site(classes=classes)
    metrics.publish(report(snapshot=replace(NOBODY, ended=ended)))
    found = samples(registry)
    expected = {
        "count{job_class=due}": 2,
        "sum{job_class=due}": 1.0,
        "count{job_class=batch}": 1,
        "count{job_class=interactive}": 0,
        "sum{job_class=batch}": pytest.approx((7200 / 3660) ** -0.3),
    }
    assert {name: found[f"job_time_utility_{name}"] for name in expected} == expected


def test_the_file_is_whole_others_may_read_it_and_it_goes_with_the_daemon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, registry = tmp_path / "slurm-rl.prom", CollectorRegistry()
    Gauge("slurm_rl_up", "", registry=registry).set(1)
    textfile = MetricsTextfile(path=path, registry=registry)
    path.write_text("half of somethi")
    textfile.write()
    (family,) = text_string_to_metric_families(path.read_text())
    assert family.samples[0].value == 1
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
    for _ in range(2):
        textfile.remove()
    assert list(tmp_path.iterdir()) == []
    lost = MetricsTextfile(path=tmp_path / "gone" / "slurm-rl.prom", registry=registry)
    lost.write()
    assert "textfile=failed" in caplog.text
    lost.remove()
