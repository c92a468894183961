"""A log on a machine with TRESBillingWeights: bills, shares and windows of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.simulator.workloads.log_workload import (
    billed_in_log,
    billed_on_machine,
    prepare_log,
    select_prepared,
)
from tests.unit.machine_files.written_files import machine_of_lines
from tests.unit.simulator.test_log_workload import small_log

LINES = (
    "GresTypes=gpu",
    "NodeName=n[1-4] CPUs=8 RealMemory=16384",
    "NodeName=g[1-2] CPUs=16 RealMemory=32768 Gres=gpu:a100:4",
    "PartitionName=batch Nodes=n[1-4] Default=YES DefMemPerCPU=1024",
    "PartitionName=gpu Nodes=g[1-2] TRESBillingWeights=CPU=0.5,Mem=0.25G,GRES/gpu=2.0,"
    "License/matlab=10",
    "PartitionName=whole Nodes=g[1-2] OverSubscribe=EXCLUSIVE "
    "TRESBillingWeights=CPU=0.5,Mem=0.25G,GRES/gpu=2.0",
)
NAMES = ("cpus", "memory", "gpus", "gres/gpu:a100", "license/matlab")
#: Of a job in each partition, and one that asks for no memory.
TOTAL = np.array(
    [
        [4.0, 8192.0, 0.0, 0.0, 0.0],
        [4.0, 8192.0, 2.0, 2.0, 1.0],
        [4.0, 8192.0, 1.0, 1.0, 0.0],
        [2.0, 0.0, 0.0, 0.0, 0.0],
    ]
)


def log() -> JobLog:
    found = small_log([100, 100, 100, 100], [4, 4, 4, 2], [0, 1, 0, 0])
    return replace(
        found,
        partitions=("batch", "gpu", "whole", "elsewhere"),
        partition=np.array([0, 1, 2, 0]),
        requests=ResourceRequests.of_totals(TOTAL, names=NAMES, nodes=np.array([1, 1, 2, 0])),
    )


def machine(folder: Path, *more: str, **files: str) -> Machine:
    return machine_of_lines(folder, *LINES, *more, **files)


def test_each_partition_bills_by_its_own_weights(tmp_path: Path) -> None:
    billed = billed_on_machine(log(), machine(tmp_path))
    assert billed is not None
    # whole nodes: all CPUs and GPUs of two, the memory that was asked for
    assert billed.tolist() == [4, 2 + 2 + 4 + 10, 16 + 2 + 16, 2]


def test_the_flags_of_priorities_count(tmp_path: Path) -> None:
    dearest = machine(tmp_path, "PriorityFlags=MAX_TRES")
    billed = billed_on_machine(log(), dearest)
    assert billed is not None
    assert billed.tolist() == [4, 4 + 10, 16, 2]


def test_default_memory_of_a_partition_is_billed(tmp_path: Path) -> None:
    lines = [*LINES[:3], LINES[3] + " TRESBillingWeights=Mem=1G", *LINES[4:]]
    billed = billed_on_machine(log(), machine_of_lines(tmp_path, *lines))
    assert billed is not None
    assert billed[[0, 3]].tolist() == [8, 2]


def test_without_weights_processors_count_as_ever(tmp_path: Path) -> None:
    lines = [line.split(" TRESBillingWeights")[0] for line in LINES]
    plain = machine_of_lines(tmp_path, *lines)
    assert billed_on_machine(log(), plain) is None
    prepared = prepare_log(log(), machine=plain)
    assert prepared.charged is prepared.log.processors
    assert prepared.workload(None).billed.tolist() == prepared.log.processors.tolist()


def test_shares_of_a_log_are_fractions_of_what_was_billed(tmp_path: Path) -> None:
    prepared = prepare_log(log(), machine=machine(tmp_path))
    assert dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True)) == pytest.approx(
        {"a0": 40 / 58, "a1": 18 / 58}
    )
    assert prepared.workload(None).billed.tolist() == [4, 18, 34, 2]
    window = select_prepared(prepared, np.array([1, 3]))
    assert window.charged.tolist() == [18, 2]


def test_jobs_of_a_qos_that_costs_nothing_are_no_work_of_their_account(tmp_path: Path) -> None:
    free = machine(tmp_path, sacctmgr_script="add qos free UsageFactor=0\nadd qos normal\n")
    named = replace(log(), qos=("normal", "free", "", "normal"))
    prepared = prepare_log(named, machine=free)
    assert prepared.workload(None).billed.tolist() == [4, 0, 34, 2]
    assert dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True)) == {"a0": 1, "a1": 0}


def test_a_log_alone_is_billed_by_what_it_tells() -> None:
    weights = {"cpus": 0.5, "gpus": 2.0}
    assert billed_in_log(log(), Billing(weights={"gpu": {}})) is None
    billed = billed_in_log(log(), Billing(weights={"gpu": weights, "whole": weights}))
    assert billed is not None
    assert billed.tolist() == [4, 6, 4, 2]
