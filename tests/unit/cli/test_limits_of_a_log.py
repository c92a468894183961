"""`slurm-rl limits`: a user whom the log does not know, and jobs without limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.simulator.workloads.generators import generated_log


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Jobs of one user, without limits."""
    path = tmp_path / "plain.swf"
    drawn = generated_log("mmn:jobs=60,processors=4,seed=2")
    drawn = replace(drawn, time_limit=np.full(len(drawn), np.nan))
    write_swf(path, drawn, comments=["MaxProcs: 4"])
    return str(path)


def test_a_user_without_a_job_is_refused(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", log, "-u", "nosuch"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "-u nosuch: plain.swf has no job of this user: give another." in captured.err


def test_jobs_without_limits_give_a_sentence_and_no_table(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["limits", log]) == 0
    output = capsys.readouterr().out
    assert "None of these jobs has a time limit" in output
    assert "LIMIT/RUN" not in output
    assert "No limit is advised" not in output


def test_jobs_without_a_limit_are_counted_beside_those_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of fifteen accounts has a job with a limit and one without; twelve are shown."""
    path = tmp_path / "some.swf"
    drawn = generated_log("mmn:jobs=30,processors=4,seed=2")
    accounts = tuple(f"account{each}" for each in range(15))
    drawn = replace(
        drawn,
        account=np.arange(30) % 15,
        accounts=accounts,
        time_limit=np.where(np.arange(30) < 15, 9e9, np.nan),
    )
    write_swf(path, drawn, comments=["MaxProcs: 4"])
    assert main(["limits", str(path), "--days", "999"]) == 0
    output = capsys.readouterr().out
    assert "15 of them have no time limit and are left out below." in output
    assert "3 more accounts: --json names them." in output
