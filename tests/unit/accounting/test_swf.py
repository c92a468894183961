"""SWF in and out."""

import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.errors import AccountingLogError


def row(**changes):
    values = {
        "job": 1, "submit": 100, "wait": 5, "run": 60, "allocated": 2, "cpu": -1, "memory": -1,
        "requested": 2, "limit": 600, "requested_memory": -1, "status": 1, "user": 7, "group": 1,
        "executable": -1, "queue": 3, "partition": -1, "preceding": -1, "think": -1,
    }  # fmt: skip
    assert not changes.keys() - values.keys()
    return " ".join(str(value) for value in (values | changes).values())


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines):
        path = tmp_path / "log.swf"
        path.write_text("\n".join(lines) + "\n", encoding="latin-1")
        return SwfReader().read(path)

    return read_lines


def assert_same_table(one: JobLog, other: JobLog) -> None:
    for f in fields(JobLog):
        left, right = getattr(one, f.name), getattr(other, f.name)
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right, err_msg=f.name, strict=True)
        else:
            assert left == right, f.name


@pytest.mark.parametrize("header", ["; Note: MaxProcs: 7 once", "; Operator: \xc5ke"])
def test_a_header_without_the_size_of_the_machine(read, header):
    assert read(header, row())[0].processors_available is None


def at_random(numbers):
    values, index = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)
    return index.astype(np.int64), tuple(str(value) for value in values)


SECONDS = st.integers(0, 4_000_000_000) | st.floats(0, 4e9)
#: Starts have microseconds.
WAITS = st.none() | st.integers(0, 10**9) | st.integers(0, 10**12).map(lambda n: n / 1e6)
NAMES = st.integers(-1, 5)


@st.composite
def job_logs(draw):
    jobs = draw(
        st.lists(
            st.tuples(
                st.integers(-1, 2**52), SECONDS, WAITS, st.floats(1e-3, 1e9), st.integers(1, 10**6),
                st.none() | st.floats(1e-3, 1e9), NAMES, NAMES, NAMES,
            ),
            min_size=1, max_size=8,
        )
    )  # fmt: skip
    ids, submit, wait, run, processors, limit, users, groups, queues = zip(
        *sorted(jobs, key=lambda job: job[1]), strict=True
    )
    user, partition = at_random(users), at_random(queues)
    account = at_random(groups) if len({g for g in groups if g >= 0}) > 1 else user
    submit = np.array(submit, dtype=np.float64)
    told = np.array([np.nan if w is None else w for w in wait], dtype=np.float64)
    return JobLog(
        job_id=np.array(ids, dtype=np.int64), submit=submit, eligible=submit.copy(),
        start=np.maximum(submit, np.round(submit + told, 6)),
        run_time=np.array(run), processors=np.array(processors, dtype=np.int64),
        time_limit=np.array([np.nan if v is None else v for v in limit], dtype=np.float64),
        account=account[0], accounts=account[1], user=user[0], users=user[1],
        partition=partition[0], partitions=partition[1], kind="swf",
        processors_available=draw(st.none() | st.integers(1, 10**9)),
    )  # fmt: skip


@given(log=job_logs(), comments=st.lists(st.text(max_size=20).map("note {}".format), max_size=3))
def test_a_written_table_reads_back_the_same(tmp_path_factory, log, comments):
    path = tmp_path_factory.getbasetemp() / "round.swf"
    write_swf(path, log, comments=comments)
    again, report = SwfReader().read(path)
    assert_same_table(again, log)
    assert report.dropped == report.noticed == {}


def test_whole_seconds_are_written_as_integers(read, tmp_path):
    log, _ = read(row(submit=0.25, wait=2, run=60.0))
    path = tmp_path / "out.swf"
    write_swf(path, log, comments=["made by a test\non two lines"])
    text = path.read_text().splitlines()
    assert text[:3] == ["; Version: 2.2", "; made by a test", "; on two lines"]
    assert text[-1].split()[:5] == ["1", "0.25", "2", "60", "2"]


def test_no_group_is_made_up_where_accounts_are_users(read, tmp_path):
    log, _ = read(row(user=1, group=5), row(user=2, group=5))
    path = tmp_path / "out.swf"
    write_swf(path, log, comments=[])
    assert [line.split()[11:13] for line in path.read_text().splitlines()[-2:]] == [
        ["1", "-1"],
        ["2", "-1"],
    ]


def test_comments_of_any_text_leave_a_readable_file(read, tmp_path):
    log, _ = read(row())
    path = tmp_path / "out.swf"
    write_swf(path, log, comments=["zero \0 byte", "lone \udc80 surrogate", "carriage\rreturn"])
    assert_same_table(SwfReader().read(path)[0], log)


def test_a_gz_name_is_written_gzipped_with_the_same_bytes_every_time(read, tmp_path):
    log, _ = read(row())
    path = tmp_path / "out.swf.gz"
    write_swf(path, log, comments=[])
    first = path.read_bytes()
    write_swf(path, log, comments=[])
    assert first[:2] == b"\x1f\x8b"
    assert path.read_bytes() == first
    assert_same_table(SwfReader().read(path)[0], log)


def test_names_are_numbered_and_explained(read, tmp_path):
    log, _ = read(row(user=1, group=1), row(user=2, group=2))
    path = tmp_path / "out.swf"
    write_swf(path, replace(log, accounts=("physics", "biology")), comments=[])
    again, _ = SwfReader().read(path)
    assert again.accounts == ("1", "2")
    assert again.account.tolist() == [0, 1]
    assert "; Group 2: biology" in path.read_text()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(read, tmp_path, monkeypatch):
    log, _ = read(row())
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "out.swf"
    path.write_text("old")

    def full_disk(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(AccountingLogError, match="No space left"):
        write_swf(path, log, comments=[])
    assert path.read_text() == "old"
    assert list(folder.iterdir()) == [path]


def test_negative_submit_times_are_not_written(read, tmp_path):
    log, _ = read(row())
    with pytest.raises(ValueError, match="negative submit"):
        write_swf(tmp_path / "out.swf", replace(log, submit=np.array([-1.0])), comments=[])


@pytest.mark.parametrize(
    ("name", "read_count", "kept", "size"),
    [
        ("LPC-EGEE-2004-1.2-cln.swf.gz", 234_889, 214_322, 140),
        ("LPC-D_190257-199831.swf.gz", 9_500, 9_500, None),
        ("HPC2N-2002-2.2-cln.swf.gz", 202_871, 202_871, 240),
    ],
)
def test_the_real_traces_hold_the_published_number_of_jobs(name, read_count, kept, size):
    folder = os.environ.get("SLURM_RL_TRACES")
    if not folder:
        pytest.skip("SLURM_RL_TRACES names no folder of workload traces")
    log, report = SwfReader().read(Path(folder) / name)
    assert (report.read, report.kept, len(log)) == (read_count, kept, kept)
    assert sum(report.dropped.values()) == read_count - kept
    assert log.processors_available == size
    assert (np.diff(log.submit) >= 0).all()


def test_requested_memory_survives(read, tmp_path):
    log, _ = read(row(requested_memory=1536, allocated=4), row(memory=99))
    write_swf(tmp_path / "out.swf", log, comments=[])
    again, _ = SwfReader().read(tmp_path / "out.swf")
    np.testing.assert_array_equal(again.requests.total, log.requests.total)
