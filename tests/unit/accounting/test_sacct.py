"""Dumps of `sacct -P` as sites have them, and as real Slurm releases write them."""

from __future__ import annotations

import json
import os
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

FIELDS = (
    "JobID", "JobIDRaw", "User", "Account", "Partition", "QOS",
    "JobName", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "TimelimitRaw", "NCPUS", "Constraints", "State", "SubmitLine",
)  # fmt: skip
HEADER = "|".join(FIELDS)
JOB = {
    "JobID": "7", "JobIDRaw": "7", "User": "ann", "Account": "physics", "Partition": "main",
    "QOS": "normal", "JobName": "run", "Submit": "2024-02-29T00:00:00",
    "Eligible": "2024-02-29T00:00:10", "Start": "2024-02-29T00:01:00",
    "End": "2024-02-29T01:01:00", "ElapsedRaw": "3600", "TimelimitRaw": "120", "NCPUS": "8",
    "Constraints": "", "State": "COMPLETED", "SubmitLine": "sbatch run.sh",
}  # fmt: skip
RELEASES = sorted(
    path for path in Path(__file__).parents[2].glob("assets/slurm/*") if path.is_dir()
)


def line(**changes):
    assert not changes.keys() - set(FIELDS)
    return "|".join((JOB | changes)[name] for name in FIELDS)


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines):
        path = tmp_path / "dump.txt"
        path.write_text("\n".join(lines) + "\n", newline="\n")
        return SacctReader().read(path)

    return read_lines


@pytest.mark.parametrize("broken_off", range(20, len(line()) - len("sbatch run.sh") - 1, 7))
def test_a_record_cut_off_is_counted_and_costs_no_other(read, broken_off):
    cut = line()[:broken_off]
    for rows, kept in (([line(JobIDRaw="8"), line(JobIDRaw="9")], [7, 8, 9]), ([], [7])):
        log, report = read(HEADER, line(), cut, *rows)
        assert report.dropped == {"truncated record": 1}
        assert (report.read, log.job_id.tolist()) == (len(kept) + 1, kept)
        assert log.submit_line[0] == "sbatch run.sh"


def test_a_long_stretch_of_garbage_ends_in_bounded_time_and_costs_no_job(read):
    garbage = ["garbage | line", "7|7" + "|g" * 100] * 400
    log, report = read(HEADER, line(), *garbage, line(JobIDRaw="8"))
    assert log.job_id.tolist() == [7, 8]
    assert report.dropped["truncated record"] >= 400


FREE_TEXT = st.text(st.sampled_from("ab |\n=7"), min_size=0, max_size=12)


@given(names=st.lists(FREE_TEXT, min_size=1, max_size=6))
def test_any_job_name_between_typed_fields_survives(tmp_path_factory, names):
    header = "JobID|Submit|Start|ElapsedRaw|NCPUS|JobName|State|End"
    rows = [f"{i}|{100 + i}|200|60|4|{name}|COMPLETED|260" for i, name in enumerate(names, 1)]
    path = tmp_path_factory.getbasetemp() / "names.txt"
    path.write_text("\n".join([header, *rows]) + "\n", newline="\n")
    log, report = SacctReader().read(path)
    assert (report.kept, report.dropped) == (len(names), {})
    assert log.job_name == tuple(names)


def fixture(name):
    folder = os.environ.get("SLURM_RL_FIXTURES")
    if not folder:
        pytest.skip("SLURM_RL_FIXTURES names no folder of real dumps")
    return Path(folder) / name


def test_a_real_dump_with_separators_in_job_names():
    log, report = SacctReader().read(fixture("ubccr-sacct_simple.log"))
    assert (report.read, report.kept) == (4, 4)
    assert log.job_name == ("job_00001", "job_0||0002", "job_0|0003", "job_|00004")
    assert log.run_time.tolist() == [84805.0, 12688.0, 2009.0, 2003.0]
    assert log.processors.tolist() == [32, 32, 18, 18]


def test_a_real_dump_of_107_fields_with_a_malformed_last_line():
    log, report = SacctReader().read(fixture("ubccr-sacct_dump2101.log"))
    assert report.read == 13
    assert report.dropped == {"never ran": 6, "truncated record": 1}
    assert log.job_id.tolist() == [4822203, 4830973, 4830974, 4830975, 4830976, 4830977]
    assert log.job_name[3:] == ("Job| Name003", "Job| Name |003", "Jo| bNa| me003")
    assert log.run_time.tolist() == [128930.0] + [259222.0] * 5


