"""The program that measures how much knowing could gain, on a small log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.networks.clairvoyant_order import KNOWING, main
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.simulator.workloads.generators import generated_log


def test_who_knows_run_times_gains_and_one_of_the_orders_is_chosen_on_the_past(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "small.swf"
    write_swf(log, generated_log("mmn:jobs=10600,processors=5"), comments=["MaxProcs: 5"])
    main([str(log), "--runs", "2"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["log"] for row in rows] == ["small.swf"] * len(KNOWING) + ["all"] * len(KNOWING)
    assert sum("clairvoyant" in row for row in rows) == 2
    best = next(row for row in rows if "clairvoyant" in row)
    assert best["slowdown"] < 1.0
    assert best["ci95"][0] < best["slowdown"] < best["ci95"][1]
