"""Looks of a compressed run are kept, told in the log's own time, and scored beside squeue's."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from bench.start_hours.accounted import accounted, ended_by
from bench.start_hours.kept_looks import kept_looks, looks_in
from bench.start_hours.score import figures_of
from bench.start_hours.stretched import stretched, stretched_classes, stretched_machine
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.whole_file import write_whole
from tests.unit.forecasts.foretelling import busy_look
from tests.unit.forecasts.live_site import last_days, live_site

MACHINE = Machine(
    kinds=(NodeKind(name="n", count=2, resources=(8.0, 1000.0, 0.0)),),
    partitions=(MachinePartition(name="batch", kinds=(0,), longest=HOUR),),
)


def test_all_times_of_a_look_are_stretched_alike() -> None:
    site = live_site()
    now = busy_look(site, last_days(site, 2.0, HOUR))
    look = site.queue(now, now - HOUR)
    found = stretched(look, now, 10.0)
    assert found.now == now
    for table, longer in ((look.pending, found.pending), (look.running, found.running)):
        waited = now - table.jobs.submit
        assert now - longer.jobs.submit == pytest.approx(10.0 * waited, abs=1e-3)
        assert longer.jobs.time_limit == pytest.approx(10.0 * table.jobs.time_limit)
    assert now - found.running.start == pytest.approx(10.0 * (now - look.running.start), abs=1e-3)
    assert now - found.ended.end == pytest.approx(10.0 * (now - look.ended.end), abs=1e-3)


def test_settings_and_classes_are_stretched_too() -> None:
    found = stretched_machine(MACHINE, 10.0)
    assert found.backfill.interval == 10.0 * MACHINE.backfill.interval
    assert found.weights.highest_age == 10.0 * MACHINE.weights.highest_age
    assert found.partitions[0].longest == 10.0 * HOUR
    rule = JobClassRule(job_class="interactive", time_limit_at_most=60.0)
    assert stretched_classes(JobClassifier(rules=(rule,)), 10.0).rules[0].time_limit_at_most == 600


def test_each_content_of_the_file_is_kept(tmp_path: Path) -> None:
    queue = tmp_path / "queue.npz"
    with kept_looks(queue, tmp_path / "looks"):
        for content in (b"first", b"second"):
            write_whole(queue, content, sync=False)
            time.sleep(0.6)
    assert [each.read_bytes() for each in looks_in(tmp_path / "looks")] == [b"first", b"second"]


def test_accounting_tells_of_what_has_ended_only() -> None:
    outcome = {"submit": 100, "eligible": 100, "start": 110, "end": 120, "state": "COMPLETED"}
    job = {"tasks": 2, "minutes": 1, "nodes": 1, "memory": 0, "gpus": 0, "feature": ""}
    job |= {"exclusive": False, "partition": "batch", "user": "alice", "seconds": 10.0}
    log = accounted([job | {"number": 1, "outcome": outcome}], 100.0, 10.0)
    assert (log.submit[0], log.start[0], log.run_time[0]) == (100.0, 200.0, 100.0)
    assert log.time_limit[0] == 600.0
    assert ended_by(log, 299.0, MACHINE, JobClassifier(rules=())) is None
    told = ended_by(log, 300.0, MACHINE, JobClassifier(rules=()))
    assert told is not None
    assert len(told.log) == 1


def test_ours_and_squeues_are_compared_on_the_jobs_for_which_that_answers() -> None:
    wait = np.array([100.0, 100.0, 100.0])
    told = Forecasts(np.repeat([[100.0], [200.0], [1e6]], len(LEVELS), axis=1))
    rows = GivenRows(
        job=np.arange(3),
        moment=np.array([0.0, 9000.0, 20000.0]),
        partition=("batch",) * 3,
        kind=np.zeros(3, dtype=np.int64),
        interactive=np.zeros(3, dtype=np.bool_),
        shown=np.array([False, True, True]),
        sources=np.array([[2.0, np.nan, 3.0], [2.0, np.nan, 3.0], [2.0, np.nan, np.nan]]),
        plain=told,
        forecasts=told,
        start=wait,
        gone=np.zeros(3, dtype=np.bool_),
        stands_for=np.ones(3),
    )
    found = figures_of(rows, wait, np.ones(3, dtype=np.bool_))
    assert found["all"]["jobs"] == 3
    assert found["shown"]["jobs"] == 2
    assert found["squeue"]["jobs"] == found["beside"]["jobs"] == 2
    assert found["squeue"]["median_error"] == pytest.approx(1.0)
    assert found["ratio"] == pytest.approx(np.log10(2.0) / 2.0)
    assert found["replays"]["median_error"] == pytest.approx(0.0)
