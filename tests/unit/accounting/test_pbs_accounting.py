"""Accounting files of PBS and Torque as servers and hostile users write them."""

import os
from datetime import UTC, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.pbs import reader
from slurm_rl_plugin.accounting.pbs.reader import PbsReader
from slurm_rl_plugin.accounting.pbs.runs import MOST_PLACES
from slurm_rl_plugin.errors import AccountingLogError
from tests.fakes.pbs_month import write_month

START = 1_795_220_516
JOB = {
    "user": "u1",
    "group": "g1",
    "project": "_pbs_project_default",
    "jobname": "train_9",
    "queue": "workq",
    "ctime": START - 483,
    "qtime": START - 400,
    "etime": START - 300,
    "start": START,
    "exec_host": "host/0",
    "exec_vnode": "(host:ncpus=1:mem=1048576kb)",
    "Resource_List.ncpus": 1,
    "Resource_List.select": "1:ncpus=1:mem=1gb",
    "Resource_List.walltime": "00:30:00",
    "session": 0,
    "end": START + 20,
    "Exit_status": 0,
    "run_count": 1,
}


def record(job="219.host", kind="E", stamp="11/21/2026 00:21:58", **changes):
    values = JOB | {name.replace("__", "."): value for name, value in changes.items()}
    told = " ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return f"{stamp};{kind};{job};{told}"


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines):
        path = tmp_path / "20261121"
        path.write_text("\n".join(lines) + "\n")
        return PbsReader(UTC).read(path)

    return read_lines


def test_places_are_bounded_and_counts_are_not(read, tmp_path):
    _, report = read(record(), "", *["garbage"] * (MOST_PLACES + 5))
    assert report.dropped == {"malformed record": MOST_PLACES + 5}
    assert len(report.malformed) == MOST_PLACES
    assert report.malformed[0].startswith(f"{tmp_path / '20261121'}:3: ")


def test_the_time_in_front_serves_where_the_record_has_no_end(tmp_path):
    path = tmp_path / "20261121"
    path.write_text(record(stamp="11/21/2026 00:21:58", end=None) + "\n")
    ends = []
    for zone in (UTC, timezone(timedelta(hours=-1))):
        log, _ = PbsReader(zone).read(path)
        ends.append(float((log.start + log.run_time)[0]))
    assert ends == [START + 2.0, START + 3602.0]


def test_a_folder_of_daily_files_is_one_log(tmp_path):
    counts = write_month(tmp_path / "accounting", 3000, packed=2)
    (tmp_path / "accounting" / "20261201").touch()  # a day on which nothing happened
    (tmp_path / "accounting" / "README").write_text("not an accounting file")
    log, report = read_log(tmp_path / "accounting")
    assert report.read == len(log) == counts.pop("E")
    assert report.other_records == counts
    assert (np.diff(log.submit) >= 0).all()
    # the same jobs whatever the files are called, and part of them by a pattern
    part, _ = read_log(tmp_path / "accounting" / "2026110[3-9]")
    assert 0 < len(part) < len(log)


def test_a_folder_without_daily_files_is_refused(tmp_path):
    with pytest.raises(AccountingLogError, match="directory without PBS accounting files"):
        read_log(tmp_path)


def test_a_pattern_that_no_file_matches_is_refused(tmp_path):
    with pytest.raises(AccountingLogError, match="no file matches"):
        read_log(tmp_path / "2026*")


def test_a_daily_file_that_is_none_stops_with_file_and_line(tmp_path):
    (tmp_path / "20261101").write_text(record() + "\n")
    (tmp_path / "20261102").write_text("\n; Version: 2.2\n")
    with pytest.raises(AccountingLogError, match="no PBS accounting file") as caught:
        read_log(tmp_path)
    assert (caught.value.line, "20261102" in str(caught.value)) == (2, True)


@given(hostile=st.text(alphabet='ab "=;stare0123456789ndcimxuq', max_size=40))
def test_no_account_string_changes_the_times_of_its_job(tmp_path_factory, hostile):
    path = tmp_path_factory.getbasetemp() / "hostile"
    path.write_text(record(account=f'"{hostile}"') + "\n" + record("1.host") + "\n")
    log, _ = PbsReader(UTC).read(path)
    assert set(log.start.tolist()) == {float(START)}
    assert set(log.run_time.tolist()) == {20.0}


def test_a_whole_log_takes_no_way_through_frames(read, monkeypatch):
    monkeypatch.setattr(reader, "frame_of", None)  # which would take three times the memory
    assert read(record())[0].processors.tolist() == [JOB["Resource_List.ncpus"]]


def fixture(name):
    folder = os.environ.get("SLURM_RL_FIXTURES")
    if not folder:
        pytest.skip("SLURM_RL_FIXTURES names no folder of real dumps")
    return Path(folder) / name


def test_real_lines_of_torque():
    path = fixture("apel-sample-pbs.txt")
    log, report = read_log(path)
    text = path.read_text()
    assert report.read == text.count(";E;") == 10
    assert report.malformed == (f"{path}:1: etime=1317509574start=1317509945 is no time",)
    assert report.dropped == {
        "malformed record": 1,
        "never ran": 2,
        "end before start": 1,
        "duplicate record": 1,
    }
    assert log.job_id.tolist() == [21048463, 21414868, 21430205, 24940336, 37803854]
    assert log.processors.tolist() == [1, 4, 4, 1, 1]
    assert (log.start - log.submit).tolist() == [371.0, 294.0, 251.0, 118.0, 97.0]
