"""What makes a site trust it, on a real Slurm: shadow report, pause, disable, enable, status."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.units import MINUTE
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_operator_commands import TOP, Operator, sprio

pytestmark = [pytest.mark.real, pytest.mark.promise]

#: Seconds that the pause lasts; the daemon looks at the file every five.
PAUSE = 8.0


@pytest.fixture
def operator(closed_slurm: PrivateSlurm, tmp_path: Path, free_port: int) -> Operator:
    configure(tmp_path, free_port, "shadow")
    return Operator(cluster=closed_slurm, folder=tmp_path)


def configure(folder: Path, port: int, mode: str) -> None:
    (folder / "slurm-rl.toml").write_text(
        f'[hook]\nmode = "{mode}"\ncycle = 1\nsoonest_cycle = 1\n'
        f'disable_file = "{folder}/DISABLE"\nstate_file = "{folder}/state.json"\n'
        f'audit_file = "{folder}/audit.jsonl"\n'
        f'[policy]\nmodel = "{TOP}/policy_models/default.onnx"\ninference_deadline = 10\n'
        f"[metrics]\nport = {port}\n"
    )


def site_terms(cluster: PrivateSlurm) -> set[int]:
    return {site for _, site in sprio(cluster).values()}


def test_shadow_pause_disable_and_enable(operator: Operator, free_port: int) -> None:
    cluster, folder = operator.cluster, operator.folder
    for number in range(12):
        user, account, nice = ("alice", "physics", 50)
        if number % 3 == 0:
            user, account, nice = ("bob", "biology", 0)
        minutes = float(40 - 3 * number)
        cluster.submit(f"--nice={nice}", user=user, account=account, minutes=minutes)
    cluster.wait_until(lambda: len(sprio(cluster)) == 12, 10, "all jobs in sprio")
    plain = cluster.by_priority()

    checks = {each["name"]: each for each in operator.reads("check")["checks"]}
    assert {each["result"] for each in checks.values()} == {"pass"}, checks
    assert checks["clock"]["what"] == "slurmctld's and this host's agree"
    assert checks["accounting"]["what"] == "sacct answers"

    with operator.daemon():
        cluster.wait_until(lambda: cycles(operator) >= 3, 20, "three cycles in shadow mode")
        assert operator.reads("status")["metrics"]["mode"] == "shadow"
    assert site_terms(cluster) == {0}
    assert cluster.by_priority() == plain
    report = operator.reads("shadow-report")
    shadow = report["shadow"]
    assert shadow["cycles"] >= 3
    assert shadow["modes"] == {"shadow": shadow["cycles"]}
    assert shadow["jobs_seen"] == 12
    assert shadow["would_be_writes"] > 0 == shadow["writes"]
    assert shadow["moves"]["job_cycles"] == 12 * shadow["cycles"]
    assert set(shadow["accounts"]) == {"physics", "biology"}
    assert -1 <= shadow["kendall_tau"] < 1
    assert "unavailable" in report["prediction"]  # nothing ran
    assert "Kendall's tau" in operator.types("shadow-report").stdout

    configure(folder, free_port, "active")
    with operator.daemon():
        cluster.wait_until(lambda: site_terms(cluster) != {0}, 20, "factors")
        ordered = cluster.by_priority()
        assert ordered != plain

        began = time.monotonic()
        paused = operator.types("pause", "--for", f"{PAUSE + 7:.0f}s", "--reason", "a try")
        assert paused.returncode == 0, paused.stdout
        assert site_terms(cluster) == {0}
        assert cluster.by_priority() == plain
        told = operator.reads("status")
        assert told["disabled"]
        assert told["metrics"]["mode"] == "disabled"
        assert told["disablement"]["until"] - told["time"] < MINUTE
        assert ", paused by " in operator.types("status").stdout
        assert "a try" in operator.types("status").stdout
        cluster.wait_until(lambda: site_terms(cluster) != {0}, 40, "factors after the pause")
        assert time.monotonic() - began > PAUSE
        cluster.wait_until(lambda: cluster.by_priority() == ordered, 20, "the order of before")
        assert operator.reads("status")["metrics"]["mode"] == "active"

        assert operator.types("disable").returncode == 0
        assert site_terms(cluster) == {0}
        assert cluster.by_priority() == plain
        assert ", disabled by " in operator.types("status").stdout
        assert operator.types("pause", "--for", "1h").returncode == 1
        assert operator.types("enable").returncode == 0
        cluster.wait_until(lambda: cluster.by_priority() == ordered, 20, "the order of before")
    assert site_terms(cluster) == {0}
    assert json.loads((folder / "state.json").read_text())["jobs"] == []
    assert operator.types("disable").returncode == 0  # no daemon, and nothing to take back
    assert operator.reads("status")["daemon"] == "absent"


def cycles(operator: Operator) -> int:
    return len(operator.reads("audit", "--event", "cycle")["lines"])
