"""The program that measures what the hidden layer of a network is worth, on a small log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.networks.hidden_part import main
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.learning.export.network import export_network
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from tests.functional.small_network import small_network


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last 40 % are a little more than four stretches, the least that gives an interval."""
    path = tmp_path_factory.mktemp("log") / "small.swf"
    write_swf(path, generated_log("mmn:jobs=10600,processors=5"), comments=["MaxProcs: 5"])
    return path


def measured(
    capsys: pytest.CaptureFixture[str], log: Path, network: QNetwork
) -> dict[tuple[str, str], dict[str, Any]]:
    model = log.parent / "model.onnx"
    export_network(network, model, {})
    main([str(model), str(log), "--runs", "2"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["log"] for row in rows] == ["small.swf"] * 3 + ["all"] * 3
    assert [{**row, "log": "all"} for row in rows[:3]] == rows[3:]
    return {(row["of"], row["over"]): row for row in rows[:3]}


def test_a_silent_hidden_layer_is_worth_nothing_and_another_one_is_told(
    capsys: pytest.CaptureFixture[str], log: Path
) -> None:
    loud = small_network()
    silent = replace(loud, output=np.zeros_like(loud.output))
    of_nothing = measured(capsys, log, silent)[("network", "linear part")]
    assert (of_nothing["slowdown"], of_nothing["ci95"]) == (1.0, [1.0, 1.0])
    found = measured(capsys, log, loud)
    low, high = found[("network", "linear part")]["ci95"]
    assert low < found[("network", "linear part")]["slowdown"] < high
    assert found[("moved", "linear part")]["slowdown"] == pytest.approx(1.0, abs=0.3)
    assert found[("network", "default")]["longest_wait_over_fifo"] > 0.0


def test_a_policy_without_a_hidden_layer_is_refused(log: Path) -> None:
    with pytest.raises(SystemExit, match="saf is no network with one hidden layer"):
        main(["saf", str(log)])
