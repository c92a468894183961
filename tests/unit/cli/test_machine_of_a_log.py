"""What verbs say of a log that does not tell its machine, has no job that ran, or is too large."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main

#: Each a job of four processors and 300 s: number, state, start and end.
_HEADER = "JobIDRaw|User|Account|Partition|Submit|Start|End|TimelimitRaw|NCPUS|State"
_SWF = "{} 0 0 100 4 -1 -1 4 100 -1 1 1 1 -1 1 1 -1 -1"


def dump(folder: Path, state: str, start: str, end: str) -> str:
    """A dump of two jobs that are alike."""
    path = folder / "site.sacct"
    rows = [f"{each}|u|physics|p|1000|{start}|{end}|60|4|{state}" for each in (1, 2)]
    path.write_text("\n".join([_HEADER, *rows]) + "\n")
    return str(path)


def test_a_log_without_a_job_that_ran_says_so_and_asks_for_no_processors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = dump(tmp_path, "PENDING", "Unknown", "Unknown")
    assert main(["limits", log]) == 2
    assert capsys.readouterr().err == (
        f"slurm-rl limits: {log}: none of its 2 records is a job that ran (2 not finished): give a "
        "log of jobs that have ended.\n"
    )


def test_weeks_are_not_drawn_of_a_log_without_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, stored = dump(tmp_path, "PENDING", "Unknown", "Unknown"), tmp_path / "site.parquet"
    model = str(tmp_path / "model.onnx")
    for words in (
        ["convert", log, "-o", str(stored)],
        ["train", f"{log}@weeks=2", "-o", model, "--steps", "1"],
    ):
        assert main(words) == 2
        assert f"{log}: none of its 2 records is a job that ran" in capsys.readouterr().err
    assert not stored.exists()


def test_a_request_that_no_reader_reads_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, stored = tmp_path / "20260101", tmp_path / "site.parquet"
    log.write_text(
        "01/01/2026 00:00:00;E;1.s;user=u queue=q ctime=1 start=2 end=99 Resource_List.ncpus=1 "
        "Resource_List.matlab=2\n"
    )
    assert main(["convert", str(log), "-o", str(stored)]) == 0
    assert "kept, but Resource_List.matlab is not read       1" in capsys.readouterr().out
    for each in (log, stored):
        assert main(["limits", str(each)]) == 0
        said = f"slurm-rl: {each}: Resource_List.matlab is not read; 1 jobs have it.\n"
        assert said in capsys.readouterr().err


def test_jobs_that_fit_no_machine_are_told_with_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = dump(tmp_path, "COMPLETED", "1010", "1310")
    assert main(["limits", log, "--processors", "2"]) == 2
    told = "no job of the log fits the machine of 2 processors (2 wider than the machine)."
    assert told in capsys.readouterr().err


def test_a_size_that_nobody_told_is_said_to_be_a_guess(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = dump(tmp_path, "COMPLETED", "1010", "1310")
    guess = "does not say how large the machine is: 8 processors, the most that was in use at once"
    assert main(["evaluate", log, "--policy", "fifo"]) == 0
    assert guess in capsys.readouterr().out
    assert main(["evaluate", log, "--policy", "fifo", "--processors", "8"]) == 0
    assert "how large the machine is" not in capsys.readouterr().out


def test_a_recorded_order_that_had_a_larger_machine_is_not_compared_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "wide.swf"
    log.write_text("\n".join(["; MaxProcs: 4", *(_SWF.format(each) for each in range(3))]) + "\n")
    assert main(["evaluate", str(log), "--policy", "fifo", "--policy", "native"]) == 0
    assert "native had 3.0 times the 4 processors of this machine" in capsys.readouterr().out
    assert main(["evaluate", str(log), "--policy", "native", "--processors", "12"]) == 0
    assert "times the" not in capsys.readouterr().out
