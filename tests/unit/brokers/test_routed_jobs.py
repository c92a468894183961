"""The file of one user's routed jobs, their accounting, and the broker that learns from them."""

from __future__ import annotations

import io
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.port import EndedRun
from slurm_rl_plugin.batch_systems.slurm.offers import parse_ended, user_submission
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.remote_site import SiteAnswer
from slurm_rl_plugin.brokers.live.routed_jobs import (
    FORGOTTEN,
    MOST_JOBS,
    JobOnItsWay,
    News,
    RoutedJobs,
    RoutedJobsFile,
)
from slurm_rl_plugin.brokers.port import Broker, Outcome, RoutedJob
from slurm_rl_plugin.brokers.registry import FADING, LearningAgentBroker
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError
from slurm_rl_plugin.services.route_requests import LONGEST_SCRIPT, given_command, learn_from_past

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
    for each in (tmp_path / "deep", file.path):
        assert each.stat().st_mode & 0o077 == 0, each


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


def test_each_end_is_kept_once_however_many_calls_hear_of_it() -> None:
    jobs = RoutedJobs(on_their_way=(on_its_way(1), on_its_way(2)))
    for _ in range(2):
        news = News(ran={("north", 1): ended(50.0)}, others=[ended(60.0)], asked=["north"])
        jobs = jobs.with_ended(news, 2000.0)
    assert [job.job_id for job in jobs.on_their_way] == [2]
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


def test_accounting_tells_who_ran_and_what_the_site_failed() -> None:
    text = (
        "1|100|105|110|120|COMPLETED|0:0\n2|100||110|120|FAILED|1:0\n"
        "3|100|100|110|Unknown|RUNNING|0:0\n4|100|100|Unknown|130|CANCELLED by 0|0:0\n"
        "5|100|100|None|130|CANCELLED|0:0\n6|100|Unknown|Unknown|Unknown|PENDING|0:0\n"
        "11|100|100|110|120|NODE_FAIL|1:0\n11|130|130|140|Unknown|RUNNING|0:0\n"
        "12|100|100|110|120|NODE_FAIL|1:0\n12|130|130|140|150|COMPLETED|0:0\n"
        "13|100|100|110|120|BOOT_FAIL|0:0\n14|100|100|None|160|DEADLINE|0:0\n"
        "15|100|100|110|110|FAILED|0:53\n16|100|100|110|120|TIMEOUT|0:0\n"
        "17|100|100|110|120|REQUEUED|0:0\n17|100|100|130|140|COMPLETED|0:0\n"
    )
    (first, second, *others), never = parse_ended(text)
    assert first == EndedRun(job_id=1, submitted=105.0, started=110.0, ended=120.0)
    assert second == EndedRun(job_id=2, submitted=100.0, started=110.0, ended=120.0)
    assert [(run.job_id, run.started, run.failed) for run in others] == [
        *((12, 110.0, True), (12, 140.0, False), (13, 110.0, True), (14, 160.0, True)),
        *((15, 110.0, True), (16, 110.0, False), (17, 130.0, False)),
        *((3, 110.0, False), (11, 140.0, False)),  # they run
    ]
    assert [math.isnan(run.ended) for run in others] == [*[False] * 7, True, True]
    assert never == [4, 5]
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_ended("garbage\n")


NOW = 1_800_000_000.0
REQUEST_TOLD = job_request({"processors": 2, "time_limit": 60, "user": "eva"})


def test_jobs_that_wait_or_run_are_known_beside_those_that_ended(tmp_path: Path) -> None:
    past = RoutedJobsFile(tmp_path / "jobs.json")
    waiting = JobOnItsWay(site="north", job_id=2, request=REQUEST_TOLD, submitted=NOW - 7200.0)
    times = {"submitted": NOW - 9000.0, "started": NOW - 8990.0, "ended": NOW - 8900.0}
    ended = RoutedJob(site="north", request=REQUEST_TOLD, **times)
    running = replace(waiting, job_id=3)
    asked = {"north": NOW - 60.0}
    kept = RoutedJobs(on_their_way=(waiting, running), ended=(ended,), asked=asked)
    past.change(lambda _: kept)
    sacct = tmp_path / "sacct"
    times = f"{NOW - 7200:.0f}|{NOW - 7200:.0f}|{NOW - 7170:.0f}|Unknown"
    sacct.write_text(f'#!/bin/sh\necho "3|{times}|RUNNING|0:0"\n')
    sacct.chmod(0o755)
    broker = LearningAgentBroker(clock=lambda: NOW, seed=1)
    told: list[str] = []
    submission = user_submission({"PATH": f"{tmp_path}:/bin"}, 30.0)
    learn_from_past(broker, past, submission, ["north"], "eva", NOW, told.append)
    (ranked,) = broker.rank(REQUEST_TOLD, [SiteAnswer(name="north")])
    assert told == []
    assert ranked.reason == "Mean wait of 2 jobs of this user there: 20 s."
    assert ranked.merit == -7200.0  # so long one waits by now
    assert len(past.read().on_their_way) == 2


