"""Parses and submits `sbatch ...`, and asks Slurm when it would start such a job.

Only options that decide where and when a job may start are read; sbatch handles the rest. Slurm's
will-run test, `sbatch --test-only`, submits nothing. It counts running and pending jobs of the
partition, but ignores its state, and its time limit if EnforcePartLimits is off. These are read
from `sinfo`, so that a job that would wait for ever gets no start.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slurm_rl_plugin.accounting.sacct.fields import parse_time as time_of_sacct
from slurm_rl_plugin.accounting.sacct.fields import sound_values
from slurm_rl_plugin.accounting.slurm.options import VARIABLES, asked_counts, cut_options
from slurm_rl_plugin.accounting.slurm.resources import limit_seconds
from slurm_rl_plugin.batch_systems.command_process import Answer, first_line, last_line
from slurm_rl_plugin.batch_systems.port import EndedRun, SubmitCommand
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FINAL_STATES,
    SINFO,
    parse_capacity,
    parse_duration,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_settings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.batch_systems.slurm.queue.reader import Squeue
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, Allocation, JobRequest
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ConfigurationError,
    JobNotAccepted,
    SubmissionUnknown,
)
from slurm_rl_plugin.units import MINUTE

#: Options that bind a job to one place, and why.
_BOUND = {
    "clusters": "names clusters itself: leave it out, slurm-rl chooses the site",
    "dependency": "waits for jobs of one cluster: submit it there",
    "reservation": "names a reservation of one cluster: submit it there",
    "nodelist": "names nodes of one cluster: submit it there",
    "test-only": "submits nothing: leave it out",
    "uid": "is for root: submit it yourself",
    "wait": "waits until the job has ended, longer than sbatch may take: leave it out",
}
SBATCH = "sbatch"


def sbatch_command(command: Sequence[str]) -> SubmitCommand:
    """Parse `sbatch ...`; see `JobSubmission.command`."""
    if not command or command[0].rpartition("/")[2] != SBATCH:
        raise ConfigurationError("give the command that submits after --, as in -- sbatch job.sh.")
    words = tuple(command[1:])
    options, rest = _options(words, SBATCH)
    script = words[rest] if rest < len(words) else None
    if ":" in words[:rest] or script == ":":
        raise ConfigurationError("a heterogeneous job cannot be routed: submit it to one cluster.")
    reads_stdin = script is None and "wrap" not in options
    return SubmitCommand(words=words, options=options, script=script, reads_stdin=reads_stdin)


def job_request_of(
    command: SubmitCommand, script: str, environment: Mapping[str, str], user: str
) -> JobRequest:
    """What the command asks for; arguments override variables, which override the script."""
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
    """Options of the lines #SBATCH up to the first command, as sbatch reads them."""
    found: dict[str, str] = {}
    for number, line in enumerate(script.splitlines(), start=1):
        if line.startswith("#SBATCH"):
            where = f"line {number} of the script"
            try:
                words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:
                raise ConfigurationError(f"{where}: {error}: correct its quotes.") from None
            if words in (["hetjob"], ["packjob"]):
                raise ConfigurationError(
                    f"{where}: a heterogeneous job cannot be routed: submit it to one cluster."
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
            f"time limit {text!r} is not valid: give one as for sbatch --time."
        ) from None


def _options(words: Sequence[str], where: str) -> tuple[dict[str, str], int]:
    try:
        return cut_options(words)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def least_processors(needs: Mapping[str, str]) -> int:
    """The least processors of a job with these values of NEEDS."""
    try:
        return asked_counts(needs).processors
    except ValueError as error:
        raise ConfigurationError(f"sbatch {error}") from None


