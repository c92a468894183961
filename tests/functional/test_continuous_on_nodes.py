"""`slurm-rl evaluate --protocol continuous --cluster` on a small log of several resources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    knowing_recent_runs,
    starts_under,
)
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import recent_runs
from tests.functional.small_site import write_small_site
from tests.functional.typed import Typed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its `slurm.conf` and its `week.events`."""
    folder = tmp_path_factory.mktemp("site")
    write_small_site(folder)
    return folder


def words(site: Path) -> list[str]:
    return ["evaluate", str(site / "week.events"), "--cluster", str(site / "slurm.conf")]


def test_the_best_rule_of_the_first_part_is_what_others_are_compared_with(
    typed: Typed, site: Path
) -> None:
    asked = ["--protocol", "continuous", "--policy", "default", "--runs", "2", "--json"]
    document = typed.json(*words(site), *asked)
    found: dict[str, Any] = document["continuous"]
    rules = found["training_bounded_slowdown"]
    assert tuple(rules) == NODE_HEURISTICS
    assert found["best_heuristic"] == min(rules, key=rules.__getitem__)
    assert found["backfilling"] == document["log"]["backfill"] == "slurm"
    ratios = found["ratio_to_best_heuristic"]
    assert set(ratios) == set(found["policies"])
    assert set(ratios) == {"default", "fifo", "multifactor", found["best_heuristic"]}
    assert ratios[found["best_heuristic"]]["bounded_slowdown"] == 1.0
    assert found["days"] == 3  # of the last 40 % of six days
    assert ratios["default"]["ci95"] is None  # too few of them
    assert 100 < found["counted_jobs"] < 220


def test_people_see_the_rules_and_the_ratios(typed: Typed, site: Path) -> None:
    told = typed.out(*words(site), "--protocol", "continuous", "--policy", "sjf", "--runs", "1")
    assert "mean bounded slowdown on the training part (over runs):" in told
    assert "best heuristic: " in told
    assert "slurm backfilling" in told
    assert "over its figures, without intervals, which need two runs, and jobs on 5 days" in told


@pytest.mark.parametrize("nodes", [True, False])
def test_rules_by_predicted_run_times_know_no_run_that_nobody_has_seen(
    site: Path, nodes: bool
) -> None:
    """The log records no starts: by itself every job would tell its length from when it came."""
    machine = read_machine(site / "slurm.conf")
    prepared = prepare_log(read_log(site / "week.events")[0], machine=machine)
    if not nodes:  # processors that all jobs share
        prepared = replace(prepared, machine=None)
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
    workload = prepared.workload(RequestedLimit())
    start = starts_under(Candidate(name="fifo"), prepared, workload, settings)
    told = knowing_recent_runs(prepared, workload, settings).recent_runs
    assert told is not None
    log, end = prepared.log, start + prepared.log.run_time
    for job in range(len(log)):
        over = np.flatnonzero((log.user == log.user[job]) & (end < log.submit[job]))
        last = log.run_time[over[np.argsort(end[over])][-2:]]
        asked = prepared.requested[job]
        mean = min(float(last.mean()), asked) if len(last) else asked
        assert told.predicted[job] == pytest.approx(mean)
    assert recent_runs(prepared).predicted.tolist() != told.predicted.tolist()
    by_name = starts_under(Candidate(name="sjf-predicted"), prepared, workload, settings)
    knowing = replace(prepared, recent_runs=told)
    expected = starts_under(Candidate(name="sjf-predicted"), knowing, workload, settings)
    assert by_name.tolist() == expected.tolist()
