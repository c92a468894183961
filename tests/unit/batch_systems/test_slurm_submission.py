"""Submission by the user's own sbatch: what counts as taken, as refused, and as unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.submission import SlurmSubmission, user_submission
from slurm_rl_plugin.errors import JobNotAccepted, SubmissionUnknown


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
