"""Schedules drawn and exported: all jobs are there, with the queue that there was."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.figures import draw_schedules
from slurm_rl_plugin.evaluation.schedule_files import COLUMNS, export_schedule, file_names
from slurm_rl_plugin.learning.evaluation.paired import schedule_of as paired_schedule_of
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise


def jobs_of(seed, count, capacity=16):
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.exponential(60.0, size=count))
    return ScheduledJobs(
        submit=submit,
        start=submit + rng.exponential(600.0, size=count),
        run_time=rng.exponential(900.0, size=count) + 0.1,
        processors=rng.integers(1, 5, size=count),
        account=rng.integers(0, 2, size=count),
        interactive=rng.random(count) < 0.5,
        shares=np.array([0.5, 0.5]),
        capacity=capacity,
    )


@pytest.mark.parametrize(("count", "policies"), [(1, 3), (2, 3), (500, 3), (50, 1)])
def test_every_figure_is_drawn_whole(tmp_path, count, policies):
    schedules = {f"policy {seed}": jobs_of(seed, count) for seed in range(policies)}
    for jobs in schedules.values():
        jobs.interactive[:] &= policies > 1  # one policy and jobs of one class are enough
    path = tmp_path / "new" / "folder" / "wait-cdf.png"
    assert draw_schedules(path.parent, schedules) == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(path.parent.iterdir()) == [path]


def rows_of(table):
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def prepared():
    return prepare_log(egee_log(np.random.default_rng(1), jobs=200, processors=4, load=0.9))


@pytest.fixture
def schedule(prepared):
    settings = SimulationSettings(capacity=prepared.capacity)
    start = simulate_scores(prepared.workload(None), -prepared.log.submit, settings).start
    return paired_schedule_of(prepared, start, settings)


def test_the_table_holds_what_the_summary_is_made_of(tmp_path, prepared, schedule):
    _, table = export_schedule(tmp_path, "fifo", prepared, schedule, [])
    rows = rows_of(table)
    assert tuple(rows[0]) == COLUMNS
    assert [int(row["job_id"]) for row in rows] == prepared.log.job_id.tolist()
    entry = summarise(schedule, accounts=prepared.accounts)
    for column, key in [
        ("wait", "mean_wait"),
        ("bounded_slowdown", "mean_bounded_slowdown"),
        ("responsiveness", "responsiveness"),
        ("time_utility", "time_utility"),
        ("fairness", "fairness"),
    ]:
        assert np.mean([float(row[column]) for row in rows]) == pytest.approx(entry[key]), column
    quick = [row for row in rows if row["class"] == "interactive"]
    assert len(quick) == entry["classes"]["interactive"]["jobs"]
    for row in rows:
        assert float(row["end"]) == pytest.approx(float(row["start"]) + float(row["run_time"]))


def test_names_with_commas_quotes_and_lines_stay_one_field(tmp_path, prepared, schedule):
    names = ('a,"b', "two\nlines", "\udce9", *prepared.log.accounts[3:])
    odd = replace(prepared, log=replace(prepared.log, accounts=names, users=names))
    _, table = export_schedule(tmp_path, "odd", odd, schedule, [])
    rows = rows_of(table)
    known = {*names[:2], "?", *names[3:]}
    assert {row["account"] for row in rows} <= known
    assert len(rows) == len(prepared.log)


def test_a_file_that_cannot_be_written_is_named(tmp_path, prepared, schedule):
    (tmp_path / "fifo.csv").mkdir()
    with pytest.raises(ConfigurationError, match=r"fifo\.csv"):
        export_schedule(tmp_path, "fifo", prepared, schedule, [])


@pytest.mark.parametrize(
    ("policies", "names"),
    [
        (["fifo", "sjf"], ["fifo", "sjf"]),
        (["models/a.onnx", "other/a.onnx", "A"], ["a", "a-2", "A-3"]),
        (["reserve:20", "reserve_20"], ["reserve_20", "reserve_20-2"]),
        (["../../etc/passwd", "..", "/", ".hidden"], ["passwd", "policy", "policy-2", "hidden"]),
        (["é" * 300, "a b\n;c"], ["policy", "a_b_c"]),
        (["x" * 300], ["x" * 80]),
    ],
)
def test_file_names_are_safe_and_differ(policies, names):
    assert file_names(policies) == names
    assert all(Path(name).name == name for name in names)


def test_the_table_tells_submission_and_eligibility_apart(tmp_path):
    log = egee_log(np.random.default_rng(1), jobs=50, processors=4, load=0.9)
    late = replace(log, eligible=log.submit + np.where(np.arange(50) % 7 == 3, 5000.0, 0.0))
    prepared = prepare_log(late)
    start = prepared.log.eligible + 5
    schedule = paired_schedule_of(prepared, start, SimulationSettings(capacity=prepared.capacity))
    _, table = export_schedule(tmp_path, "late", prepared, schedule, [])
    rows = {int(row["job_id"]): row for row in rows_of(table)}
    for job, submit, eligible in zip(late.job_id, late.submit, late.eligible, strict=True):
        assert float(rows[job]["submit"]) == pytest.approx(submit)
        assert float(rows[job]["eligible"]) == eligible
        assert float(rows[job]["wait"]) == pytest.approx(5)
