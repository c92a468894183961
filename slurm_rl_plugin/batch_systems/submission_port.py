"""The port to submission: a user's command, what it asks for, and what became of his jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slurm_rl_plugin.domain.site import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """When a job ran; seconds since the epoch.

    Attributes:
        job_id: its number.
        submitted: when it could have started first.
        started, ended: of its run; of one that never ran both are its end. While it runs `ended`
            is NaN.
        failed: whether the site failed it, and not its user: a node, a launch, a missed deadline.
    """

    job_id: int
    submitted: float
    started: float
    ended: float
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitCommand:
    """A command that submits, understood as far as it goes.

    Attributes:
        words: behind the program's name, as given.
        options: long name -> value, of the words alone.
        script: word that names the batch script; None where it is on standard input, or wrapped.
        reads_stdin: whether the program would read its script from standard input.
    """

    words: tuple[str, ...]
    options: Mapping[str, str]
    script: str | None
    reads_stdin: bool


class JobSubmission(Protocol):
    """Submits to clusters that share one accounting, as the user who asks."""

    @property
    def program(self) -> str:
        """What submits, by its name on the PATH."""
        ...

    def command(self, words: Sequence[str]) -> SubmitCommand:
        """Understand a user's words, the program's name first.

        Raises:
            ConfigurationError: another command, an option that is not known, or one that binds the
                job to one place.
        """
        ...

    def request(
        self, command: SubmitCommand, script: str, environment: Mapping[str, str], user: str
    ) -> JobRequest:
        """What the command asks for.

        Args:
            command: as understood.
            script: text of the batch script; "" for none.
            environment: variables that the program reads.
            user: login name.

        Raises:
            ConfigurationError: a line of the script or a value is not understood, or it binds the
                job to one place.
        """
        ...

    def submit(self, cluster: str, words: Sequence[str], script: str | None) -> tuple[int, str]:
        """Submit; the job's number there, and what the program said.

        Args:
            cluster: where.
            words: of the user, behind the program's name.
            script: for standard input; None where it is not read.

        Raises:
            JobNotAccepted: surely not submitted; in the batch system's words.
            SubmissionUnknown: it may have been submitted.
        """
        ...

    def ended(
        self, cluster: str, job_ids: Sequence[int], since: float | None = None
    ) -> tuple[list[EndedRun], list[int]]:
        """Which of the jobs run or have run, and which ended without having run.

        A job that was requeued has a run for each start, the last one last.

        Args:
            cluster: where.
            job_ids: of the jobs.
            since: instead of these, all jobs of this user in the last so many seconds.

        Raises:
            BatchSystemError: accounting does not answer, or in a form that is not understood.
        """
        ...
