"""Evaluations of a training on the site's own Slurm: batches of items as tasks of job arrays."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Self

from submitit.core.core import Job
from submitit.core.utils import DelayedSubmission, FailedJobError

from slurm_rl_plugin.batch_systems.command_process import last_line
from slurm_rl_plugin.batch_systems.slurm.job_arrays.arrays import (
    RESULT_SECONDS,
    ArrayJobs,
    ArraySettings,
)
from slurm_rl_plugin.batch_systems.slurm.job_arrays.cost import WorkersCost
from slurm_rl_plugin.batch_systems.slurm.job_arrays.worker import (
    ArrayWorker,
    SharedWork,
    WorkerReport,
)
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError
from slurm_rl_plugin.whole_file import own_file, own_folder, put_in_place

#: How often a batch is given to a worker before the training is given up.
TRIES = 3
#: Seconds between two looks at the folder of the results.
LOOK_SECONDS = 0.5
#: Stands before and after the trace in submitit's message.
_RULE = "-" * 22
#: Where a worker has left no log.
_NO_LOG = "no log: do the nodes see this folder?"
_Job = Job[WorkerReport]


class SlurmArrays:
    """A `learning.workplace.Workplace` whose workers are tasks of job arrays.

    With `with`: an exception, Ctrl-C included, ends the jobs; what checkpoints hold stays.

    Args:
        settings: how workers are asked for; compiled code is copied into their folder.

    Attributes:
        cost: of the workers so far.
    """

    def __init__(self, settings: ArraySettings) -> None:
        self.cost = WorkersCost()
        self.settings = settings
        self._source = settings.compiled_code
        if self._source is not None:
            copied = settings.folder / "compiled"
            self.settings = replace(settings, compiled_code=copied)
        self._jobs = ArrayJobs(self.settings)
        self._lock: IO[str] | None = None
        self._shipped: SharedWork | None = None
        self._rounds = 0

    @property
    def folder(self) -> Path:
        """The folder that workers share with us."""
        return self.settings.folder

    def __enter__(self) -> Self:
        """Take the folder; jobs that an earlier run left are cancelled.

        Raises:
            ConfigurationError: no usable Slurm here, or another command uses the folder.
            BatchSystemError: Slurm does not answer.
        """
        self._jobs.check()
        try:
            own_folder(self.folder)  # what submitit reads in it is code
            self._lock = os.fdopen(own_file(self.folder / "lock", os.O_RDWR | os.O_CREAT), "w")
        except OSError as error:
            raise ConfigurationError(
                f"--work-folder: {error.filename}: {error.strerror}; give another one, "
                "where nobody else may write."
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"another command uses {self.folder}: wait for it, or give another --work-folder."
            ) from None
        except OSError:
            pass  # a file system without locks: jobs are told apart by their name alone
        self._jobs.cancel_all(wait=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Cancel all jobs of ours after a fault, or where a worker was lost.

        Raises:
            BatchSystemError: an exception came, and its jobs cannot be ended.
        """
        try:
            if kind is not None or self.cost.lost:
                self._jobs.cancel_all(wait=False)
        except BatchSystemError as fault:
            if kind is not None:
                raise BatchSystemError(f"{error or 'interrupted'}; {fault}") from error
        finally:
            self._leave_no_empty_folder()
            if self._lock is not None:
                self._lock.close()

    def _leave_no_empty_folder(self) -> None:
        """Remove the folder where it holds nothing to go on from."""
        with contextlib.suppress(OSError):
            if [each.name for each in self.folder.iterdir()] == ["lock"]:
                (self.folder / "lock").unlink()
                self.folder.rmdir()

    def forget(self) -> None:
        """Remove the folder: the training is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def each(
        self,
        task: Callable[[Any, Any], Any],
        shared: Any,
        items: Sequence[Any],
        *,
        warm_up: Callable[[Any], None],
        on_look: Callable[[Sequence[Any]], None] | None = None,
    ) -> list[Any]:
        """Run the task on each item, in tasks of job arrays; a lost worker's items are tried again.

        An item is given to TRIES workers in all. Each worker warms up before it takes its first
        item.
        """
        if not items:
            return []
        path = self._ship(SharedWork(task, shared, warm_up))
        size = self._batch_size(len(items))
        batches = [items[first : first + size] for first in range(0, len(items), size)]
        self._rounds += 1
        folder = self.folder / f"round-{self._rounds}"
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
        begin = time.monotonic()
        found = _Round(self._jobs, folder, path, batches, self._worker())
        for reports in found.looks():
            if on_look is not None:
                on_look(
                    [
                        None if report is None else report.results[place]
                        for report, batch in zip(reports, batches, strict=True)
                        for place in range(len(batch))
                    ]
                )
        self.cost.lost += found.lost
        self.cost.add(found.reports, time.monotonic() - begin)
        shutil.rmtree(folder, ignore_errors=True)
        return [result for report in found.reports for result in report.results]

    def _worker(self) -> ArrayWorker:
        return ArrayWorker(self.settings.processors)

    def _batch_size(self, items: int) -> int:
        """Items of a worker: so many that they take as long as its start, or all workers busy."""
        shared_out = math.ceil(items / self.settings.workers)
        if not self.cost.worked:
            return shared_out
        worth = math.ceil(self.cost.overhead / self.cost.seconds_of_item)
        return min(max(shared_out, worth), items)

    def _ship(self, work: SharedWork) -> Path:
        """The file with the task and what is shared, written once as long as both stay the same."""
        path, before = self.folder / "shared.pkl", self._shipped
        if before is None or before.task != work.task or before.shared is not work.shared:
            work.warm_up(work.shared)  # compiles here what each worker would compile
            self._copy_compiled_code()
            DelayedSubmission(*work).dump(self.folder / "shared.new")
            put_in_place(self.folder / "shared.new", path)
            self._shipped = work
        return path

    def _copy_compiled_code(self) -> None:
        if self._source is None or self.settings.compiled_code is None:
            return
        with contextlib.suppress(OSError, shutil.Error):  # workers compile what is not there
            shutil.copytree(self._source, self.settings.compiled_code, dirs_exist_ok=True)


class _Round:
    """Batches given to workers until each has been worked off."""

    def __init__(
        self,
        jobs: ArrayJobs,
        folder: Path,
        shared: Path,
        batches: Sequence[Sequence[Any]],
        worker: ArrayWorker,
    ) -> None:
        self._jobs, self._folder, self._shared = jobs, folder, shared
        self._batches, self._worker = batches, worker
        self._reports: dict[int, WorkerReport] = {}
        self._tries = [0] * len(batches)
        self._running: dict[int, _Job] = {}
        self.lost = 0

    @property
    def reports(self) -> list[WorkerReport]:
        """Reports of all batches, in their order, once every look is taken."""
        return [self._reports[place] for place in range(len(self._batches))]

    def looks(self) -> Iterator[list[WorkerReport | None]]:
        """Reports of the batches that are done, each time that somebody has looked; ends with all.

        Raises:
            ConfigurationError: as a task says, or Slurm refuses workers.
            BatchSystemError: a worker failed, or one batch lost TRIES workers.
        """
        while len(self._reports) < len(self._batches):
            self._submit()
            for place, job in list(self._running.items()):
                if job.done():
                    own_folder(self._folder.parent)
                    self._take(place, job)
            yield [self._reports.get(place) for place in range(len(self._batches))]
            if self._running:
                time.sleep(max(LOOK_SECONDS, 0.01 * len(self._running)))

    def _submit(self) -> None:
        """Give each batch that nobody works on to a worker."""
        known = {*self._reports, *self._running}
        places = [place for place in range(len(self._batches)) if place not in known]
        if not places:
            return
        chosen = [self._batches[place] for place in places]
        jobs = self._jobs.submit(self._folder, self._worker, self._shared, chosen)
        self._running.update(zip(places, jobs, strict=True))
        for place in places:
            self._tries[place] += 1

    def _take(self, place: int, job: _Job) -> None:
        """Take the report of an ended worker, or count it as lost."""
        del self._running[place]
        state = job.state
        job._results_timeout_s = RESULT_SECONDS if state.startswith("COMPLETED") else 1
        error = job.exception()
        if error is None:
            report = job.result()
            if report.refused is not None:
                raise ConfigurationError(report.refused)
            self._reports[place] = report
            return
        if isinstance(error, FailedJobError) and "UncompletedJobError" not in str(error):
            what = last_line(str(error).partition(_RULE)[2].partition(_RULE)[0], _NO_LOG)
            raise BatchSystemError(f"worker {job.job_id} failed: {what}; see {self._folder}.")
        self.lost += 1
        if self._tries[place] >= TRIES:
            raise BatchSystemError(
                f"{TRIES} workers for the same work were lost, the last one, {job.job_id}, as "
                f"{state} ({last_line(_log(job), _NO_LOG)}): give them more time or memory by "
                f"--slurm-option, or look into {self._folder}; what a checkpoint holds is kept."
            )
        with contextlib.suppress(BatchSystemError):
            self._jobs.cancel([job.job_id])  # whatever Slurm still means to do with it


def _log(job: _Job) -> str:
    with contextlib.suppress(OSError):
        return job.stderr() or ""
    return ""
