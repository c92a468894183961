"""What a command `sbatch ...` asks for, and submitting it to one of several clusters.

Only what decides where and when a job may start is read; all else is left to sbatch.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.accounting.sacct.fields import parse_time, sound_values
from slurm_rl_plugin.accounting.slurm.options import VARIABLES, asked_counts, cut_options
from slurm_rl_plugin.accounting.slurm.resources import limit_seconds
from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.kind import EndedRun, SubmitCommand
from slurm_rl_plugin.batch_systems.slurm.answers.fields import FINAL_STATES
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, JobRequest
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ConfigurationError,
    JobNotAccepted,
    SubmissionUnknown,
)

#: Options with which a job has one place only, and why.
_BOUND = {
    "clusters": "names clusters itself: leave it out, the site is chosen here",
    "dependency": "waits for jobs of one cluster: submit it there",
    "reservation": "names a reservation of one cluster: submit it there",
    "nodelist": "names nodes of one cluster: submit it there",
    "test-only": "submits nothing: leave it out",
    "uid": "is for root: submit it yourself",
    "wait": "waits until the job has ended, and sbatch is not waited for so long: leave it out",
}
#: What submits.
SBATCH = "sbatch"


def sbatch_command(command: Sequence[str]) -> SubmitCommand:
    """Understand the words `sbatch ...`; see `JobSubmission.command`."""
    if not command or command[0].rpartition("/")[2] != SBATCH:
        raise ConfigurationError(
            "give the command to submit with behind --, such as -- sbatch job.sh."
        )
    words = tuple(command[1:])
    options, rest = _options(words, SBATCH)
    script = words[rest] if rest < len(words) else None
    if ":" in words[:rest] or script == ":":
        raise ConfigurationError(
            "a heterogeneous job cannot be routed: submit it where it is to run."
        )
    reads_stdin = script is None and "wrap" not in options
    return SubmitCommand(words=words, options=options, script=script, reads_stdin=reads_stdin)


def job_request_of(
    command: SubmitCommand, script: str, environment: Mapping[str, str], user: str
) -> JobRequest:
    """What the command asks for; the words go over variables, these over the script's lines."""
    given = script_options(script)
    given |= {name: environment[key] for key, name in VARIABLES.items() if key in environment}
    given |= command.options
    for name, why in _BOUND.items():
        if name in given:
            raise ConfigurationError(f"sbatch --{name} {why}.")
    needs = {name: given[name] for name in NEEDS if name in given}
    return JobRequest(
        job=JobDescription(
            partition=given.get("partition", ""),
            qos=given.get("qos", ""),
            name=given.get("job-name", (command.script or "").rpartition("/")[2]),
            time_limit=parse_time_limit(given.get("time", "")),
            has_batch_script=True,
            account=given.get("account", ""),
            user=user,
        ),
        processors=least_processors(needs),
        needs=tuple(sorted(needs.items())),
    )


def script_options(script: str) -> dict[str, str]:
    """Options of the lines #SBATCH, up to the first command, as sbatch reads them."""
    found: dict[str, str] = {}
    for number, line in enumerate(script.splitlines(), start=1):
        if line.startswith("#SBATCH"):
            where = f"line {number} of the script"
            try:
                words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:
                raise ConfigurationError(f"{where}: {error}: mend its quotes.") from None
            if words in (["hetjob"], ["packjob"]):
                raise ConfigurationError(
                    f"{where}: a heterogeneous job cannot be routed: submit it where it is to run."
                )
            found |= _options(words, where)[0]
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def parse_time_limit(text: str) -> float:
    """Seconds of sbatch's --time, in any of its forms; NaN for none."""
    try:
        return limit_seconds(text)
    except ValueError:
        raise ConfigurationError(
            f"time limit {text!r} is none: give one as sbatch --time takes."
        ) from None


def _options(words: Sequence[str], where: str) -> tuple[dict[str, str], int]:
    """Long name -> value, and the place of the first word that is no option."""
    try:
        return cut_options(words)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def least_processors(needs: Mapping[str, str]) -> int:
    """Processors that a job asks for, at least, by names of NEEDS and values of sbatch."""
    try:
        return asked_counts(needs).processors
    except ValueError as error:
        raise ConfigurationError(f"sbatch {error}") from None


