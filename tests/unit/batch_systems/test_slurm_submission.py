"""What options of sbatch ask for, submitting, and Slurm's will-run test."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin import errors
from slurm_rl_plugin.accounting.slurm.options import FLAGS, VALUED
from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.slurm.answers.settings import parse_settings
from slurm_rl_plugin.batch_systems.slurm.offers import (
    SlurmOffers,
    SlurmSubmission,
    check_partitions,
    job_request_of,
    parse_partitions,
    parse_start,
    parse_time_limit,
    sbatch_command,
    script_options,
    user_submission,
    will_run_command,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, Allocation, JobRequest
from slurm_rl_plugin.errors import (
    ConfigurationError,
    JobNotAccepted,
    SubmissionUnknown,
)
from tests.case_files import rows
from tests.fakes.fake_cluster import NOW, FakeCluster


def request_of(words: str, script: str = "", **variables: str) -> JobRequest:
    return job_request_of(sbatch_command(words.split()), script, variables, "alice")


def test_short_and_long_options_mean_the_same() -> None:
    long = "--partition=p --account a --qos=q --job-name n --ntasks=3 --cpus-per-task=2 --time=10"
    short = "-pp -A a -q q -Jn -n3 -c 2 -t10"
    assert request_of("sbatch ./jobs/mine.sh").job.name == "mine.sh"  # unless it is named
    wanted = request_of(f"sbatch {long} job.sh")
    assert request_of(f"/usr/bin/sbatch {short} job.sh") == wanted
    assert wanted.processors == 6
    job = wanted.job
    assert (job.partition, job.account, job.qos, job.name) == ("p", "a", "q", "n")
    assert (job.time_limit, job.user, job.has_batch_script) == (600.0, "alice", True)


def test_words_behind_the_script_are_its_own() -> None:
    command = sbatch_command(["sbatch", "-H", "-n", "2", "job.sh", "-n", "9", "-M", "x"])
    assert command.script == "job.sh"
    assert command.words == ("-H", "-n", "2", "job.sh", "-n", "9", "-M", "x")
    assert not command.reads_stdin
    assert sbatch_command(["sbatch", "-n2"]).reads_stdin
    assert not sbatch_command(["sbatch", "--wrap", "sleep 1"]).reads_stdin
    assert sbatch_command(["sbatch", "--spank-thing=1", "job.sh"]).script == "job.sh"
    with pytest.raises(ConfigurationError, match="--partition wants a value"):
        sbatch_command(["sbatch", "--partition"])


def test_the_script_is_read_up_to_its_first_command() -> None:
    script = (
        "#!/bin/sh\n# a remark\n#SBATCH -p short --time=1-2 # why\n\n"
        "  #SBATCH --qos=indented\n#SBATCH --mem='4 G'\nset -e\n#SBATCH --qos=late\n"
    )
    assert script_options(script) == {"partition": "short", "time": "1-2", "mem": "4 G"}


def test_words_go_over_variables_and_these_over_the_script() -> None:
    script = "#!/bin/sh\n#SBATCH --partition=s --qos=s --account=s\n"
    variables = {"SBATCH_QOS": "v", "SBATCH_ACCOUNT": "v", "SBATCH_DEBUG": "1"}
    job = request_of("sbatch -A w job.sh", script, **variables).job
    assert (job.partition, job.qos, job.account) == ("s", "v", "w")


def test_what_else_it_needs_is_passed_on() -> None:
    needs = dict(request_of("sbatch --gres=gpu:2 --mem=4G -C fast --exclusive job.sh").needs)
    assert needs == {"gres": "gpu:2", "mem": "4G", "constraint": "fast", "exclusive": ""}


@rows("slurm", "times", "text seconds")
def test_times_are_read_as_sbatch_reads_them(text: str, seconds: float) -> None:
    assert parse_time_limit(text) == pytest.approx(seconds, nan_ok=True)


@pytest.mark.parametrize("text", ["soon", "1:2:3:4", "-5", "1-", "٣", "5m", "1-2:3:4:5"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="time limit"):
        parse_time_limit(text)


@rows("slurm", "bound", "words")
def test_a_job_that_is_bound_to_one_place_is_refused(words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^sbatch --"):
        request_of(f"sbatch {words} job.sh")
    for name in ("SBATCH_RESERVATION", "SBATCH_WAIT"):
        with pytest.raises(ConfigurationError, match=r"^sbatch --(reservation|wait)"):
            request_of("sbatch job.sh", **{name: "1"})


@pytest.mark.parametrize("word", ["--cluster=x", "--clust=x", "--depend=afterok:1", "--ntask=4"])
def test_a_shortened_option_is_refused_since_sbatch_would_take_it(word: str) -> None:
    with pytest.raises(ConfigurationError, match="write its full name"):
        request_of(f"sbatch {word} job.sh")
    with pytest.raises(ConfigurationError, match="line 2 of the script"):
        script_options(f"#!/bin/sh\n#SBATCH {word}\n")


@pytest.mark.parametrize("line", ["#SBATCH hetjob", "#SBATCH --name='x", "#SBATCH --frob"])
def test_a_line_of_the_script_that_is_not_understood_is_named(line: str) -> None:
    with pytest.raises(ConfigurationError, match="line 2 of the script"):
        script_options(f"#!/bin/sh\n{line}\n")


@given(
    st.lists(
        st.sampled_from(sorted(VALUED)).map(lambda name: [f"--{name}", "value"])
        | st.sampled_from(sorted(VALUED | FLAGS)).map(lambda name: [f"--{name}=value"])
        | st.sampled_from(sorted(FLAGS)).map(lambda name: [f"--{name}"]),
        max_size=6,
    )
)
def test_the_script_is_found_behind_any_options(options: list[list[str]]) -> None:
    words = [word for each in options for word in each]
    command = sbatch_command(["sbatch", *words, "job.sh", "--ntasks=9"])
    assert command.script == "job.sh"
    assert command.options.keys() == {each[0][2:].partition("=")[0] for each in options}


def submission_of(folder: Path, script: str, **variables: str) -> SlurmSubmission:
    """A user's, whose sbatch does what the lines of a shell script do."""
    sbatch = folder / "sbatch"
    sbatch.write_text(f"#!/bin/sh\n{script}\n")
    sbatch.chmod(0o755)
    return user_submission({"PATH": f"{folder}:/usr/bin:/bin", **variables}, 30.0)


