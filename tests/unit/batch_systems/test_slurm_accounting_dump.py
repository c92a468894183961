"""Queries of `sacct`, a month each: no job is lost and none is counted twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.batch_systems.port import LogDump
from slurm_rl_plugin.batch_systems.slurm.answers.fields import FINAL_STATES
from slurm_rl_plugin.batch_systems.slurm.own_accounting import (
    ENDED_STATES,
    month_stretches,
    read_accounting_dump,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.errors import BatchSystemUnavailable
from tests.fakes.ended_jobs import ended_job
from tests.fakes.fake_cluster import FakeCluster

SECOND = timedelta(seconds=1)
TIMES = st.datetimes(min_value=datetime(2019, 1, 1), max_value=datetime(2027, 1, 1)).map(
    lambda time: time.replace(microsecond=0)
)
#: Known to sacct of 22.05 but not to that of 24.11 or 26.05 (slurm-releases, run there).
GONE = {"Reserved", "ResvCPU", "ResvCPURAW"}


@given(st.tuples(TIMES, TIMES).filter(lambda times: times[0] < times[1]))
def test_stretches_cover_every_second_once_and_end_with_their_month(times):
    since, until = times
    stretches = month_stretches(since, until)
    assert (stretches[0].begin, stretches[-1].end) == (since, until)
    for before, after in pairwise(stretches):
        assert before.end + SECOND == after.begin
        assert (after.begin.day, after.begin.hour, after.begin.second) == (1, 0, 0)
    for each in stretches:
        assert each.begin < each.end
        assert each.end - each.begin <= timedelta(days=31, seconds=1)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (datetime(2026, 3, 31, 23, 59, 59), datetime(2026, 4, 20)),
        (datetime(2026, 3, 20), datetime(2026, 4, 1)),
        (datetime(2026, 3, 31, 23, 59, 59), datetime(2026, 4, 1)),
    ],
)
def test_no_stretch_is_a_single_second(since, until):
    (only,) = month_stretches(since, until)
    assert (only.begin, only.end) == (since, until)


def test_every_state_of_a_job_that_is_over_is_asked_for():
    assert set(ENDED_STATES) >= FINAL_STATES
    assert not GONE & set(SACCT_FIELDS)


def dump_of(
    cluster: FakeCluster, since: datetime, until: datetime, timeout: float = 20.0
) -> LogDump:
    runner = CommandRunner(environment=cluster.env, timeout=timeout)
    stretches = month_stretches(since, until)
    return read_accounting_dump(runner, stretches, lambda _done, _lines: None)


def epoch(*words: int) -> int:
    return int(datetime(*words).timestamp())


MARCH, JUNE = datetime(2026, 3, 10), datetime(2026, 6, 20)


def test_jobs_over_the_turn_of_a_month_are_counted_once(cluster):
    last_second = epoch(2026, 4, 30, 23, 59, 59)
    jobs = [
        ended_job(1, epoch(2026, 3, 9, 23), ElapsedRaw=2 * 3600),  # ends in the time asked for
        ended_job(2, last_second - 60),  # ends in the last second of April
        ended_job(3, last_second - 59),  # ends in the first second of May
        ended_job(4, epoch(2026, 4, 1), ElapsedRaw=40 * 86400),  # runs through all of April
        ended_job(5, epoch(2026, 6, 19, 23), ElapsedRaw=86400),  # ends too late
        ended_job(6, epoch(2026, 5, 5), State="RUNNING"),
    ]
    cluster.set(accounting=jobs)
    dump = dump_of(cluster, MARCH, JUNE)
    log, report = SacctReader().read(LogFile(Path("sacct"), dump.text.encode()))
    assert sorted(log.job_id.tolist()) == [1, 2, 3, 4]
    assert (report.read, report.dropped, dump.lines) == (4, {}, 4)
    assert len(dump.commands) == 4
    assert dump.text.count("JobIDRaw") == 1


def test_a_requeued_job_has_a_record_for_each_run(cluster):
    first = epoch(2026, 4, 2)
    runs = [
        ended_job(7, first, State="REQUEUED"),
        ended_job(7, first + 60, Eligible=first + 181, Start=first + 190),
    ]
    cluster.set(accounting=runs)
    dump = dump_of(cluster, MARCH, JUNE)
    log, report = SacctReader().read(LogFile(Path("sacct"), dump.text.encode()))
    assert (report.kept, log.job_id.tolist()) == (2, [7, 7])
    assert (log.start - log.eligible).tolist() == [10.0, 9.0]


def test_the_command_lines_can_be_run_by_hand(cluster):
    (line,) = dump_of(cluster, datetime(2026, 3, 1, 12), datetime(2026, 3, 2)).commands
    assert line.startswith(
        "SLURM_TIME_FORMAT=$(openssl rand -hex 8):%s sacct --allusers -X --duplicates --parsable2 "
    )
    empty = dump_of(cluster, MARCH, JUNE)
    assert (empty.lines, empty.text) == (0, "|".join(SACCT_FIELDS) + "\n")
    assert "-S 2026-03-01T12:00:00 -E 2026-03-02T00:00:00 -s BOOT_FAIL," in line


def test_a_month_without_an_answer_is_named(cluster):
    cluster.break_command("sacct", "hang")
    with pytest.raises(BatchSystemUnavailable, match="2026-03-10 00:00:00 to 2026-03-31 23:59:59"):
        dump_of(cluster, MARCH, JUNE, timeout=1.0)