#: Words after which slurmctld may have the job although nobody was told.
_PERHAPS_TAKEN = (
    *("Socket timed out", "Zero Bytes were transmitted", "Insane message", "Unexpected message"),
    *("send failure", "receive failure", "shutdown failure", "Transport endpoint"),
    *("Connection reset", "Connection timed out", "Broken pipe"),
)
#: Variables that would name other clusters than the chosen one.
_OTHER_CLUSTERS = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")
_SUBMITTED = re.compile(r"^(?:Submitted batch job )?(?P<job>\d+)(?: on cluster \S+|;\S*)?$", re.M)
_ENDED_FIELDS = ("JobIDRaw", "Submit", "Eligible", "Start", "End", "State", "ExitCode")
#: States of a job that the site failed, and the exit code of one that slurmstepd could not launch.
_SITE_FAILED = frozenset({"NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
_NOT_LAUNCHED = ("FAILED", "0:53")


@dataclass(frozen=True, slots=True)
class SlurmSubmission:
    """Speaks to the clusters that share one accounting database; see `JobSubmission`.

    `submitting` runs sbatch with the user's own environment, which the job inherits.
    """

    submitting: CommandRunner
    asking: CommandRunner

    program = SBATCH
    command = staticmethod(sbatch_command)
    request = staticmethod(job_request_of)

    def submit(self, cluster: str, words: Sequence[str], script: str | None) -> tuple[int, str]:
        """Run `sbatch -M CLUSTER WORDS`; see `JobSubmission.submit`."""
        command = [SBATCH, f"--clusters={cluster}", *words]
        try:
            answer = self.submitting.call(command, stdin=script or "")
        except BatchSystemUnavailable as error:
            raise _unknown(cluster, str(error)) from None
        except KeyboardInterrupt:  # sbatch was killed, perhaps behind the submission
            raise _unknown(cluster, "interrupted") from None
        return _submitted(cluster, answer)

    def ended(
        self, cluster: str, job_ids: Sequence[int], since: float | None = None
    ) -> tuple[list[EndedRun], list[int]]:
        """Ask `sacct -M CLUSTER`; see `JobSubmission.ended`."""
        which = ("--jobs", ",".join(str(job_id) for job_id in job_ids), "-S", "now-90days")
        if since is not None:  # root would see the jobs of all users
            which = ("--user", str(os.getuid()), "-S", f"now-{math.ceil(since)}seconds")
        answer = self.asking.call(
            [
                *("sacct", f"--clusters={cluster}", "-X", "-D", "--parsable2", "--noheader"),
                *(*which, "-o", ",".join(_ENDED_FIELDS)),
            ]
        )
        if answer.status:
            raise failure("sacct", answer.errors or answer.output)
        return parse_ended(answer.output)


def _submitted(cluster: str, answer: Answer) -> tuple[int, str]:
    said = (answer.errors + answer.output).strip()
    found = _SUBMITTED.search(answer.output)
    if found is not None:  # whatever the exit status: there is a job
        return int(found["job"]), answer.output.strip()
    if answer.status == 0:
        raise SubmissionUnknown(f"sbatch said {said[:200]!r}: look with `squeue -M {cluster} --me`")
    # without a word, or killed, sbatch may have been cut off behind the submission
    if not said or answer.status < 0 or any(words in said for words in _PERHAPS_TAKEN):
        raise _unknown(
            cluster, said.splitlines()[-1] if said else f"sbatch ended with {answer.status}"
        )
    raise JobNotAccepted(said.splitlines()[-1])


def _unknown(cluster: str, words: str) -> SubmissionUnknown:
    return SubmissionUnknown(
        f"{words}: the job may be on {cluster}, look with `squeue -M {cluster} --me` before you "
        "submit it again"
    )


def parse_ended(text: str) -> tuple[list[EndedRun], list[int]]:
    """Jobs that run or have run, and those that ended without having run."""
    ran: list[EndedRun] = []
    never: list[int] = []
    running: dict[int, EndedRun] = {}
    not_over: set[int] = set()
    for line in text.splitlines():
        try:
            job, *times, status, code = sound_values(_ENDED_FIELDS, line)
            submitted, eligible, started, ended = map(parse_time, times)
            job_id, state = int(job), status.split(" ")[0]
        except ValueError as error:
            raise not_understood("sacct", line) from error
        failed = state in _SITE_FAILED or (state, code) == _NOT_LAUNCHED
        if state == "REQUEUED":  # by hand: what it waited for its first run is nobody's fault
            continue
        if state not in FINAL_STATES:
            not_over.add(job_id)  # requeued: its earlier runs come with the last one
            if state == "RUNNING" and submitted <= started:
                submitted = eligible if eligible <= started else submitted
                running[job_id] = EndedRun(
                    job_id=job_id, submitted=submitted, started=started, ended=math.nan
                )
        elif not started <= ended and not (failed and submitted <= ended):
            never.append(job_id)
        else:
            ran.append(
                EndedRun(
                    job_id=job_id,
                    submitted=eligible if submitted <= eligible <= ended else submitted,
                    started=started if started <= ended else ended,
                    ended=ended,
                    failed=failed,
                )
            )
    return [*(run for run in ran if run.job_id not in not_over), *running.values()], never


def user_submission(environment: Mapping[str, str], timeout: float) -> SlurmSubmission:
    """What submits jobs and asks accounting as the user, with nothing of ours in what jobs get."""
    asking = CommandRunner(environment=environment, timeout=timeout)
    submitting = CommandRunner(environment=environment, timeout=timeout)
    submitting.environment = {
        key: value for key, value in environment.items() if key not in _OTHER_CLUSTERS
    }
    return SlurmSubmission(submitting=submitting, asking=asking)
