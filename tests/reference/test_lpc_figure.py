"""The published figure for FIFO on the LPC-D extract."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.learning.evaluation.paired import Candidate, evaluate
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log

TRACES = os.environ.get("SLURM_RL_TRACES")


@pytest.mark.skipif(not TRACES, reason="SLURM_RL_TRACES names no directory of workload traces")
def test_fifo_mean_wait_on_lpc_d_is_7304_seconds_within_one_percent() -> None:
    log, report = SwfReader().read(Path(TRACES) / "LPC-D_190257-199831.swf.gz")
    prepared = prepare_log(log, capacity=81)
    summary = evaluate(
        Candidate(name="fifo"), prepared, None, SimulationSettings(capacity=prepared.capacity)
    )
    assert summary["jobs"] == report.kept
    assert summary["mean_wait"] == pytest.approx(7304, rel=0.01)
