"""A policy has one name, whichever verb is given it; where a verb cannot take it, it says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.policies.registry import NAMED_POLICIES

ROW = "{id} {submit} 5 {run} 1 -1 -1 1 900 -1 1 1 {group} -1 1 -1 -1 -1"


@pytest.fixture
def swf(tmp_path: Path) -> Path:
    """Forty sequential jobs of two groups on two processors."""
    rows = [
        ROW.format(id=number + 1, submit=number * 60, run=30 + 40 * (number % 9), group=number % 2)
        for number in range(40)
    ]
    path = tmp_path / "small.swf"
    path.write_text("\n".join(["; MaxProcs: 2", *rows]) + "\n")
    return path


def fault(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


def test_evaluate_takes_every_name(capsys: pytest.CaptureFixture[str], swf: Path) -> None:
    names = [*NAMED_POLICIES, "reserve:1"]
    words = [word for name in names for word in ("--policy", name)]
    assert main(["evaluate", str(swf), *words, "--json"]) == 0
    policies = json.loads(capsys.readouterr().out)["policies"]
    assert list(policies) == names
    own = policies["reserve:1"]["classes"]
    assert (
        main(["evaluate", str(swf), "--policy", "interactive-first", "--reserve=1", "--json"]) == 0
    )
    kept = json.loads(capsys.readouterr().out)["policies"]["interactive-first"]["classes"]
    assert own == kept


def test_an_unknown_name_is_told_with_every_name_before_the_log_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = fault(capsys, "evaluate", tmp_path / "none.swf", "--policy", "lifo")
    assert "unknown policy 'lifo'" in told
    assert all(name in told for name in NAMED_POLICIES)


def test_partitions_share_no_reserve_rule(capsys: pytest.CaptureFixture[str], swf: Path) -> None:
    words = ["--policy", "reserve:1", "--partitions", "1=2"]
    assert "on processors that all jobs share" in fault(capsys, "evaluate", swf, *words)


def test_a_rule_is_no_network_to_train_from(
    capsys: pytest.CaptureFixture[str], swf: Path, tmp_path: Path
) -> None:
    told = fault(capsys, "train", swf, "-o", tmp_path / "m.onnx", "--from", "sjf")
    assert "--from sjf: a rule is no network to start from" in told


def test_the_benchmark_says_why_a_rule_of_logs_orders_no_queue(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = fault(capsys, "benchmark", "hook", "--jobs", 10, "--policy", "f1")
    assert "policy f1 orders no live queue: it counts submit times" in told


def test_the_benchmark_decides_by_a_rule_that_changes_while_jobs_wait(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["benchmark", "hook", "--jobs", "50", "--repeats", "1", "--policy", "wfp3", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 50