@rows("slurm", "submissions", "said outcome words")
def test_what_became_of_a_submission(
    tmp_path: Path, said: str, outcome: int | str, words: str
) -> None:
    submission = submission_of(tmp_path, said)
    if isinstance(outcome, int):
        assert submission.submit("far", ["job.sh"], None)[0] == outcome
    else:
        with pytest.raises(getattr(errors, outcome), match=re.escape(words)):
            submission.submit("far", ["job.sh"], None)


class Interrupted(CommandRunner):
    """The user presses Ctrl-C while a command runs."""

    def call(self, *_: object, **__: object) -> Answer:
        raise KeyboardInterrupt


def test_who_interrupts_hears_that_the_job_may_be_there() -> None:
    runner = Interrupted(environment={}, timeout=1.0, on_call=None)
    with pytest.raises(SubmissionUnknown, match="interrupted: the job may be on far"):
        SlurmSubmission(submitting=runner, asking=runner).submit("far", ["job.sh"], None)


def test_the_job_inherits_the_users_environment_and_nothing_of_ours(tmp_path: Path) -> None:
    own = {"SQUEUE_FORMAT": "%i", "SBATCH_QOS": "q", "SBATCH_CLUSTERS": "x", "SLURM_CLUSTERS": "x"}
    submission = submission_of(
        tmp_path, f"env > {tmp_path}/seen; cat > {tmp_path}/read; echo 5", **own
    )
    submission.submit("far", [], "#!/bin/sh\r\n")
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert (seen["SQUEUE_FORMAT"], seen["SBATCH_QOS"]) == ("%i", "q")
    assert not {"SLURM_TIME_FORMAT", "SBATCH_CLUSTERS", "SLURM_CLUSTERS"} & seen.keys()
    assert (tmp_path / "read").read_bytes() == b"#!/bin/sh\r\n"


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


def test_answers_of_every_release(answers: Path) -> None:
    assert 1_790_000_000 < parse_start(*recorded(answers, "starts")) < 1_800_000_000
    for name, words in (
        ("too-large", "Requested node configuration is not available"),
        ("no-partition", "Invalid partition name specified"),
        ("no-gres", r"Invalid generic resource \(gres\) specification"),
    ):
        with pytest.raises(JobNotAccepted, match=f"^Slurm would not take the job: {words}$"):
            parse_start(*recorded(answers, name))
    found = {each.name: each for each in parse_partitions((answers / "partitions.txt").read_text())}
    assert set(found) == {"batch", "short", "open"}
    assert [each.name for each in found.values() if each.is_default] == ["batch"]
    assert not any(each.is_up for each in found.values())  # they were down when recorded
    assert (found["short"].longest, found["open"].longest) == (3600.0, math.inf)
    assert parse_settings((answers / "config.txt").read_text()).cluster == "trial"


@rows("slurm", "will_run", "status text kind words")
def test_a_will_run_test_without_a_start(status: int, text: str, kind: str, words: str) -> None:
    with pytest.raises(getattr(errors, kind), match=words):
        parse_start(status, text)


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


@rows("slurm", "tasks", "needs tasks")
def test_nodes_that_do_not_make_up_the_processors_get_more_tasks(
    needs: dict[str, str], tasks: list[str]
) -> None:
    words = will_run_command(replace(REQUEST, needs=tuple(sorted(needs.items()))), "")
    assert [word for word in words if word.startswith("--ntasks=")] == tasks
    assert {f"--{name}={value}" for name, value in needs.items()} <= set(words)


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


def test_the_schedule_is_of_running_and_planned_jobs(tmp_path: Path) -> None:
    fake = FakeCluster(tmp_path)
    fake.add(1, state="RUNNING", start=NOW - 50, end=NOW + 550, processors=3)
    fake.add(2, start=NOW + 550, end=NOW + 1150)  # as backfilling has planned it
    fake.add(3)
    fake.add(4, state="RUNNING", start=NOW - 50, time_limit="UNLIMITED")
    commands = CommandRunner(environment=fake.env, timeout=10.0)
    assert SlurmOffers(commands, "").schedule() == [
        Allocation(NOW - 50, NOW + 550, 3),
        Allocation(NOW + 550, NOW + 1150, 1),
    ]
