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


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": 0}, "never ran"),
        ({"run": -1}, "never ran"),
        ({"run": 0, "allocated": 0}, "never ran"),
        ({"run": -7}, "negative run time"),
        ({"allocated": 0}, "no processors"),
        ({"allocated": -1, "requested": -1}, "no processors"),
        ({"allocated": -1, "requested": 0}, "no processors"),
        ({"submit": -3}, "negative submit time"),
        ({"status": 2}, "part of a job"),
        ({"status": 3, "run": 20}, "part of a job"),
        ({"status": 4, "run": 0}, "part of a job"),
    ],
)
def test_an_impossible_value_is_counted_and_dropped(read, changes, reason):
    log, report = read(row(), row(**changes))
    assert report.dropped == {reason: 1}
    assert (report.read, report.kept, len(log)) == (2, 1, 1)


def test_a_job_that_ran_in_portions_is_one_job_whole_or_as_a_stream(read, tmp_path):
    portions = [row(status=2, run=25), row(status=2, run=15, submit=-1), row(status=3, run=20)]
    log, report = read(row(run=60), *portions, row(job=2, status=0), row(job=3, status=5))
    assert (log.job_id.tolist(), log.run_time.tolist()) == ([1, 2, 3], [60.0, 60.0, 60.0])
    assert report.dropped == {"part of a job": 3}


def test_a_log_where_nothing_ran_is_an_empty_table(read):
    log, report = read(row(run=0))
    assert (len(log), report.read, report.dropped) == (0, 1, {"never ran": 1})


@pytest.mark.parametrize(("wait", "noticed"), [(-1, {}), (-4, {"negative wait": 1})])
def test_an_unknown_wait_leaves_the_start_unknown(read, wait, noticed):
    log, report = read(row(wait=wait, allocated=-1, requested=9))
    assert np.isnan(log.start).all()
    assert report.noticed == noticed
    assert log.processors.tolist() == [9]  # those that were given are not known either


@pytest.mark.parametrize("limit", [-1, 0, -5])
def test_no_requested_time_is_nan(read, limit):
    log, _ = read(row(limit=limit))
    assert np.isnan(log.time_limit).all()


@pytest.mark.parametrize(
    ("other", "accounts", "account"),
    [
        ({"group": 30}, ("4", "30"), [0, 1]),
        ({"group": 4}, ("9", "10"), [1, 0]),
        ({"group": -1}, ("9", "10"), [1, 0]),
        ({"group": 30, "run": 0}, ("10",), [0]),  # groups of dropped jobs do not count
    ],
)
def test_accounts_are_groups_where_there_are_two_and_else_users(read, other, accounts, account):
    log, _ = read(row(user=10, group=4), row(user=9, **other))
    assert (log.accounts, log.account.tolist()) == (accounts, account)
    assert log.users == ("9", "10")[-len(log) :]


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ([], None),
        (["; MaxProcs: 64"], 64),
        (["; MaxNodes: 70  (dual)", ";   MaxProcs: 140"], 140),
        (["; MaxNodes: 32"], 32),
        (["; MaxNodes: 32", "; MaxProcs: -1"], 32),
        (["; Note: MaxProcs: 7 once"], None),
        (["; Operator: \xc5ke"], None),
    ],
)
def test_the_header_tells_the_size_of_the_machine(read, header, size):
    assert read(*header, row())[0].processors_available == size


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        (row(user="x"), "12 (user)", "no number"),
        (row(run="1_0"), "4 (run time)", "no number"),
        (row(submit="nan"), "2 (submit time)", "out of range"),
        (row(wait="inf"), "3 (wait time)", "out of range"),
        (row(job="1e30"), "1 (job number)", "out of range"),
        (row(allocated=1.5), "5 (allocated processors)", "no whole number"),
        (row() + " 1", None, "19 columns"),
        (row()[:-3], None, "17 columns"),
        ("garbage", None, "1 columns"),
    ],
)
def test_a_structural_fault_stops_with_line_and_field(read, line, field, words):
    with pytest.raises(AccountingLogError, match=words) as caught:
        read("; a comment", "", row(), line, row())
    assert (caught.value.line, caught.value.field) == (4, field)
    assert "log.swf:4: " in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "words"), [([row()[:-3]] * 2, "17 columns"), (["; MaxProcs: 4", ""], "no job")]
)
def test_a_log_without_any_sound_row_is_refused(read, lines, words):
    with pytest.raises(AccountingLogError, match=words):
        read(*lines)


def test_tabs_and_comments_between_the_rows_are_read(read):
    log, report = read(row().replace(" ", "\t"), "; half", "  " + row(job=2) + "  ")
    assert (log.job_id.tolist(), report.read) == ([1, 2], 2)


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


def test_a_log_without_requested_memory_asks_for_processors_alone(read):
    assert read(row(memory=500))[0].requests is None


def test_requested_memory_is_told_by_processor(read, tmp_path):
    log, _ = read(row(requested_memory=1536, allocated=4), row(memory=99))
    np.testing.assert_array_equal(log.requests.total, [[4, 6, 0], [2, 0, 0]])
    assert log.requests.memory_per_cpu.tolist() == [True, False]
    assert log.requests.nodes.tolist() == [0, 0]
    write_swf(tmp_path / "out.swf", log, comments=[])
    again, _ = SwfReader().read(tmp_path / "out.swf")
    np.testing.assert_array_equal(again.requests.total, log.requests.total)


def test_a_start_after_a_whole_wait_is_the_one_that_was_written(read):
    log, _ = read(row(submit=0.14, wait=1, run=60.0))
    assert 0.14 + 1 != 1.14
    assert log.start.tolist() == [1.14]