def test_own_jobs_that_were_not_routed_are_asked_for_once_in_a_while(tmp_path: Path) -> None:
    past = RoutedJobsFile(tmp_path / "jobs.json")
    sacct = tmp_path / "sacct"
    times = "|".join(f"{NOW - ago:.0f}" for ago in (900, 900, 300, 200))
    sacct.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\necho "5|{times}|COMPLETED|0:0"\n')
    sacct.chmod(0o755)
    submission = user_submission({"PATH": f"{tmp_path}:/bin"}, 30.0)
    for later in (0.0, 60.0, 3600.0):
        broker = LearningAgentBroker(clock=lambda: NOW, seed=1)
        learn_from_past(
            broker, past, submission, ["north", "south"], "eva", NOW + later, pytest.fail
        )
        assert [broker.met("eva")[site].mean_wait for site in ("north", "south")] == [600.0] * 2
        assert [broker.met("eva")[site].count for site in ("north", "south")] == [1, 1]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [next(word for word in call.split() if "now-" in word) for call in calls] == [
        *["now-604800seconds"] * 2,
        *["now-7200seconds"] * 2,
    ]
    assert all(f"--user {os.getuid()} " in call for call in calls)


def test_accounting_that_does_not_answer_is_waited_for_once(tmp_path: Path) -> None:
    past = RoutedJobsFile(tmp_path / "jobs.json")
    jobs = tuple(
        JobOnItsWay(site=site, job_id=2, request=REQUEST_TOLD, submitted=NOW - 60.0)
        for site in ("north", "south", "west")
    )
    past.change(lambda _: RoutedJobs(on_their_way=jobs))
    sacct = tmp_path / "sacct"
    sacct.write_text(f"#!/bin/sh\necho asked >>{tmp_path}/calls\nexec sleep 30\n")
    sacct.chmod(0o755)
    told: list[str] = []
    submission = user_submission({"PATH": f"{tmp_path}:/bin:/usr/bin"}, 1.0)
    broker = LearningAgentBroker(clock=lambda: NOW, seed=1)
    learn_from_past(broker, past, submission, ["north", "south"], "eva", NOW, told.append)
    assert (tmp_path / "calls").read_text() == "asked\n"
    assert len(told) == 1
    assert len(past.read().on_their_way) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [(b"x" * (LONGEST_SCRIPT + 1), "is longer than 4194304 bytes"), (b"#\xff\n", "is no UTF-8")],
)
def test_a_script_that_cannot_be_passed_on_whole_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: bytes, words: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    with pytest.raises(ConfigurationError, match=words):
        given_command(user_submission({}, 1.0), ["--", "sbatch", "-n2"])


def test_a_script_on_standard_input_is_passed_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "#!/bin/sh\r\n#SBATCH -n 2\necho é\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert given_command(user_submission({}, 1.0), ["--", "sbatch"])[1] == text


HOUR = 3600.0
DAY = 24 * HOUR


#: They make no offer.
SITES = [SiteAnswer(name="north"), SiteAnswer(name="south")]


def asks(user: str = "eva", **more: Any) -> JobRequest:
    return job_request({"processors": 1, "time_limit": HOUR, "user": user, **more})


def ran(
    site: str,
    wait: float,
    *,
    started: float = NOW,
    lasted: float = 0.0,
    outcome: Outcome = "ran",
) -> RoutedJob:
    return RoutedJob(
        site=site,
        request=asks(),
        submitted=started - wait,
        started=started,
        ended=started + lasted,
        outcome=outcome,
    )


def refused(site: str, request: JobRequest, *, at: float = NOW) -> RoutedJob:
    times = dict.fromkeys(("submitted", "started", "ended"), at)
    return RoutedJob(site=site, request=request, outcome="refused", **times)


def broker(at: float = NOW, seed: int = 1) -> LearningAgentBroker:
    return LearningAgentBroker(clock=lambda: at, seed=seed)


