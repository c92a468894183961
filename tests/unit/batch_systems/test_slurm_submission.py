"""What options of sbatch ask for, and submitting: no job is lost or sent twice."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.slurm.options import FLAGS, VALUED
from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.submission import (
    SlurmSubmission,
    job_request_of,
    parse_time_limit,
    sbatch_command,
    script_options,
    user_submission,
)
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import ConfigurationError, JobNotAccepted, SubmissionUnknown


def request_of(words: str, script: str = "", **variables: str) -> JobRequest:
    return job_request_of(sbatch_command(words.split()), script, variables, "alice")


def test_short_and_long_options_mean_the_same() -> None:
    long = "--partition=p --account a --qos=q --job-name n --ntasks=3 --cpus-per-task=2 --time=10"
    short = "-pp -A a -q q -Jn -n3 -c 2 -t10"
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


def test_the_job_is_called_as_its_script_where_nothing_else_names_it() -> None:
    assert request_of("sbatch ./jobs/mine.sh").job.name == "mine.sh"


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


@pytest.mark.parametrize(
    ("words", "processors"),
    [
        ("", 1),
        ("-n 4", 4),
        ("-N 2", 2),
        ("-N 2-4 --ntasks-per-node=8", 16),
        ("-N 2 -n 3 -c 4", 12),
        ("-n 2k", 2048),
    ],
)
def test_processors_are_those_that_a_job_needs_at_least(words: str, processors: int) -> None:
    assert request_of(f"sbatch {words} job.sh").processors == processors


def test_what_else_it_needs_is_passed_on() -> None:
    needs = dict(request_of("sbatch --gres=gpu:2 --mem=4G -C fast --exclusive job.sh").needs)
    assert needs == {"gres": "gpu:2", "mem": "4G", "constraint": "fast", "exclusive": ""}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300),
        ("5:30", 330),
        ("1:05:30", 3930),
        ("2-3", 2 * 86400 + 3 * 3600),
        ("2-3:04", 2 * 86400 + 3 * 3600 + 240),
        ("2-3:04:05", 2 * 86400 + 3 * 3600 + 245),
    ],
)
def test_times_are_read_as_sbatch_reads_them(text: str, seconds: float) -> None:
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "infinite", "UNLIMITED"])
def test_no_limit_is_none(text: str) -> None:
    assert math.isnan(parse_time_limit(text))


@pytest.mark.parametrize("text", ["soon", "1:2:3:4", "-5", "1-", "٣", "5m", "1-2:3:4:5"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="time limit"):
        parse_time_limit(text)


@pytest.mark.parametrize(
    "words",
    [
        *("--dependency=afterok:1", "-d afterany:1", "-M x", "--reservation=r", "-w n1", "--uid=0"),
        *("--wait", "-W", "-HW"),
    ],
)
def test_a_job_that_is_bound_to_one_place_is_refused(words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^sbatch --"):
        request_of(f"sbatch {words} job.sh")


@pytest.mark.parametrize("name", ["SBATCH_RESERVATION", "SBATCH_WAIT"])
def test_variables_bind_a_job_too(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^sbatch --(reservation|wait)"):
        request_of("sbatch job.sh", **{name: "1"})


@pytest.mark.parametrize("word", ["--cluster=x", "--clust=x", "--depend=afterok:1", "--ntask=4"])
def test_a_shortened_option_is_refused_since_sbatch_would_take_it(word: str) -> None:
    with pytest.raises(ConfigurationError, match="write its full name"):
        request_of(f"sbatch {word} job.sh")
    with pytest.raises(ConfigurationError, match="line 2 of the script"):
        script_options(f"#!/bin/sh\n#SBATCH {word}\n")


def test_options_that_only_sbatch_knows_are_left_to_it() -> None:
    assert sbatch_command(["sbatch", "--spank-thing=1", "job.sh"]).script == "job.sh"


@pytest.mark.parametrize("line", ["#SBATCH hetjob", "#SBATCH --name='x", "#SBATCH --frob"])
def test_a_line_of_the_script_that_is_not_understood_is_named(line: str) -> None:
    with pytest.raises(ConfigurationError, match="line 2 of the script"):
        script_options(f"#!/bin/sh\n{line}\n")


def test_an_option_without_its_value_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--partition wants a value"):
        sbatch_command(["sbatch", "--partition"])


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


@pytest.mark.parametrize(
    ("said", "job_id"),
    [
        ("echo Submitted batch job 7 on cluster far", 7),
        ("echo '8;far'", 8),
        # sbatch --wait ends with the status of the job
        ("echo Submitted batch job 9 on cluster far; exit 3", 9),
    ],
)
def test_a_job_with_a_number_was_taken_whatever_the_exit_status(
    tmp_path: Path, said: str, job_id: int
) -> None:
    assert submission_of(tmp_path, said).submit("far", ["job.sh"], None)[0] == job_id


@pytest.mark.parametrize(
    "said",
    [
        "kill -9 $$",
        "exit 1",
        "echo nothing that is understood",
        "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1",
        "echo 'sbatch: error: Unable to contact slurm controller (receive failure)' >&2; exit 1",
        "echo 'sbatch: error: Message send failure' >&2; exit 1",
        "echo 'sbatch: error: something' >&2; kill -9 $$",
    ],
)
def test_in_doubt_the_job_may_be_there(tmp_path: Path, said: str) -> None:
    with pytest.raises(SubmissionUnknown, match="squeue -M far --me"):
        submission_of(tmp_path, said).submit("far", ["job.sh"], None)


class Interrupted(CommandRunner):
    """Somebody presses Ctrl-C while a command runs."""

    def call(self, *_: object, **__: object) -> Answer:
        raise KeyboardInterrupt


def test_who_interrupts_hears_that_the_job_may_be_there() -> None:
    runner = Interrupted(environment={}, timeout=1.0, on_call=None)
    with pytest.raises(SubmissionUnknown, match="interrupted: the job may be on far"):
        SlurmSubmission(submitting=runner, asking=runner).submit("far", ["job.sh"], None)


@pytest.mark.parametrize("words", ["Invalid qos specification", "(connect failure)"])
def test_what_surely_was_not_taken_is_refused_in_slurms_words(tmp_path: Path, words: str) -> None:
    submission = submission_of(tmp_path, f"echo 'sbatch: error: {words}' >&2; exit 1")
    with pytest.raises(JobNotAccepted, match="sbatch: error: ") as refused:
        submission.submit("far", ["job.sh"], None)
    assert words in str(refused.value)


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
