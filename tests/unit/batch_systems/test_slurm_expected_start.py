"""Slurm's will-run test: the answers of every release, and which command asks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.settings import parse_cluster_name
from slurm_rl_plugin.batch_systems.slurm.offers import (
    SlurmOffers,
    check_partitions,
    parse_partitions,
    parse_start,
    will_run_command,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, JobRequest
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, JobNotAccepted
from tests.assets.record_slurm_answers import ASSETS
from tests.fakes.fake_cluster import FakeCluster

RELEASES = sorted(path for path in ASSETS.iterdir() if path.is_dir())
REQUEST = JobRequest(
    job=JobDescription(
        partition="batch",
        qos="",
        name="trial",
        time_limit=90.0,
        has_batch_script=True,
        account="physics",
        user="alice",
    ),
    processors=4,
)


def recorded(release: Path, name: str) -> tuple[int, str]:
    """Exit status and all that was said."""
    text = (release / f"will-run-{name}.txt").read_text()
    status, _, rest = text.partition("\n")
    return int(status.split()[1]), rest.replace("--- stdout\n", "").replace("--- stderr\n", "")


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_the_start_is_read_from_the_answer_of_every_release(release: Path) -> None:
    start = parse_start(*recorded(release, "starts"))
    assert 1_790_000_000 < start < 1_800_000_000


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("too-large", "Requested node configuration is not available"),
        ("no-partition", "Invalid partition name specified"),
        ("no-gres", r"Invalid generic resource \(gres\) specification"),
    ],
)
def test_a_job_that_is_refused_is_so_in_slurms_words(release: Path, name: str, words: str) -> None:
    with pytest.raises(JobNotAccepted, match=f"^Slurm would not take the job: {words}$"):
        parse_start(*recorded(release, name))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_partitions_of_every_release_are_understood(release: Path) -> None:
    found = {each.name: each for each in parse_partitions((release / "partitions.txt").read_text())}
    assert set(found) == {"batch", "short", "open"}
    assert [each.name for each in found.values() if each.is_default] == ["batch"]
    assert not any(each.is_up for each in found.values())  # they were down when recorded
    assert (found["short"].longest, found["open"].longest) == (3600.0, math.inf)


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_the_name_of_the_cluster_is_found(release: Path) -> None:
    assert parse_cluster_name((release / "config.txt").read_text()) == "trial"


def test_a_time_in_the_usual_form_is_local() -> None:
    text = "sbatch: Job 7 to start at 2026-11-22T06:40:21 using 1 processors on nodes n1"
    shown = re.search(r"at (\S+)", text)
    assert shown is not None
    assert parse_start(0, text) % 60 == 21


def test_an_unreachable_controller_is_no_refusal_of_the_job() -> None:
    words = "allocation failure: Unable to contact slurm controller (connect failure)"
    with pytest.raises(BatchSystemUnavailable):
        parse_start(1, words)
    with pytest.raises(BatchSystemUnavailable):
        parse_start(1, "allocation failure: Socket timed out on send/recv operation")


@pytest.mark.parametrize("text", ["", "Job 7 to start at soon using 1 processors", "garbage"])
def test_another_form_is_an_error(text: str) -> None:
    with pytest.raises(BatchSystemError, match="is not understood"):
        parse_start(0, text)


def test_every_value_is_one_word_of_the_command() -> None:
    job = replace(REQUEST.job, name="--uid=0 -p x\t;id", qos="$(id)")
    needs = tuple((name, f"--{name} 1") for name in NEEDS if name != "exclusive")
    words = will_run_command(replace(REQUEST, job=job, needs=needs), "")
    assert words[:2] == ["sbatch", "--test-only"]
    assert "--job-name=--uid=0 -p x\t;id" in words
    assert all(re.match(r"--[a-z-]+(=|$)", word, re.DOTALL) for word in words[1:])
    assert not any(word.startswith("--uid") for word in words)


def test_times_are_whole_minutes_and_an_own_account_goes_over_the_jobs() -> None:
    words = will_run_command(REQUEST, "offers")
    assert {"--time=2", "--account=offers", "--ntasks=4", "--partition=batch"} <= set(words)
    unlimited = replace(REQUEST, job=replace(REQUEST.job, time_limit=math.nan))
    assert not any(word.startswith("--time") for word in will_run_command(unlimited, ""))
    shaped = replace(REQUEST, needs=(("exclusive", ""), ("nodes", "4-8")))
    words = will_run_command(shaped, "")
    assert {"--nodes=4-8", "--exclusive"} <= set(words)
    assert not any(word.startswith("--ntasks") for word in words)


@pytest.mark.parametrize(
    ("needs", "tasks"),
    [
        ({"nodes": "2"}, ["--ntasks=4"]),
        ({"nodes": "2", "cpus-per-task": "2"}, []),
        ({"nodes": "1", "cpus-per-task": "2"}, ["--ntasks=2"]),
        ({"nodes": "2", "ntasks-per-node": "2"}, []),
        ({"nodes": "1", "ntasks": "1"}, []),
        ({"nodes": "none"}, []),
        ({"gpus": "4"}, ["--ntasks=4"]),
        ({"gpus": "4", "gpus-per-task": "1"}, []),
        ({"gpus": "2", "ntasks-per-gpu": "2"}, []),
        ({"gpus": "2", "cpus-per-gpu": "2"}, []),
        ({"gpus": "1", "cpus-per-gpu": "2"}, ["--ntasks=4"]),
        ({"tres-per-task": "cpu:4"}, []),
    ],
)
def test_nodes_that_do_not_make_up_the_processors_get_more_tasks(
    needs: dict[str, str], tasks: list[str]
) -> None:
    words = will_run_command(replace(REQUEST, needs=tuple(sorted(needs.items()))), "")
    assert [word for word in words if word.startswith("--ntasks=")] == [
        *tasks,
        *(f"--ntasks={needs['ntasks']}" for _ in range("ntasks" in needs)),
    ]


def test_an_option_that_this_release_does_not_know_is_a_refusal() -> None:
    said = "sbatch: unrecognized option '--tres-per-task=gres/gpu:1'\nTry \"sbatch --help\"\n"
    with pytest.raises(JobNotAccepted, match="unrecognized option '--tres-per-task"):
        parse_start(1, said)


def test_tasks_of_several_processors_make_up_those_that_are_asked_for() -> None:
    for of_each, tasks in (("4", 1), ("3", 2), ("x", 4), ("0", 4)):
        words = will_run_command(replace(REQUEST, needs=(("cpus-per-task", of_each),)), "")
        assert {f"--ntasks={tasks}", f"--cpus-per-task={of_each}"} <= set(words)


def test_a_partition_that_would_never_start_the_job_is_refused() -> None:
    partitions = parse_partitions("batch*|up|1-00:00:00\nshort|up|1:00:00\nold|down|infinite\n")
    check_partitions(REQUEST, partitions)
    for partition, limit, words in (
        ("nope", 60.0, "no partition nope here"),
        ("old", 60.0, "partition old is not up"),
        ("short", 7200.0, "60 minutes at most"),
        ("", 1e6, "1440 minutes at most"),
    ):
        job = replace(REQUEST.job, partition=partition, time_limit=limit)
        with pytest.raises(JobNotAccepted, match=words):
            check_partitions(replace(REQUEST, job=job), partitions)
    job = replace(REQUEST.job, partition="short,batch", time_limit=7200.0)
    check_partitions(replace(REQUEST, job=job), partitions)


def test_starts_are_told_and_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    fake = FakeCluster(tmp_path)
    fake.set(wait=100)
    commands = CommandRunner(environment=fake.env, timeout=10.0)
    offers = SlurmOffers(commands, "")
    start = offers.expected_start(REQUEST)
    assert start is not None
    assert start > 1_700_000_000
    assert (offers.name(), offers.processors()) == ("trial", 12)
    fake.break_command("sbatch", "hang")
    commands = CommandRunner(environment=fake.env, timeout=1.0)
    with pytest.raises(BatchSystemUnavailable, match="no answer within 1 s"):
        SlurmOffers(commands, "").expected_start(REQUEST)
