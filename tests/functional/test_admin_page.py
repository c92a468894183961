"""The page for administrators, on the daemon's port and by `status --html`, in a real Chromium."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.hook.audit.log import AuditSummary
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.experiment.turns import ExperimentReport, GoalSeen
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.rails.reserve import LimitReport
from slurm_rl_plugin.metrics.admin_page import AdminView, admin_page
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import serve_metrics
from tests.fakes.chromium import chromium, faults, look, needs_chromium
from tests.unit.hook.queues import pending_jobs, snapshot_of

ACCOUNTS = ("physics", "chemistry", "biology", "<i>climate</i>")
EVIL = "<b>model</b>"


def busy_snapshot(now: float) -> QueueSnapshot:
    """Forty pending jobs of four accounts on a machine with memory and GPUs."""
    pending = pending_jobs(list(range(1, 41)), factor=[0, 7] * 20)
    asked = np.tile([16.0, 64_000.0, 1.0], (40, 1))
    jobs = replace(
        pending.jobs,
        account=np.arange(40) % 4,
        interactive=np.arange(40) % 3 == 0,
        submit=now - 600.0 * np.arange(1, 41),
        eligible=now - 600.0 * np.arange(1, 41),
        requests=ResourceRequests.of_totals(asked, nodes=np.ones(40, dtype=np.int64)),
    )
    capacity = np.array([2048.0, 8_000_000.0, 32.0])
    return replace(
        snapshot_of(replace(pending, jobs=jobs)),
        now=now,
        accounts=ACCOUNTS,
        shares=np.array([0.4, 0.3, 0.2, 0.1]),
        usage=np.array([0.55, 0.2, 0.15, 0.1]),
        resources=ResourcesNow(names=BASIC_RESOURCES, capacity=capacity, free=capacity / 8),
    )


def busy_report(now: float) -> CycleReport:
    goals = (
        GoalSeen(goal="bounded slowdown", ratio=0.71, low=0.6, high=0.83, word="better"),
        GoalSeen(goal="wait of wide jobs", ratio=1.3, low=1.1, high=1.6, word="worse"),
        GoalSeen(goal="longest wait", ratio=np.nan, low=np.nan, high=np.nan, word="inconclusive"),
    )
    return CycleReport(
        time=now - 12.0,
        mode="active",
        policy="default",
        snapshot=busy_snapshot(now),
        order=range(40),
        adjustments={"up": 120, "down": 48},
        limit=LimitReport(amounts={"cpus": 1900}, reason="kept"),
        experiment=ExperimentReport(phase="ours", state="running", goals=goals, pairs=3),
        service=ServiceSeen(
            delivered=np.array([55.0, 20, 15, 10]), entitled=np.array([42.0, 31, 17, 10])
        ),
        lifts=Lifts(
            accounts=np.array([0.0, 0.75, 0.0, 0.0]),
            groups={"half or more": 0.5},
            group_waits={"half or more": 30_000.0, "up to 1 h": 420.0},
        ),
    )


def moves_of_today() -> AuditSummary:
    summary = AuditSummary()
    site = np.random.default_rng(1).permutation(40).tolist()
    line = {"event": "cycle", "time": 1.0, "mode": "active", "reason": "policy", "model": "x"}
    order = {"order": list(range(40)), "site_rank": site, "interactive": list(range(0, 40, 3))}
    groups = {"account": [job % 4 for job in range(40)], "accounts": list(ACCOUNTS)}
    for _ in range(100):
        summary.add({**line, **order, **groups})
    return summary


@pytest.fixture(scope="module")
def port() -> int:
    now = time.time()  # noqa: TID251 - the daemon's clock
    metrics = CycleMetrics(CollectorRegistry(), {"name": EVIL, "sha256": "0123456789abcdef"})
    metrics.update(configured_mode="active", starvation_bound=3600.0, adapter="slurm_commands")
    metrics.publish(busy_report(now))
    return serve_metrics(metrics, "127.0.0.1", 0)


def text_of(address: str) -> str:
    with urlopen(address, timeout=10) as answer:
        return str(answer.read().decode())


def test_the_port_shows_what_the_metrics_publish_and_no_more(port: int) -> None:
    page, scraped = (
        text_of(f"http://127.0.0.1:{port}/"),
        text_of(f"http://127.0.0.1:{port}/metrics"),
    )
    assert "All is well." in page
    assert EVIL not in page
    assert "&lt;b&gt;model&lt;/b&gt;" in page
    assert "&lt;i&gt;climate&lt;/i&gt;" in page
    for figure in (
        "40.0\N{NO-BREAK SPACE}%",
        "1900 processors together",
        "0.71",
        "20 pending jobs",
    ):
        assert figure in page, figure
    assert "as root shows them" in page
    for account in ("physics", "chemistry"):
        assert account in scraped
    assert json.loads(text_of(f"http://127.0.0.1:{port}/state"))["shares"]["physics"] == 0.4


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_readable_on_every_screen_and_by_a_screen_reader(
    port: int, tmp_path: Path, dark: bool
) -> None:
    now = time.time()  # noqa: TID251 - the time of the page
    metrics = CycleMetrics(CollectorRegistry(), {"name": "default"})
    metrics.publish(busy_report(now))
    view = AdminView(
        now=now,
        problems=["the last cycle failed: the daemon's log says why."],
        facts=["daemon: runs", "mode: active"],
        outstanding=["12 jobs are remembered to carry a factor of the daemon"],
        today=moves_of_today(),
    )
    (tmp_path / "page.html").write_text(admin_page(metrics.state, view))
    with chromium() as browser:
        for address in (f"http://127.0.0.1:{port}/", f"file://{tmp_path}/page.html"):
            browser.get(address)
            for width in (320, 768, 1280):
                look(browser, width, dark=dark)
                wide = browser.execute_script("return document.documentElement.scrollWidth")
                assert wide <= width, (address, width)
            background = "return getComputedStyle(document.body).backgroundColor"
            assert (browser.execute_script(background) == "rgb(255, 255, 255)") is not dark
            assert faults(browser) == []
