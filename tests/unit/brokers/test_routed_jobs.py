"""The file of one user's routed jobs: what is kept, what is forgotten, and who may write."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kind import EndedRun
from slurm_rl_plugin.batch_systems.slurm.submission import parse_ended
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.routed_jobs import (
    FORGOTTEN,
    MOST_JOBS,
    JobOnItsWay,
    News,
    RoutedJobs,
    RoutedJobsFile,
)
from slurm_rl_plugin.brokers.port import RoutedJob
from slurm_rl_plugin.errors import BatchSystemError

REQUEST = job_request({"processors": 2, "needs": {"mem": "4G"}, "time_limit": 60})


def on_its_way(job_id: int, submitted: float = 1000.0) -> JobOnItsWay:
    return JobOnItsWay(site="north", job_id=job_id, request=REQUEST, submitted=submitted)


def ended(time: float) -> RoutedJob:
    return RoutedJob(
        site="north", request=REQUEST, submitted=time - 9, started=time - 5, ended=time
    )


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = RoutedJobsFile(tmp_path / "deep" / "jobs.json")
    assert file.read() == RoutedJobs()
    times = {"submitted": 60.0, "started": 60.0, "ended": 60.0}
    refused = RoutedJob(site="south", request=REQUEST, outcome="refused", **times)
    jobs = RoutedJobs(
        on_their_way=(on_its_way(1),), ended=(ended(50.0), refused), asked={"north": 70.0}
    )
    file.change(lambda _: jobs)
    assert file.read() == jobs
    assert (tmp_path / "deep").stat().st_mode & 0o077 == 0


def test_of_many_the_newest_are_kept() -> None:
    jobs = RoutedJobs()
    for number in range(MOST_JOBS + 5):
        jobs = jobs.with_submitted(on_its_way(number))
    assert [job.job_id for job in jobs.on_their_way][:1] == [5]
    ran = {("north", number): ended(float(number)) for number in range(5, MOST_JOBS + 5)}
    jobs = RoutedJobs(on_their_way=jobs.on_their_way, ended=(ended(0.0),)).with_ended(
        News(ran=ran), 2000.0
    )
    assert jobs.on_their_way == ()
    assert len(jobs.ended) == MOST_JOBS
    assert jobs.ended[0].ended == 5.0


def test_two_calls_that_heard_of_the_same_end_keep_it_once() -> None:
    jobs = RoutedJobs(on_their_way=(on_its_way(1), on_its_way(2)))
    for _ in range(2):
        jobs = jobs.with_ended(News(ran={("north", 1): ended(50.0)}), 2000.0)
    assert [job.job_id for job in jobs.on_their_way] == [2]
    assert jobs.ended == (ended(50.0),)


def test_jobs_that_were_not_routed_are_kept_once() -> None:
    jobs = RoutedJobs(ended=(ended(50.0),))
    for _ in range(2):
        jobs = jobs.with_ended(News(others=[ended(50.0), ended(60.0)], asked=["north"]), 2000.0)
    assert jobs.ended == (ended(50.0), ended(60.0))
    assert jobs.asked == {"north": 2000.0}


def test_jobs_that_never_ran_or_are_long_gone_are_forgotten() -> None:
    jobs = RoutedJobs(on_their_way=(on_its_way(1), on_its_way(2), on_its_way(3, 1e8)))
    left = jobs.with_ended(News(gone={("north", 1)}), 1e8 + FORGOTTEN - 1.0)
    assert [job.job_id for job in left.on_their_way] == [3]
    assert left.ended == ()


def test_many_may_write_at_once_and_none_is_lost(tmp_path: Path) -> None:
    file = RoutedJobsFile(tmp_path / "jobs.json")

    def add(numbers: Sequence[int]) -> None:
        for number in numbers:
            job = on_its_way(number)
            file.change(lambda jobs, job=job: jobs.with_submitted(job))

    threads = [threading.Thread(target=add, args=(range(n, n + 5),)) for n in range(0, 20, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(job.job_id for job in file.read().on_their_way) == list(range(20))


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", '{"on_their_way": 1, "ended": []}', '{"ended": [{}], "on_their_way": []}'),
        '{"ended": [], "on_their_way": [{"site": "a", "job_id": Infinity, "submitted": 1}]}',
        '{"ended": [], "on_their_way": '
        '[{"site": "a", "job_id": 1, "submitted": 1, "request": ""}]}',
    ],
)
def test_a_broken_file_costs_experience_only(tmp_path: Path, text: str) -> None:
    (tmp_path / "jobs.json").write_text(text)
    assert RoutedJobsFile(tmp_path / "jobs.json").read() == RoutedJobs()


def test_accounting_tells_who_ran() -> None:
    text = (
        "1|100|105|110|120|COMPLETED|0:0\n2|100||110|120|FAILED|1:0\n"
        "3|100|100|110|Unknown|RUNNING|0:0\n4|100|100|Unknown|130|CANCELLED by 0|0:0\n"
        "5|100|100|None|130|CANCELLED|0:0\n6|100|Unknown|Unknown|Unknown|PENDING|0:0\n"
    )
    (*ran, running), never = parse_ended(text)
    assert ran == [
        EndedRun(job_id=1, submitted=105.0, started=110.0, ended=120.0),
        EndedRun(job_id=2, submitted=100.0, started=110.0, ended=120.0),
    ]
    assert (running.job_id, running.submitted, running.started) == (3, 100.0, 110.0)
    assert math.isnan(running.ended)
    assert never == [4, 5]
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_ended("garbage\n")


def test_accounting_tells_what_the_site_failed() -> None:
    text = (
        "1|100|100|110|120|NODE_FAIL|1:0\n1|130|130|140|Unknown|RUNNING|0:0\n"
        "2|100|100|110|120|NODE_FAIL|1:0\n2|130|130|140|150|COMPLETED|0:0\n"
        "3|100|100|110|120|BOOT_FAIL|0:0\n4|100|100|None|160|DEADLINE|0:0\n"
        "5|100|100|110|110|FAILED|0:53\n6|100|100|110|120|TIMEOUT|0:0\n"
        "7|100|100|110|120|REQUEUED|0:0\n7|100|100|130|140|COMPLETED|0:0\n"
    )
    ran, never = parse_ended(text)
    assert [(run.job_id, run.started, run.failed) for run in ran] == [
        *((2, 110.0, True), (2, 140.0, False), (3, 110.0, True), (4, 160.0, True)),
        *((5, 110.0, True), (6, 110.0, False), (7, 130.0, False), (1, 140.0, False)),
    ]
    assert never == []
