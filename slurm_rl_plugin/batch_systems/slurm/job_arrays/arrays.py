"""Job arrays of one training: submitted by submitit, watched by one sacct, cancelled by name."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import io
import logging
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submitit.core.core import Job
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.slurm.slurm import SlurmExecutor, SlurmInfoWatcher, SlurmJob

from slurm_rl_plugin.batch_systems.command_process import last_line
from slurm_rl_plugin.batch_systems.slurm.job_arrays.worker import ArrayWorker, WorkerReport
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ConfigurationError

#: Commands of Slurm without which no worker can be had.
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "sacct")
#: Seconds that a command of Slurm may take.
TIMEOUT = 60.0
#: Longest time between two calls of sacct, for all jobs together; it begins with 2 s.
POLL_SECONDS = 30
#: Seconds for which a training goes on asking a Slurm that does not answer.
PATIENCE = 600.0
#: Seconds in which cancelled jobs end, KillWait included.
ENDING_SECONDS = 120.0
#: Seconds in which a result comes through a shared file system.
RESULT_SECONDS = 15
#: How often submitit requeues a worker whose time is over.
MOST_TIMEOUTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySettings:
    """What a job array of workers asks Slurm for, and the folder that it shares with us.

    Attributes:
        folder: ours alone, on a file system that all nodes share.
        workers: tasks of an array that run at once at most.
        minutes: time limit of a worker.
        processors: of a worker, all on one node.
        options: further long options of sbatch; True for one without a value.
        compiled_code: folder with compiled code that workers start with; None without.
    """

    folder: Path
    workers: int = 8
    minutes: int = 60
    processors: int = 1
    options: Mapping[str, str | bool] = field(default_factory=dict)
    compiled_code: Path | None = None

    @property
    def job_name(self) -> str:
        """Tells our jobs from all others of the user."""
        digest = hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()
        return f"slurm-rl-train-{digest[:10]}"


class ArrayJobs:
    """The jobs of one training; for the main thread only, which alone can be woken by an alarm."""

    def __init__(self, settings: ArraySettings) -> None:
        self._settings = settings
        self._runner = CommandRunner(environment=None, timeout=TIMEOUT, on_call=None)
        self._known: set[str] = set()
        self._any_submitted = False
        logging.getLogger("submitit").setLevel(logging.CRITICAL)  # what matters is said by us
        SlurmJob.watcher = _Watcher(delay_s=POLL_SECONDS)

    def check(self) -> None:
        """Whether workers can be had here.

        Raises:
            ConfigurationError: no Slurm, or one without accounting.
            BatchSystemUnavailable: Slurm does not answer.
        """
        missing = [each for each in COMMANDS if shutil.which(each) is None]
        if missing:
            raise ConfigurationError(
                f"--on slurm needs Slurm's commands, and {' '.join(missing)} cannot be found: "
                "train on a machine from which jobs are submitted, or leave --on out."
            )
        answer = self._runner.call(["sacct", "-n", "-X", "-o", "JobID", "-j", "1"])
        if answer.status:
            raise ConfigurationError(
                "--on slurm learns from sacct that a worker is lost, and sacct says: "
                f"{last_line(answer.errors or answer.output)}; leave --on out."
            )

    def submit(
        self, folder: Path, worker: ArrayWorker, shared: Path, batches: Sequence[Sequence[Any]]
    ) -> list[Job[WorkerReport]]:
        """Submit one job array with a task for each batch of items.

        A Slurm that took jobs before and does not answer now is asked again for PATIENCE seconds.

        Raises:
            ConfigurationError: Slurm refuses jobs of these options.
            BatchSystemUnavailable: it does not answer.
        """
        until, pause = time.monotonic() + PATIENCE, 5.0
        while True:
            try:
                jobs = self._submit(folder, worker, shared, batches)
            except BatchSystemUnavailable:
                if not self._any_submitted or time.monotonic() > until:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 60.0)
                self._cancel_unknown()
            else:
                self._any_submitted = True
                self._known.update(job.job_id.partition("_")[0] for job in jobs)
                return jobs

    def _submit(
        self, folder: Path, worker: ArrayWorker, shared: Path, batches: Sequence[Sequence[Any]]
    ) -> list[Job[WorkerReport]]:
        executor = self._executor(folder)
        try:
            with _time_limit(TIMEOUT), contextlib.redirect_stderr(io.StringIO()):
                return executor.map_array(worker, [shared] * len(batches), batches)
        except TimeoutError as error:
            raise BatchSystemUnavailable(f"sbatch gave no answer within {TIMEOUT:g} s.") from error
        except (FailedJobError, FailedSubmissionError) as error:
            if isinstance(error.__cause__, TimeoutError):
                raise BatchSystemUnavailable(
                    f"sbatch gave no answer within {TIMEOUT:g} s."
                ) from error
            found = failure("sbatch", str(error))
            if isinstance(found, BatchSystemUnavailable):
                raise found from error
            raise ConfigurationError(
                f"Slurm refuses the workers: {last_line(str(error))}; mend --slurm-option."
            ) from error

    def _executor(self, folder: Path) -> SlurmExecutor:
        settings = self._settings
        executor = SlurmExecutor(folder, max_num_timeout=MOST_TIMEOUTS)
        setup = []
        if settings.compiled_code is not None:
            setup.append(f"export NUMBA_CACHE_DIR={shlex.quote(str(settings.compiled_code))}")
        executor.update_parameters(
            job_name=settings.job_name,
            time=settings.minutes,
            cpus_per_task=settings.processors,
            array_parallelism=settings.workers,
            wckey=None,  # submitit's own is refused where keys are checked
            setup=setup,
            srun_args=[f"--cpus-per-task={settings.processors}"],  # 22.05 and on: not inherited
            additional_parameters={"chdir": str(settings.folder), **settings.options},
        )
        return executor

    def ids(self) -> list[str]:
        """Job ids, or those of arrays, of what is queued or runs under our name.

        Raises:
            BatchSystemError: squeue fails.
        """
        words = ["squeue", "-h", "-u", getpass.getuser(), "-n", self._settings.job_name]
        return sorted(set(self._runner.read([*words, "-o", "%F"]).split()))

    def _cancel_unknown(self) -> None:
        """Cancel what a submission without an answer may have put into the queue."""
        with contextlib.suppress(BatchSystemError):
            self.cancel(sorted(set(self.ids()) - self._known))

    def cancel(self, ids: Sequence[str]) -> None:
        """End these jobs, those of them that have not ended by themselves.

        Raises:
            BatchSystemUnavailable: Slurm does not answer.
        """
        if ids:
            answer = self._runner.call(["scancel", *ids])
            error = failure("scancel", answer.errors)
            if answer.status and isinstance(error, BatchSystemUnavailable):
                raise error

    def cancel_all(self, *, wait: bool) -> None:
        """Cancel every job under our name.

        Args:
            wait: until it is gone, which takes as long as Slurm's KillWait.

        Raises:
            BatchSystemError: it cannot be ended; says how to do it by hand.
        """
        until = time.monotonic() + ENDING_SECONDS
        by_hand = f"run `scancel --name={self._settings.job_name}`"
        try:
            while ids := self.ids():
                self.cancel(ids)
                if not wait:
                    return
                if time.monotonic() > until:
                    raise BatchSystemError(f"jobs {' '.join(ids)} do not end: {by_hand}.")
                time.sleep(0.5)
        except BatchSystemUnavailable as error:
            raise BatchSystemError(f"workers may go on: {by_hand} ({error}).") from error


class _Watcher(SlurmInfoWatcher):
    """Asks for all our jobs by one `sacct`, which gets a time-out."""

    def update(self) -> None:
        with contextlib.suppress(TimeoutError), _time_limit(TIMEOUT):
            super().update()

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Whether a job has ended, or was preempted and does not come back."""
        return super().is_done(job_id, mode) or self.get_state(job_id, "cache") == "PREEMPTED"


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """End the block, and the command that it waits for, by an alarm."""

    def expired(number: int, frame: object) -> None:
        del number, frame
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
