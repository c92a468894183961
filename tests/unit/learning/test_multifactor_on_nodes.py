"""The site's own multifactor on its nodes: fair-share of decayed usage, in what the site bills."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import PriorityWeights
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from tests.unit.machine_files.written_files import machine_of_lines
from tests.unit.simulator.test_log_workload import small_log

SUBMIT = np.array([0.0, 3000.0, 3010.0, 3020.0])
MEMORY = np.array([8000.0, 0.0, 0.0, 0.0])


def starts(folder: Path, half_life: str, weights: str = "") -> list[float]:
    """Of four jobs of the whole node: account 0 ran long ago, account 1 now; then one of each."""
    machine = machine_of_lines(
        folder,
        "NodeName=n1 CPUs=2 RealMemory=16000",
        f"PartitionName=batch Nodes=ALL Default=YES {weights}",
        "PriorityWeightFairshare=1000",
        f"PriorityDecayHalfLife={half_life}",
        "PriorityUsageResetPeriod=YEARLY",
    )
    log = small_log([1000, 400, 100, 100], [2, 2, 2, 2], [0, 1, 1, 0], partitions=("batch",))
    total = np.column_stack([np.full(4, 2.0), MEMORY])
    asked = ResourceRequests.of_totals(total, names=("cpus", "memory"), nodes=np.ones(4, dtype=int))
    log = replace(log, submit=SUBMIT, eligible=SUBMIT, requests=asked)
    prepared = prepare_log(log, machine=machine, shares={"a0": 0.5, "a1": 0.5})
    settings = SimulationSettings(capacity=2, backfilling="easy")
    candidate = Candidate(name="multifactor")
    return starts_under(candidate, prepared, prepared.workload(None), settings).tolist()


@pytest.mark.parametrize(
    ("half_life", "last"),
    [("0", [3400, 3500]), ("1000-0", [3400, 3500]), ("00:05:00", [3500, 3400])],
)
def test_usage_of_long_ago_counts_by_the_sites_half_life(
    tmp_path: Path, half_life: str, last: list[float]
) -> None:
    assert starts(tmp_path, half_life) == [0, 3000, *last]


def test_memory_counts_where_the_site_bills_it(tmp_path: Path) -> None:
    # 800 and 128 processor-seconds are left of the two; memory makes the first the dearer account
    assert starts(tmp_path, "00:10:00") == [0, 3000, 3500, 3400]
    weights = "TRESBillingWeights=CPU=1,Mem=4G"
    assert starts(tmp_path, "00:10:00", weights) == [0, 3000, 3400, 3500]


def test_a_flag_makes_of_size_what_a_job_asks_for_over_its_minutes(tmp_path: Path) -> None:
    """Slurm: the larger of the parts of nodes and CPUs, over the minutes of the limit."""
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n[1-4] CPUs=2 RealMemory=16000",
        "PartitionName=batch Nodes=ALL Default=YES",
        "PriorityWeightJobSize=1000000",
        "PriorityFlags=SMALL_RELATIVE_TO_TIME",
    )
    log = small_log([60, 60, 60], [1, 4, 4], [0, 0, 0], partitions=("batch",))
    log = replace(log, time_limit=np.array([60.0, 600.0, 601.0]))
    assert site_priority(
        prepare_log(log, machine=machine), machine
    ).points.tolist() == pytest.approx([1e6 * 0.25, 1e6 * 0.5 / 10, 1e6 * 0.5 / 11])


@pytest.mark.parametrize(
    ("formula", "last"),
    [
        ("ncpus", [100.0, 200.0, 400.0]),  # equals go as they came
        ("ncpus - walltime/60", [400.0, 200.0, 100.0]),
        ("-queue_priority - eligible_time", [400.0, 200.0, 100.0]),
        ("fairshare_factor", [300.0, 100.0, 400.0]),
    ],
)
def test_a_formula_of_pbs_is_the_sites_own_priority(
    tmp_path: Path, formula: str, last: list[float]
) -> None:
    """A job runs; of three that wait the first has its account, and the last asks for least."""
    machine = machine_of_lines(
        tmp_path, "NodeName=n1 CPUs=2 RealMemory=16000", "PartitionName=batch Nodes=ALL"
    )
    machine = replace(machine, weights=PriorityWeights(formula=formula, half_life=math.inf))
    log = small_log([100, 100, 200, 100], [2, 2, 2, 2], [0, 0, 1, 1], partitions=("batch",))
    submit = np.array([0.0, 10.0, 20.0, 30.0])
    log = replace(log, submit=submit, eligible=submit, time_limit=np.array([1e3, 900, 600, 300]))
    prepared = prepare_log(log, machine=machine, shares={"a0": 0.5, "a1": 0.5})
    settings = SimulationSettings(capacity=2, backfilling="none")
    candidate = Candidate(name="multifactor")
    found = starts_under(candidate, prepared, prepared.workload(None), settings)
    assert found[1:].tolist() == last
