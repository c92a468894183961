"""10,000 jobs of 10,000 accounts whose names mean harm: metrics, logs, audit and tables."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slurm_rl_plugin.batch_systems.port import Names
from slurm_rl_plugin.cli import run
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.metrics.collector import CycleMetrics
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_cluster import FakeCluster
from tests.unit.hook.queues import pending_jobs, snapshot_of

ACCOUNTS, SHOWN = 10_000, 200
FORGED = "INFO slurm_rl_plugin.hook.daemon.daemon cycle=done mode=active"
HOSTILE = [
    'x"} 1\nslurm_rl_up 0\nforged{a="b',
    "\\",
    '\\"',
    "a\nslurm_rl_mode 5",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe",
    "\u2028\u2029\x85",
    "\r\nHTTP/1.1 200 OK",
    "\x00",
    f"a\n{FORGED}",
    "_other",
    "long" * 16_384,
    "<script>alert(1)</script>",
    "{{ $value }}",
    "# HELP slurm_rl_up x",
    "mode=active failure=none",
    "",
]


def hostile_names() -> list[str]:
    """Distinct ones; each kind many times."""
    return [*HOSTILE, *(f"{HOSTILE[n % len(HOSTILE)]}{n}" for n in range(ACCOUNTS - len(HOSTILE)))]


@pytest.fixture(scope="module")
def snapshot() -> QueueSnapshot:
    """The long ones have the largest shares, so that they are shown."""
    names = Names(hostile_names()).all
    assert len(names) == ACCOUNTS
    pending = pending_jobs([1000] * ACCOUNTS)
    jobs = replace(pending.jobs, account=np.arange(ACCOUNTS))
    shares = np.array([float(len(name)) for name in names])
    return replace(
        snapshot_of(replace(pending, jobs=jobs)),
        accounts=names,
        shares=shares / shares.sum(),
        usage=np.full(ACCOUNTS, 1.0 / ACCOUNTS),
    )


@pytest.fixture(scope="module")
def registry(snapshot: QueueSnapshot) -> CollectorRegistry:
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "model"}, SHOWN)
    for second in range(3):
        order = tuple(range(ACCOUNTS))
        report = CycleReport(time=1000.0 + second, mode="active", policy="p", snapshot=snapshot)
        metrics.publish(replace(report, order=order))
    return registry


def test_the_metrics_parse_and_are_bounded(registry: CollectorRegistry) -> None:
    began = time.monotonic()
    content = generate_latest(registry)
    took = time.monotonic() - began
    assert len(content) < 2_000_000
    assert took < 2.0
    samples = [
        sample
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    ]
    names = {sample.name for sample in samples}
    assert "forged" not in names
    assert [s.value for s in samples if s.name == "slurm_rl_up"] == [1.0]
    accounts = {s.labels["account"] for s in samples if "account" in s.labels}
    assert len(accounts) == SHOWN + 1
    assert "_other" in accounts
    waiting = [s.value for s in samples if s.name == "slurm_rl_account_pending_jobs"]
    assert sum(waiting) == ACCOUNTS


def test_promtool_finds_no_line_that_is_not_the_formats(registry: CollectorRegistry) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool: install prometheus")
    answer = subprocess.run(
        ["promtool", "check", "metrics"],
        input=generate_latest(registry),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"error" not in answer.stderr.lower(), answer.stderr[:500]
    assert answer.returncode in (0, 3), answer.stderr[:500]  # 3: advice on names of metrics


def test_the_audit_log_has_one_bounded_line_a_record(
    snapshot: QueueSnapshot, tmp_path: Path
) -> None:
    plan = QueuePlan(
        snapshot=snapshot,
        decision=Decision(scores=np.zeros(ACCOUNTS)),
        fallback_reason=None,
        order=[*range(ACCOUNTS)],
        changes=[],
    )
    path = tmp_path / "audit.jsonl"
    AuditLog(path).record(CycleReport(time=1000.0, mode="active", policy="p"), plan, [])
    text = path.read_text()
    (line,) = text.splitlines()
    assert text.isascii()
    assert json.loads(line)["event"] == "cycle"
    assert len(text) < 1_500_000


def no_configuration(options: object, *flags: object) -> None:
    """The log is set up before it is read."""
    raise SystemExit(0)


@pytest.fixture
def daemon_log(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What the daemon's log is, set up as `run` does."""
    written = io.StringIO()
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setattr(run, "configuration_of", no_configuration)
    with pytest.raises(SystemExit):
        main(["run"])
    return written.getvalue


