"""What a command `sbatch ...` asks for, before it is run: its words, its variables, its script.

Only what decides where and when a job may start is read; all else is left to sbatch.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from slurm_rl_plugin.accounting.slurm.durations import limit_seconds
from slurm_rl_plugin.accounting.slurm.option_names import VARIABLES
from slurm_rl_plugin.accounting.slurm.options import asked_counts, cut_options
from slurm_rl_plugin.batch_systems.submission_port import SubmitCommand
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, JobRequest
from slurm_rl_plugin.errors import ConfigurationError

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
    """Understand the words `sbatch ...`.

    Raises:
        ConfigurationError: another command, an option that is not known, or one that binds the
            job to one place.
    """
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
    """What the command asks for; the words go over variables, these over the script's lines.

    Args:
        command: as understood.
        script: text of the batch script; "" for none.
        environment: variables that sbatch reads.
        user: login name.

    Raises:
        ConfigurationError: a line of the script or a value is not understood, or it binds the job
            to one place.
    """
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
    """Options of the lines #SBATCH, up to the first command, as sbatch reads them.

    Raises:
        ConfigurationError: a line is not understood; names it.
    """
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
    """Seconds of sbatch's --time; NaN for none.

    Args:
        text: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or
            days-hours:minutes:seconds.

    Raises:
        ConfigurationError: another form.
    """
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
    """Processors that a job asks for, at least.

    Args:
        needs: names of NEEDS and their values, as sbatch takes them.

    Raises:
        ConfigurationError: a count is none.
    """
    try:
        return asked_counts(needs).processors
    except ValueError as error:
        raise ConfigurationError(f"sbatch {error}") from None