#: Errors after which slurmctld may have the job.
_PERHAPS_TAKEN = (
    *("Socket timed out", "Zero Bytes were transmitted", "Insane message", "Unexpected message"),
    *("send failure", "receive failure", "shutdown failure", "Transport endpoint"),
    *("Connection reset", "Connection timed out", "Broken pipe"),
)
#: Variables that would override the chosen cluster.
_OTHER_CLUSTERS = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")
_SUBMITTED = re.compile(r"^(?:Submitted batch job )?(?P<job>\d+)(?: on cluster \S+|;\S*)?$", re.M)
_ENDED_FIELDS = ("JobIDRaw", "Submit", "Eligible", "Start", "End", "State", "ExitCode")
#: States of a job that the site failed, and of a job that slurmstepd could not launch.
_SITE_FAILED = frozenset({"NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
_NOT_LAUNCHED = ("FAILED", "0:53")


@dataclass(frozen=True, slots=True)
class SlurmSubmission:
    """Submits to the clusters of one accounting database; see `JobSubmission`.

    `submitting` runs sbatch with the user's own environment, which the job inherits.
    """

    submitting: CommandRunner
    asking: CommandRunner

    program = SBATCH
    command = staticmethod(sbatch_command)
    request = staticmethod(job_request_of)

    def submit(self, cluster: str, words: Sequence[str], script: str | None) -> tuple[int, str]:
        """Run `sbatch -M CLUSTER WORDS`."""
        command = [SBATCH, f"--clusters={cluster}", *words]
        try:
            answer = self.submitting.call(command, stdin=script or "")
        except BatchSystemUnavailable as error:
            raise _unknown(cluster, str(error)) from None
        except KeyboardInterrupt:  # sbatch was killed, perhaps after the submission
            raise _unknown(cluster, "interrupted") from None
        return _submitted(cluster, answer)

    def ended(
        self, cluster: str, job_ids: Sequence[int], since: float | None = None
    ) -> tuple[list[EndedRun], list[int]]:
        """Ask `sacct -M CLUSTER`."""
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
    printed = (answer.errors + answer.output).strip()
    found = _SUBMITTED.search(answer.output)
    if found is not None:  # there is a job, whatever the exit status
        return int(found["job"]), answer.output.strip()
    if answer.status == 0:
        raise SubmissionUnknown(
            f"sbatch printed {printed[:200]!r}: look with `squeue -M {cluster} --me`"
        )
    last = last_line(printed, f"sbatch ended with {answer.status}")
    # without output, or killed, sbatch may have ended after the submission
    if not printed or answer.status < 0 or any(words in printed for words in _PERHAPS_TAKEN):
        raise _unknown(cluster, last)
    raise JobNotAccepted(last)


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
            submitted, eligible, started, ended = map(time_of_sacct, times)
            job_id, state = int(job), status.split(" ")[0]
        except ValueError as error:
            raise not_understood("sacct", line) from error
        failed = state in _SITE_FAILED or (state, code) == _NOT_LAUNCHED
        if state == "REQUEUED":  # by hand, so the wait for this run does not count
            continue
        if state not in FINAL_STATES:
            not_over.add(job_id)  # requeued: its earlier runs are reported with the last one
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
    """Submits jobs and asks accounting as the user; jobs inherit the environment unchanged."""
    asking = CommandRunner(environment=environment, timeout=timeout)
    submitting = CommandRunner(environment=environment, timeout=timeout)
    submitting.environment = {
        key: value for key, value in environment.items() if key not in _OTHER_CLUSTERS
    }
    return SlurmSubmission(submitting=submitting, asking=asking)


TEST_ONLY = ("sbatch", "--test-only", "--chdir=/", "--output=/dev/null", "--wrap=true")
PARTITIONS = ("sinfo", "--noheader", "--all", "-o", "%P|%a|%l")
#: Options that may determine processors without a number of tasks.
_COUNTING = frozenset({"nodes", "cpus-per-gpu", "tres-per-task"})
#: sinfo's time limit of a partition without one.
NO_LIMIT = "infinite"
#: 26.05 prints a letter between the time and `using`.
_STARTS = re.compile(r"\bJob \d+ to start at (?P<time>\d{1,15}) .*?using \d+ processors")
#: Releases that do not know an option refuse it without the word error.
_REFUSED = re.compile(
    r"^(?:sbatch: (?:error|fatal):|allocation failure:|sbatch: (?=unrecognized option)) *"
    r"(?P<words>.+)$",
    re.MULTILINE,
)


class Partition(NamedTuple):
    """What decides whether a job may start in a partition at all."""

    name: str  #: without the star of the default one
    is_default: bool  #: whether it gets jobs that name no partition
    is_up: bool  #: whether jobs start there now
    longest: float  #: seconds that a job may request; inf for no limit


def will_run_command(request: JobRequest, account: str) -> list[str]:
    """The command of a will-run test; no value can leave its argument."""
    job, needs = request.job, dict(request.needs)
    words = {
        "partition": job.partition,
        "account": account or job.account,
        "qos": job.qos,
        "job-name": job.name,
        "time": "" if math.isnan(job.time_limit) else str(math.ceil(job.time_limit / MINUTE)),
        **{name: needs[name] for name in NEEDS if name in needs},
    }
    if not _is_sized(request.processors, needs):
        each = needs.get("cpus-per-task", "")
        of_task = max(int(each), 1) if each.isascii() and each.isdigit() else 1
        words["ntasks"] = str(math.ceil(request.processors / of_task))
    given = [f"--{name}={value}" for name, value in words.items() if value]
    return [*TEST_ONLY, *given, *(["--exclusive"] if needs.get("exclusive") == "" else [])]


def _is_sized(processors: int, needs: Mapping[str, str]) -> bool:
    """Whether the requested tasks, nodes or GPUs include these processors by themselves."""
    # with these Slurm computes the tasks from GPUs, and refuses another number
    if "ntasks-per-gpu" in needs or {"gpus", "gpus-per-task"} <= needs.keys() or "ntasks" in needs:
        return True
    try:
        return bool(_COUNTING & needs.keys()) and least_processors(needs) >= processors
    except ConfigurationError:  # Slurm refuses it with its own message
        return True


def parse_start(status: int, text: str) -> float:
    """The time of a will-run test."""
    found = _STARTS.search(text)
    if found is not None:
        return float(found["time"])
    refused = [each["words"] for each in _REFUSED.finditer(text)]
    error = failure(TEST_ONLY[0], text)
    if isinstance(error, BatchSystemUnavailable):
        raise error
    if status and refused:
        raise JobNotAccepted(f"Slurm would not take the job: {refused[-1]}")
    raise not_understood(" ".join(TEST_ONLY[:2]), text.strip().partition("\n")[0])


def parse_partitions(text: str) -> list[Partition]:
    """The partitions in `sinfo`'s answer to PARTITIONS, each once."""
    found: dict[Partition, None] = {}
    for line in text.splitlines():
        try:
            name, state, limit = line.split("|")
            longest = math.inf if limit == NO_LIMIT else parse_duration(limit)
        except ValueError as error:
            raise not_understood("sinfo", line) from error
        each = Partition(name.removesuffix("*"), name.endswith("*"), state == "up", longest)
        found[each] = None
    return list(found)


def check_partitions(request: JobRequest, partitions: list[Partition]) -> None:
    """Refuse a job that no partition it names would start."""
    asked = [name for name in request.job.partition.split(",") if name]
    mine = [each for each in partitions if (each.name in asked if asked else each.is_default)]
    if not mine:
        what = f"no partition {', '.join(asked)}" if asked else "no default partition"
        raise JobNotAccepted(f"Slurm has {what} here")
    up = [each for each in mine if each.is_up]
    if not up:
        raise JobNotAccepted(f"partition {mine[0].name} is not up")
    limit = request.job.time_limit
    if not math.isnan(limit) and all(limit > each.longest for each in up):
        raise JobNotAccepted(
            f"partition {up[0].name} allows {up[0].longest / MINUTE:.0f} minutes at most"
        )


#: Messages of scontrol about a reservation that a job uses, and about a missing one.
_IN_USE, _NO_RESERVATION = "reservation is in use", "reservation is invalid"


@dataclass(frozen=True, slots=True)
class SlurmOffers:
    """What Slurm says about a site to brokers; see `OfferingSite`.

    Slurm checks accounts and QOS by the associations of the calling user. Every will-run test is
    made under `account`; "" takes the job's own.
    """

    commands: CommandRunner
    account: str

    def expected_start(self, request: JobRequest) -> float | None:
        """The start by a will-run test, which submits nothing."""
        check_partitions(request, parse_partitions(self.commands.read(PARTITIONS)))
        answer = self.commands.call(will_run_command(request, self.account))
        return parse_start(answer.status, answer.errors + answer.output)

    def reserve(self, name: str, request: JobRequest, start: float, idle: float) -> None:
        """Create an advance reservation that ends after a job submitted within `idle` seconds.

        It begins a second later, since slurmctld refuses the second in which a running job ends.
        """
        job, spare = request.job, math.ceil(idle / MINUTE)
        words = {
            "reservationname": name,
            "accounts": job.account,
            "partition": job.partition,
            "starttime": f"uts{math.ceil(start) + 1}",
            "duration": str(math.ceil(job.time_limit / MINUTE) + spare + 1),
            "tres": f"cpu={request.processors}",
            "flags": f"PURGE_COMP={spare // 60:02}:{spare % 60:02}:00",
        }
        given = [f"{key}={value}" for key, value in words.items() if value]
        answer = self.commands.call(("scontrol", "create", "reservation", *given))
        if answer.status:
            raise JobNotAccepted(
                first_line(answer.errors or answer.output, "scontrol gives no reason")
            )

    def release(self, name: str) -> bool:
        """Delete a reservation; False if a pending or running job uses it."""
        answer = self.commands.call(("scontrol", "delete", f"reservationname={name}"))
        printed = answer.errors + answer.output
        if answer.status == 0 or _NO_RESERVATION in printed:
            return True
        if _IN_USE in printed:
            return False
        raise failure("scontrol", printed)

    def schedule(self) -> list[Allocation]:
        """Running jobs until their time limits, and pending jobs that backfilling has planned."""
        rows = Squeue(self.commands).records("RUNNING,SUSPENDED,PENDING")
        return [
            Allocation(row.start, row.end, row.processors) for row in rows if row.start < row.end
        ]

    def name(self) -> str:
        """ClusterName of slurm.conf."""
        return parse_settings(self.commands.read(SHOW_CONFIG)).cluster

    def processors(self) -> int:
        """All processors by `sinfo`, down nodes included."""
        return parse_capacity(self.commands.read(SINFO)).whole
