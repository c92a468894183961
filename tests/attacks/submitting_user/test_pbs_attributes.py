"""Attacker: a user who submits jobs to OpenPBS, with variables and resources of his choice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob, parse_job
from slurm_rl_plugin.batch_systems.pbs.process import parse_json, section

TOP = Path(__file__).parents[3]
HOOKS = TOP / "deploy" / "pbs"
RUNNER = TOP / "tests" / "fakes" / "pbs_hook_runner.py"
#: As qstat of 23.06 prints a queue of two jobs, one value a line; %s is of the attacker.
QUEUE = (TOP / "tests" / "assets" / "pbs_queue_of_two.txt").read_text()


def jobs_of(text: str) -> dict[str, PbsJob]:
    """The jobs that a look finds in this answer of qstat, within a few seconds of computing."""
    began = time.process_time()
    found = section(parse_json("qstat", text), "Jobs")
    jobs = [parse_job(name, values) for name, values in found.items()]
    assert time.process_time() - began < 5
    return {job.name: job for job in jobs if job is not None}


@pytest.mark.parametrize(
    "value",
    [
        *(".5", "0x10", "nan", "inf", "-Infinity", "NAN(7)", "+5", "1.", "007", "0x1p-3", "-.5e+7"),
        *("9" * 5000, "1e999999", "-" + "9" * 19, '"C:\\x\\u12"', '"C:\\"', '"a"b"', '"\\"', '"'),
        *('" , {[}]:"', '"a\x01\x7f\udcff"', "[[[[[["),
    ],
    ids=lambda value: ascii(value[:12]),
)
def test_no_value_of_a_variable_makes_the_queue_unreadable(value: str) -> None:
    jobs = jobs_of(QUEUE % f'"X":{value}')
    assert set(jobs) == {"7.head", "8.head"}
    assert (jobs["7.head"].processors, jobs["7.head"].time_limit) == (4, 3600.0)


@pytest.mark.parametrize("name", ['a"b', "a\\q", "a\\", '"', 'x","y', 'a":{', "\\u12"])
@pytest.mark.parametrize("value", ["1", ".5", '"x"'])
def test_no_name_of_a_variable_makes_the_queue_unreadable(name: str, value: str) -> None:
    jobs = jobs_of(QUEUE % f'"{name}":{value},\n"Y":{value}')
    assert set(jobs) == {"7.head", "8.head"}
    assert (jobs["8.head"].processors, jobs["8.head"].user) == (1, "eve")


@pytest.mark.parametrize("name", [".5", "0x10", "nan", "007", "1e5000"])
def test_a_job_called_like_a_number_keeps_its_place(name: str) -> None:
    text = (QUEUE % '"X":.5').replace('"Job_Owner":"eve', f'"Job_Name":{name},\n"Job_Owner":"eve')
    assert jobs_of(text)["8.head"].user == "eve"


@pytest.mark.parametrize("name", ["1.10", "1e5", "1E5", "-0.0", "NaN", "Infinity"])
def test_names_that_are_numbers_too_are_told_apart(name: str) -> None:
    """`qsub -A 1.10` is not `-A 1.1`: qstat prints both as bare numbers."""
    told = (QUEUE % '"X":1').replace(
        '"Job_Owner":"eve', f'"Account_Name":{name},\n"Job_Name":{name},\n"Job_Owner":"eve'
    )
    job = jobs_of(told)["8.head"]
    assert (job.account, job.title) == (name, name)


def test_ten_megabytes_of_variables_take_no_time() -> None:
    many = ",\n".join(f'"V{number}":.{number}' for number in range(200_000))
    assert len(many) > 3_000_000
    found = jobs_of(QUEUE % f'{many},\n"X":"{"x" * 5_000_000}\\q",\n"Y":{" " * 2_000_000}.5')
    assert set(found) == {"7.head", "8.head"}


def test_nobody_pretends_to_be_another_job() -> None:
    forged = '"A":1}},"7.head":{"job_state":"H","ctime":1,"Job_Owner":"bob","Variable_List":{"B":1'
    assert jobs_of(QUEUE % forged).get("7.head") is None  # left alone rather than believed


@pytest.mark.parametrize("name", [f"{2**63}.head", f"{10**30}.head", "7[99999999].head"])
def test_numbers_beyond_64_bits_are_no_jobs(name: str) -> None:
    assert set(jobs_of((QUEUE % '"X":1').replace("7.head", name))) == {"8.head"}


def run_hook(name: str, folder: Path, config: Path, job: dict[str, Any] | None) -> dict[str, Any]:
    """What a hook did, within five seconds and a little memory."""
    event = {"config": str(config), "pbs_exec": str(folder), "job": job}
    (folder / "event.json").write_text(json.dumps(event))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-O", RUNNER, HOOKS / f"{name}.py", folder / "event.json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=5,
    )
    return dict(json.loads(done.stdout))


DEFAULT, SHORT = 1000.0, 4e6


@pytest.mark.parametrize(
    ("job", "scores"),
    [
        ({"Resource_List": {"walltime": -5}}, {DEFAULT}),
        ({"Resource_List": {"walltime": "-00:15:00"}}, {DEFAULT}),
        ({"Resource_List": {"walltime": "0" * 1_000_000}}, {DEFAULT}),
        ({"Resource_List": {"walltime": "9" * 1_000_000}}, {DEFAULT}),
        ({"Resource_List": {"walltime": ":" * 1_000_000}}, {DEFAULT}),
        ({"Resource_List": {"walltime": [1]}}, {DEFAULT, None}),
        ({"Resource_List": {"walltime": "what"}}, {DEFAULT, None}),
        ({"Resource_List": {"ncpus": "many", "select": "x" * 1_000_000}}, {DEFAULT}),
        ({"Job_Name": "a\nb\n" * 250_000}, {DEFAULT}),
        ({"Job_Name": {"a": 1}, "queue": ["debug"]}, {DEFAULT, None, 8e6}),
        ({"queue": "a" * 1_000_000}, {DEFAULT}),
        (None, {None, DEFAULT}),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_no_attribute_of_a_job_gets_a_better_class_or_stops_the_hook(
    tmp_path: Path, job: dict[str, Any] | None, scores: set[float | None]
) -> None:
    told = run_hook("slurm_rl_class", tmp_path, HOOKS / "slurm_rl_class.json", job)
    assert told["ended"] == "accepted"
    assert (told["job"] or {}).get("rl_score") in scores


@pytest.mark.parametrize("hook", ["slurm_rl_class", "slurm_rl_dead_man"])
def test_settings_of_a_gigabyte_hold_up_no_submission(tmp_path: Path, hook: str) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"default": ')
    os.truncate(config, 2**30)
    assert run_hook(hook, tmp_path, config, {})["ended"] == "accepted"
