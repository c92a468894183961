"""Files of the study of start times: odd values are taken, what is missing is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from tests.fakes.polled_jobs import polled_jobs, write_polled_jobs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.parquet"


def test_what_is_known_later_only_is_not_among_the_looks(path: Path) -> None:
    more = polled_jobs(2).with_columns(q_a_gpu_run_hours=1.0, alloc_nodes=1, elapsed_time=9)
    late = pl.col("poll_wait_sec") > 3000
    eligible = pl.when(late).then("start_time").otherwise("eligible_time")
    jobs = read_jobs_file(write_polled_jobs(path, more.with_columns(eligible_time=eligible)))
    assert not [name for name in jobs.look if "run_hours" in name]
    assert "alloc_nodes" not in jobs.look
    assert np.isnan(jobs.eligible).sum() == (more["poll_wait_sec"] > 3000).sum()


def test_times_may_be_times_and_optional_columns_may_be_missing_or_empty(path: Path) -> None:
    table = polled_jobs(2).with_columns(req_tres=pl.lit("cpu=4,gres/gpu:p100=2,node=3"))
    plain = read_jobs_file(write_polled_jobs(path, table))
    assert (set(plain.gpus), set(plain.nodes)) == ({2.0}, {3.0})  # GPUs may have a type
    assert sorted(plain.wait) == sorted(table["poll_wait_sec"])
    assert np.isinf(plain.look["level_fs_poll"]).any()
    assert (np.diff(plain.moment) >= 0.0).all()
    few = table.select("poll_time", "submit_time", "start_time", "account_id", "partition_id_y")
    few = few.with_columns(pl.col("^.*_time$").str.to_datetime(), req_cpus=pl.lit(None))
    jobs = read_jobs_file(write_polled_jobs(path, few))
    np.testing.assert_array_equal(np.sort(jobs.wait), np.sort(plain.wait))
    assert jobs.look == {}
    assert np.isnan(jobs.end).all()


def test_jobs_that_had_started_or_say_no_poll_are_left_out(path: Path) -> None:
    table = polled_jobs(2, 10)
    poll = pl.when(pl.int_range(20) < 3).then(None).otherwise("poll_time")
    start = pl.when(pl.int_range(20) == 5).then("submit_time").otherwise("start_time")
    write_polled_jobs(path, table.with_columns(poll_time=poll, start_time=start))
    assert len(read_jobs_file(path)) == 16


@pytest.mark.parametrize(
    ("mend", "said"),
    [
        (lambda t: t.drop("account_id", "poll_time"), "has no column poll_time, account_id"),
        (lambda t: t.drop("partition_id_y"), "has no column partition_id_y or partition_id_x"),
        (lambda t: t.with_columns(start_time=pl.lit("soon")), "field start_time: is no column of"),
        (lambda t: t.with_columns(req_cpus=pl.lit("many")), "field req_cpus: is no column of"),
        (lambda t: t.with_columns(start_time="submit_time"), "no job was pending at its poll"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(path: Path, mend: object, said: str) -> None:
    write_polled_jobs(path, mend(polled_jobs(2)))  # type: ignore[operator]
    with pytest.raises(AccountingLogError, match=said):
        read_jobs_file(path)
    path.write_text("job,wait\n1,2\n")
    for other in (path, path.with_name("none.parquet")):
        with pytest.raises(AccountingLogError, match="is no parquet file that can be read"):
            read_jobs_file(other)
