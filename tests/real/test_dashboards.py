"""A real run of 220 jobs, a real Prometheus: every panel has data, an alert comes and goes."""

from __future__ import annotations

import math
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, StartSlurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.load import mixed_load, submit_all
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.prometheus_server import (
    DASHBOARDS,
    OF_LONGER_RUNS,
    api,
    expressions,
    prometheus_scraping,
    query,
    substituted,
)
from tests.real.test_first_light import (
    MODEL,
    not_a_number_model,
)

pytestmark = pytest.mark.real

RULES = Path(__file__).parents[2] / "deploy" / "prometheus"
JOBS = 220
PLAN = ClusterPlan(
    nodes=2,
    processors_per_node=16,
    accounts=ACCOUNTS,
    options={
        "SelectTypeParameters": "CR_CPU_Memory",
        "DefMemPerCPU": "100",  # memory is counted
        "SchedulerParameters": "sched_interval=1,bf_interval=2,default_queue_depth=1000",
    },
)


def hurried(rules: Path, folder: Path) -> Path:
    """The same rules for a short run: evaluated each second, alerts after seconds, not minutes.

    What a rule asks for stays as it is, windows included.
    """
    text = re.sub(r"^( +for): .*$", r"\1: 3s", rules.read_text(), flags=re.MULTILINE)
    path = folder / rules.name
    path.write_text(re.sub(r"^( +interval): .*$", r"\1: 1s", text, flags=re.MULTILINE))
    return path


def recorded_names() -> list[str]:
    found = re.findall(r"record: (\S+)", (RULES / "recording_rules.yml").read_text())
    assert found
    return found


def has_data(port: int, expression: str) -> bool:
    """A number, not only NaN: a quantile of no events is one."""
    return any(math.isfinite(float(each["value"][1])) for each in query(port, expression))


def firing(port: int) -> dict[str, dict[str, str]]:
    """Alerts that fire -> their annotations."""
    data = api(port, "alerts") or {"alerts": []}
    return {
        each["labels"]["alertname"]: each["annotations"]
        for each in data["alerts"]
        if each["state"] == "firing"
    }


@contextmanager
def watched_run(slurm: PrivateSlurm, folder: Path, port: int) -> Iterator[tuple[RunningHook, Path]]:
    """220 jobs under a daemon that a Prometheus watches; half run through in shadow mode."""
    model = folder / "model.onnx"
    shutil.copy(MODEL, model)
    slurm.set_partition("down")
    submit_all(slurm, mixed_load(JOBS * 9 // 10, JOBS // 10, 1))
    # Slurm charges running jobs once a minute (PriorityCalcPeriod): these are caught by it
    slurm.submit(user="alice", seconds=100, minutes=10)
    slurm.submit(user="bob", seconds=80, minutes=10)
    rules = [hurried(RULES / name, folder) for name in ("recording_rules.yml", "alerts.yml")]
    with (
        running_hook(slurm, folder, model, mode="shadow", cycle=1) as hook,
        prometheus_scraping(hook.port, port, folder, rules),
    ):
        slurm.set_partition("up")
        half_done = f"slurm_rl_pending_jobs{{job_class='interactive'}} < {JOBS // 2}"
        slurm.wait_until(lambda: bool(query(port, half_done)), 90, "half of the jobs started")
        change_mode(hook, "shadow", "active")
        yield hook, model


def change_mode(hook: RunningHook, old: str, new: str) -> None:
    path = hook.folder / "slurm-rl.toml"
    path.write_text(path.read_text().replace(f'mode = "{old}"', f'mode = "{new}"'))
    hook.process.send_signal(signal.SIGHUP)


def test_every_panel_has_data_and_the_fallback_alert_fires(
    start_slurm: StartSlurm, tmp_path: Path, free_port: int
) -> None:
    port = free_port
    asked = {
        substituted(each, window="5m", rate_interval="5m"): f"{path.stem}: {panel}"
        for path in DASHBOARDS
        for panel, each in expressions(path)
    }
    assert len(asked) > 35
    needed = {
        each: where
        for each, where in asked.items()
        if not any(part in each for part in OF_LONGER_RUNS)
    }
    slurm = start_slurm(PLAN)
    with watched_run(slurm, tmp_path, port) as (hook, model):
        slurm.wait_empty(120)
        (counted,) = query(port, "sum(slurm_rl_job_wait_seconds_count)")
        print(f"{counted['value'][1]} of {JOBS + 2} starts counted")  # noqa: T201
        assert int(counted["value"][1]) == JOBS + 2  # those around the reload too
        slurm.wait_until(
            lambda: has_data(port, "slurm_rl_account_usage_ratio > 0"), 90, "usage in Slurm"
        )
        assert "SlurmRLFallbackActive" not in firing(port)
        slurm.set_partition("down")  # a model shows that it is broken when it has jobs to score
        submit_all(slurm, mixed_load(3, 0, 2))
        slurm.wait_until(lambda: has_data(port, "slurm_rl_place_seconds_count > 0"), 30, "a place")
        not_a_number_model(model)
        hook.process.send_signal(signal.SIGHUP)
        slurm.wait_until(lambda: "SlurmRLFallbackActive" in firing(port), 30, "the alert")
        slurm.set_partition("up")
        told = firing(port)["SlurmRLFallbackActive"]
        assert told["summary"] == "slurm-rl does not use its model"

        def unanswered() -> dict[str, str]:
            return {each: where for each, where in needed.items() if not has_data(port, each)}

        slurm.wait_until(lambda: not unanswered(), 20, f"data for {unanswered()}")
        for name in recorded_names():
            assert has_data(port, name), name

        shutil.copy(MODEL, model)
        hook.process.send_signal(signal.SIGHUP)
        slurm.wait_until(lambda: "SlurmRLFallbackActive" not in firing(port), 30, "its end")
