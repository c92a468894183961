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
