"""The log that the documents tell to export, from real Slurm releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_rl_plugin.accounting.sacct.reader import SacctReader

RELEASES = sorted(
    path for path in Path(__file__).parents[2].glob("assets/slurm/*") if path.is_dir()
)


@pytest.mark.parametrize("answers", RELEASES, ids=lambda path: path.name)
def test_the_jobs_that_ran_are_kept(answers: Path) -> None:
    jobs = json.loads(answers.joinpath("jobs.json").read_text())
    log, report = SacctReader().read(answers / "sacct-log.txt")
    kept = dict(zip(log.job_name, log.processors.tolist(), strict=True))
    assert sorted(log.job_id.tolist()) == [jobs["ended"], jobs["whole node"]]
    assert kept == {"ended": 1, "whole node": 4}
    assert set(report.dropped) <= {"not finished"}
    assert log.time_limit.tolist() == [300.0, 300.0]
    assert all("--wrap=sleep" in line for line in log.submit_line)
    assert (log.users, log.accounts) == (("bob",), ("biology",))
