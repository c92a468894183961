"""The file of plan estimates: which numbers are those of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.hook.plan.plan_file import PlanFile, PlanMemory


def test_subjobs_of_pbs_are_remembered(tmp_path: Path) -> None:
    subjob = job_number("999999999999[4194303].h")
    assert subjob is not None
    known = PlanMemory(jobs={subjob: (60,)}, promises={subjob: 5.0}, time=1.0)
    file = PlanFile(tmp_path / "plan.json")
    file.write(known)
    assert file.read() == known


@pytest.mark.parametrize("job", [0, -1, 2**63])
def test_a_number_of_no_job_makes_it_untrusted(tmp_path: Path, job: int) -> None:
    file = PlanFile(tmp_path / "plan.json")
    file.write(PlanMemory(jobs={job: (60,)}))
    assert file.read() is None


@pytest.mark.parametrize("told", ["1" + "0" * 400, "NaN", "Infinity", "1e999", '"soon"', "null"])
@pytest.mark.parametrize("entry", ["longest", "time", "promises"])
def test_a_time_that_is_no_number_makes_it_untrusted(tmp_path: Path, entry: str, told: str) -> None:
    values = {"version": "1", "jobs": "{}", "promises": "{}", "longest": "60", "time": "5"}
    values[entry] = f'{{"7": {told}}}' if entry == "promises" else told
    text = ", ".join(f'"{name}": {value}' for name, value in values.items())
    file = PlanFile(tmp_path / "plan.json")
    file.path.write_text(f"{{{text}}}")
    assert file.read() is None


def test_what_was_never_looked_at_comes_back(tmp_path: Path) -> None:
    file = PlanFile(tmp_path / "plan.json")
    file.write(PlanMemory(jobs={1: (60,)}))
    assert file.read() == PlanMemory(jobs={1: (60,)})