def behind_its_time(line: str) -> str:
    """A line of the log without the time that begins it."""
    when, _, rest = line.partition(" ")
    datetime.fromisoformat(when)
    return rest


@pytest.mark.parametrize("name", HOSTILE)
def test_a_record_is_one_line_whatever_it_quotes(daemon_log: Callable[[], str], name: str) -> None:
    logging.getLogger("slurm_rl_plugin.hook.cycle.cycle").warning("cycle=failed reason=%s", name)
    (line,) = daemon_log().splitlines()
    expected = "WARNING slurm_rl_plugin.hook.cycle.cycle cycle=failed reason="
    assert behind_its_time(line).startswith(expected)
    assert line.isprintable()
    assert len(line) < 5000


def test_a_traceback_has_no_line_that_looks_like_a_record(daemon_log: Callable[[], str]) -> None:
    try:
        raise ValueError(f"a\n{FORGED}\x1b[2J")
    except ValueError:
        logging.getLogger("slurm_rl_plugin.hook.cycle.cycle").exception("cycle=failed")
    first, *others = daemon_log().splitlines()
    assert behind_its_time(first) == "ERROR slurm_rl_plugin.hook.cycle.cycle cycle=failed"
    assert others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_what_others_say_comes_last_in_a_line() -> None:
    """So `mode=active` in a reason is text: a reader of a line takes the first value of a key."""
    words = [
        (path.name, node.value)
        for path in (TOP / "slurm_rl_plugin").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    quoting = [each for each in words if re.search(r"\b(reason|error)=%s", each[1])]
    assert len(quoting) > 20
    found = [each for each in quoting if not each[1].endswith(("reason=%s", "error=%s"))]
    assert found == []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake Slurm whose jobs have the hostile names that fit into a field of its answers."""
    fake = FakeCluster(tmp_path)
    now = int(time.time())  # noqa: TID251 - the command's clock
    fake.set(now=now)
    for number, name in enumerate(HOSTILE, start=1):
        plain = name.replace("\x00", "0") or "none"
        fake.add(
            number, submit=now - 100, eligible=now - 100, account=plain, name=plain, user=plain
        )
    for key, value in fake.env.items():
        monkeypatch.setenv(key, value)
    path = tmp_path / "slurm-rl.toml"
    path.write_text(
        f'[hook]\nmode = "shadow"\nstate_file = "{tmp_path}/state.json"\ndisable_file = ""\n'
        f'audit_file = "{tmp_path}/audit.jsonl"\n[policy]\nmodel = "sjf"\n'
    )
    return path


@pytest.mark.parametrize(
    "words", [("queue",), ("explain", "1"), ("status",), ("queue", "--parsable")]
)
def test_tables_show_names_that_move_no_cursor(
    site: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, "--config", str(site)])
    said = capsys.readouterr()
    text = said.out + said.err
    assert text
    assert all(line.isprintable() for line in text.split("\n"))
    assert max(map(len, text.split("\n"))) < 2000


def test_a_cycle_over_them_keeps_its_log_and_audit_whole(
    site: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert main(["run", "--once", "--config", str(site)]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert all(line.isprintable() for line in lines)
    assert {behind_its_time(line).split()[0] for line in lines} <= {"INFO", "WARNING"}
    audit = (site.parent / "audit.jsonl").read_text().splitlines()
    assert {json.loads(line)["event"] for line in audit} <= {"cycle", "would_write"}
