"""Dumps of `sacct -P` whose times bear a mark: no text of a job frames a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.sacct.batches import LONGEST_RECORD, MarkedCutter
from slurm_rl_plugin.accounting.sacct.fields import SACCT_COMMAND, SACCT_FIELDS, Layout
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.errors import AccountingLogError
from tests.fakes.ended_jobs import ended_job

MARK, GUESS = "0123456789abcdef:", "fedcba9876543210:"
HEADER = "|".join(SACCT_FIELDS)
T0 = 1_700_000_000


def row(number: int, mark: str = MARK, **values: str) -> str:
    """A record as `sacct` prints it."""
    job = ended_job(number, T0 + number, **values)
    times = {name: f"{mark}{job[name]}" for name in ("Submit", "Eligible", "Start", "End")}
    return "|".join(str((job | times)[name]) for name in SACCT_FIELDS)


#: What another user's job would look like, by one who guesses a mark, and by one who uses none.
FORGED = row(900_001, GUESS, User="victim"), row(900_002, "", User="victim")
TEXT = st.lists(
    st.sampled_from([*FORGED, HEADER, GUESS, "x", "|", "\n", "\r", "\r\n", '"', "'", "\\", "é"])
).map("".join)


@given(names=st.lists(TEXT, min_size=1, max_size=4), lines=st.lists(TEXT, min_size=4, max_size=4))
def test_no_text_of_a_job_makes_a_record_or_changes_another(names, lines):
    rows = [
        row(number, JobName=name, SubmitLine=line, Constraints=line[::-1])
        for number, (name, line) in enumerate(zip(names, lines, strict=False), start=1)
    ]
    content = "\n".join([HEADER, *rows, ""]).encode()
    log, report = SacctReader().read(LogFile(Path("sacct"), content))
    assert log.job_id.tolist() == list(range(1, len(names) + 1))
    assert (set(log.users), log.run_time.tolist()) == ({"alice"}, [50.0] * len(names))
    assert (report.kept, report.dropped) == (len(names), {})
    # whatever it holds, a text stays as it is, but for Windows' line ends
    assert log.job_name == tuple(name.replace("\r\n", "\n") for name in names)
    assert set(report.noticed) <= {"row within the text of a job"}


def test_a_forged_row_is_noticed_in_batches_too(tmp_path):
    rows = [row(1, JobName=f"x\n{FORGED[0]}\n{FORGED[1]}"), row(2), row(3, JobName="a|b")]
    path = tmp_path / "dump"
    path.write_text("\n".join([HEADER, *rows, ""]))
    report = convert([path], tmp_path / "jobs.parquet", batch=64)
    assert (report.kept, report.noticed) == (3, {"row within the text of a job": 2})
    log, _ = read_log(tmp_path / "jobs.parquet")
    assert (log.job_id.tolist(), log.job_name[2]) == ([1, 2, 3], "a|b")


def test_jobs_that_are_asked_for_again_have_the_same_checksum(tmp_path):
    found = set()
    for place, mark in enumerate((MARK, GUESS)):
        path = tmp_path / str(place)
        path.write_text("\n".join([HEADER, row(1, mark), row(2, mark, JobName="a|b"), ""]))
        found.add(SacctReader().read(path)[1].checksum)
    assert len(found) == 1


def test_a_faulty_record_costs_no_other(tmp_path):
    path = tmp_path / "dump"
    cut = row(2).rpartition("|")[0]
    path.write_text("\n".join([HEADER, row(1), cut, row(3, NCPUS="many"), row(4), ""]))
    log, report = SacctReader().read(path)
    assert log.job_id.tolist() == [1, 4]
    assert report.dropped == {"truncated record": 1, "unreadable ncpus": 1}


@pytest.mark.parametrize(
    "names",
    [
        HEADER.replace("Constraints|Submit|", "Constraints|"),  # a text whose begin no mark tells
        HEADER.replace("Submit|Cluster", "Cluster|Submit"),
        HEADER.replace("State|Constraints", "Constraints|State"),
    ],
)
def test_marks_at_other_places_are_no_frames(tmp_path, names):
    path = tmp_path / "dump"
    path.write_text(f"{names}\n{row(1)}\n")
    with pytest.raises(AccountingLogError, match="openssl rand"):
        SacctReader().read(path)


def test_a_second_dump_joined_to_the_first_is_not_swallowed_in_silence():
    names = tuple(HEADER.lower().split("|"))
    cutter = MarkedCutter(Layout(names, trailing=False, header=HEADER, mark=MARK))
    cutter.cut(f"{HEADER}\n{row(1)}\n".encode())
    batch = f"{row(2, GUESS)}\n".encode() * (LONGEST_RECORD // len(row(2, GUESS)) + 1)
    with pytest.raises(AccountingLogError, match="give each as a file of its own"):
        cutter.cut(batch)


def test_the_documents_tell_the_command_that_frames_records():
    told = (Path(__file__).parents[3] / "docs" / "researchers.md").read_text()
    assert SACCT_COMMAND.replace("<start>", "2026-01-01") in told
