"""What brokers are told of routed jobs at each call, and the script on standard input."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.submission import user_submission
from slurm_rl_plugin.brokers.learning_agent import LearningAgentBroker
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.remote_site import SiteAnswer
from slurm_rl_plugin.brokers.live.routed_jobs import JobOnItsWay, RoutedJobs, RoutedJobsFile
from slurm_rl_plugin.brokers.port import RoutedJob
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.services.route_requests import LONGEST_SCRIPT, given_command, learn_from_past

NOW = 1_800_000_000.0
REQUEST = job_request({"processors": 2, "time_limit": 60, "user": "eva"})


def test_jobs_that_wait_or_run_are_known_beside_those_that_ended(tmp_path: Path) -> None:
    past = RoutedJobsFile(tmp_path / "jobs.json")
    waiting = JobOnItsWay(site="north", job_id=2, request=REQUEST, submitted=NOW - 7200.0)
    times = {"submitted": NOW - 9000.0, "started": NOW - 8990.0, "ended": NOW - 8900.0}
    ended = RoutedJob(site="north", request=REQUEST, **times)
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
    (ranked,) = broker.rank(REQUEST, [SiteAnswer(name="north")])
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
        JobOnItsWay(site=site, job_id=2, request=REQUEST, submitted=NOW - 60.0)
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