def test_a_real_dump_of_another_form_is_refused():
    with pytest.raises(AccountingLogError, match="no dump of `sacct -P`"):
        SacctReader().read(fixture("apel-sample-slurm.txt"))


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


MARK, GUESS = "0123456789abcdef:", "fedcba9876543210:"
MARKED_HEADER = "|".join(SACCT_FIELDS)
T0 = 1_700_000_000


def row(number: int, mark: str = MARK, **values: str) -> str:
    """A record as `sacct` prints it."""
    job = ended_job(number, T0 + number, **values)
    times = {name: f"{mark}{job[name]}" for name in ("Submit", "Eligible", "Start", "End")}
    return "|".join(str((job | times)[name]) for name in SACCT_FIELDS)


#: What another user's job would look like, by one who guesses a mark, and by one who uses none.
FORGED = row(900_001, GUESS, User="victim"), row(900_002, "", User="victim")
TEXT = st.lists(
    st.sampled_from(
        [*FORGED, MARKED_HEADER, GUESS, "x", "|", "\n", "\r", "\r\n", '"', "'", "\\", "é"]
    )
).map("".join)


@given(names=st.lists(TEXT, min_size=1, max_size=4), lines=st.lists(TEXT, min_size=4, max_size=4))
def test_no_text_of_a_job_makes_a_record_or_changes_another(names, lines):
    rows = [
        row(number, JobName=name, SubmitLine=line, Constraints=line[::-1])
        for number, (name, line) in enumerate(zip(names, lines, strict=False), start=1)
    ]
    content = "\n".join([MARKED_HEADER, *rows, ""]).encode()
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
    path.write_text("\n".join([MARKED_HEADER, *rows, ""]))
    report = convert([path], tmp_path / "jobs.parquet", batch=64)
    assert (report.kept, report.noticed) == (3, {"row within the text of a job": 2})
    log, _ = read_log(tmp_path / "jobs.parquet")
    assert (log.job_id.tolist(), log.job_name[2]) == ([1, 2, 3], "a|b")


def test_jobs_that_are_asked_for_again_have_the_same_checksum(tmp_path):
    found = set()
    for place, mark in enumerate((MARK, GUESS)):
        path = tmp_path / str(place)
        path.write_text("\n".join([MARKED_HEADER, row(1, mark), row(2, mark, JobName="a|b"), ""]))
        found.add(SacctReader().read(path)[1].checksum)
    assert len(found) == 1


def test_a_faulty_record_costs_no_other(tmp_path):
    path = tmp_path / "dump"
    cut = row(2).rpartition("|")[0]
    path.write_text("\n".join([MARKED_HEADER, row(1), cut, row(3, NCPUS="many"), row(4), ""]))
    log, report = SacctReader().read(path)
    assert log.job_id.tolist() == [1, 4]
    assert report.dropped == {"truncated record": 1, "unreadable ncpus": 1}


@pytest.mark.parametrize(
    "names",
    [
        MARKED_HEADER.replace(
            "Constraints|Submit|", "Constraints|"
        ),  # a text without a mark at its beginning
        MARKED_HEADER.replace("Submit|Cluster", "Cluster|Submit"),
        MARKED_HEADER.replace("State|Constraints", "Constraints|State"),
    ],
)
def test_marks_at_other_places_are_no_frames(tmp_path, names):
    path = tmp_path / "dump"
    path.write_text(f"{names}\n{row(1)}\n")
    with pytest.raises(AccountingLogError, match="openssl rand"):
        SacctReader().read(path)


def test_a_second_dump_joined_to_the_first_is_not_swallowed_in_silence():
    names = tuple(MARKED_HEADER.lower().split("|"))
    cutter = MarkedCutter(Layout(names, trailing=False, header=MARKED_HEADER, mark=MARK))
    cutter.cut(f"{MARKED_HEADER}\n{row(1)}\n".encode())
    batch = f"{row(2, GUESS)}\n".encode() * (LONGEST_RECORD // len(row(2, GUESS)) + 1)
    with pytest.raises(AccountingLogError, match="give each as a file of its own"):
        cutter.cut(batch)


def test_the_documents_tell_the_command_that_frames_records():
    told = (Path(__file__).parents[3] / "docs" / "research" / "researchers.md").read_text()
    assert SACCT_COMMAND.replace("<start>", "2026-01-01") in told