def names(ranked: list[Any]) -> list[str]:
    return [each.site for each in ranked]


def test_without_experience_any_site_comes_first() -> None:
    first = set()
    for seed in range(20):
        agent: Broker = broker(seed=seed)
        ranked = agent.rank(asks(), SITES)
        assert [each.merit for each in ranked] == [0.0, 0.0]
        assert all("No job of this user" in each.reason for each in ranked)
        first.add(ranked[0].site)
    assert first == {"north", "south"}
    assert broker().rank(asks(), []) == []


def test_a_wait_sends_the_user_elsewhere_and_nobody_else() -> None:
    agent = broker()
    agent.learn(ran("north", wait=10 * HOUR))
    (first, second) = agent.rank(asks(), SITES)
    assert (first.site, second.site, second.merit) == ("south", "north", -36000.0)
    assert second.reason == "Mean wait of 1 job of this user there: 36000 s."
    assert [each.merit for each in agent.rank(asks("max"), SITES)] == [0.0, 0.0]
    for waited in (15 * HOUR, HOUR):  # a job that still waits is bad news
        agent.waiting("north", asks(), waited)
    assert agent.rank(asks(), SITES)[1].merit == -15 * HOUR
    later = broker(at=NOW + 100 * DAY)  # after a long silence a bad site is tried again
    later.learn(ran("north", wait=50 * HOUR))
    later.learn(ran("south", wait=60.0, started=NOW + 100 * DAY))
    assert names(later.rank(asks(), SITES)) == ["north", "south"]


def test_a_site_that_fails_jobs_at_once_is_no_fast_one() -> None:
    """Nodes that kill every job the moment it starts must not attract all jobs."""
    agent = broker()
    agent.learn(ran("north", wait=0.0, started=NOW - HOUR, lasted=HOUR, outcome="failed"))
    agent.learn(ran("south", wait=4 * HOUR))
    (first, second) = agent.rank(asks(), SITES)
    assert (first.site, second.site, second.merit) == ("south", "north", -(HOUR + DAY))
    assert second.reason.endswith("90000 s; the site failed 1 of them.")


@pytest.mark.parametrize(
    ("more", "behind"),
    [
        ({"processors": 8}, True),
        ({"processors": 9, "time_limit": 2 * HOUR}, True),
        ({"processors": 7}, False),
        ({"processors": 8, "time_limit": HOUR - 60}, False),
        ({"processors": 8, "time_limit": None}, False),
        ({"processors": 8, "needs": {"gres": "gpu:1"}}, True),
    ],
)
def test_a_refusal_counts_for_jobs_that_ask_for_as_much(more: dict[str, Any], behind: bool) -> None:
    agent = broker()
    agent.learn(refused("north", asks(processors=8)))
    agent.learn(ran("south", wait=60.0))
    ranked = agent.rank(asks(**more), SITES)
    assert names(ranked) == (["south", "north"] if behind else ["north", "south"])
    assert ("Refused such a job" in ranked[1].reason) == behind


def test_a_refusal_of_other_needs_or_long_ago_counts_no_more() -> None:
    agent = broker()
    agent.learn(refused("north", asks(needs={"gres": "gpu:1"})))
    agent.learn(refused("north", asks(), at=NOW - 10 * FADING))
    agent.learn(ran("south", wait=60.0))
    assert names(agent.rank(asks(), SITES)) == ["north", "south"]


def test_what_others_met_counts_until_the_users_own_jobs_tell() -> None:
    agent = broker()
    agent.others = {"north": 3 * HOUR}
    ranked = agent.rank(asks(), SITES)
    assert names(ranked) == ["south", "north"]
    assert "other users wait 10800 s" in ranked[1].reason
    agent.learn(ran("north", wait=60.0))
    agent.learn(ran("south", wait=120.0))
    assert names(agent.rank(asks(), SITES)) == ["north", "south"]
    later = broker(at=NOW + 100 * DAY)
    later.others = {"north": 3 * HOUR}
    later.learn(ran("north", wait=60.0))
    assert later.rank(asks(), SITES)[1].merit == pytest.approx(-3 * HOUR, rel=1e-3)


@pytest.mark.parametrize("wait", [math.nan, math.inf, -5.0])
def test_a_wait_that_cannot_be_teaches_nothing(wait: float) -> None:
    agent = broker()
    agent.learn(ran("north", wait=wait))
    (ranked,) = agent.rank(asks(), SITES[:1])
    assert ranked.merit == 0.0
    assert ranked.reason == "No job of this user has run there yet."
