"""A policy has one name, whichever verb is given it; where a verb cannot take it, it says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.policies.registry import NAMED_POLICIES
from tests.functional.typed import Typed

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


def test_evaluate_takes_every_name(typed: Typed, swf: Path) -> None:
    names = [*NAMED_POLICIES, "reserve:1"]
    words = [word for name in names for word in ("--policy", name)]
    policies = typed.json("evaluate", swf, *words, "--json")["policies"]
    assert list(policies) == names
    own = policies["reserve:1"]["classes"]
    words = ["--policy", "interactive-first", "--reserve=1", "--json"]
    kept = typed.json("evaluate", swf, *words)["policies"]["interactive-first"]["classes"]
    assert own == kept


def test_an_unknown_name_is_told_with_every_name_before_the_log_is_read(
    typed: Typed, tmp_path: Path
) -> None:
    told = typed.refused("evaluate", tmp_path / "none.swf", "--policy", "lifo")
    assert "unknown policy 'lifo'" in told
    assert all(name in told for name in NAMED_POLICIES)


def test_partitions_share_no_reserve_rule(typed: Typed, swf: Path) -> None:
    words = ["--policy", "reserve:1", "--partitions", "1=2"]
    assert "on processors that all jobs share" in typed.refused("evaluate", swf, *words)


def test_a_rule_is_no_network_to_train_from(typed: Typed, swf: Path, tmp_path: Path) -> None:
    told = typed.refused("train", swf, "-o", tmp_path / "m.onnx", "--from", "sjf")
    assert "--from sjf: a rule is no network to start from" in told


def test_the_benchmark_says_why_a_rule_of_logs_orders_no_queue(
    typed: Typed,
) -> None:
    told = typed.refused("benchmark", "hook", "--jobs", 10, "--policy", "f1")
    assert "policy f1 orders no live queue: it counts submit times" in told


def test_the_benchmark_decides_by_a_rule_that_changes_while_jobs_wait(
    typed: Typed,
) -> None:
    words = ["benchmark", "hook", "--jobs", "50", "--repeats", "1", "--policy", "wfp3", "--json"]
    assert typed.json(*words)["jobs"] == 50
