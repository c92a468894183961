"""Jobs of a simulation as columns, and what each of them counts."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload_history import NO_PAST, WorkloadHistory
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Places of a job's two numbers in `Workload.counted`; behind those of all jobs are their shares.
_WEIGHED, _BILLED, _NUMBERS = 0, 1, 2
#: Fields of a Workload without a row for each job, or with more than one.
_NOT_COLUMNS = ("shares", "past", "counted")
#: `counted` where processors are all that is weighed and billed.
_PROCESSORS_ALONE: FloatArray = np.empty(0)


class Workload(NamedTuple):
    """Jobs of a simulation in order of submission; columns of shape [n].

    Attributes:
        submit: seconds.
        run_time: seconds that the job will really run.
        estimate: seconds that the policy and backfilling believe it will run.
        time_limit: requested seconds, the estimate where none is known.
        processors: processors requested.
        account: index into shares.
        interactive: job class.
        shares: share of each account, shape [accounts].
        past: whose the jobs are, and what is known of their earlier runs.
        counted: shape [2n + n resources], of each job the processors that it weighs by its dominant
            share of the machine, then what the site bills it for a second; behind these of each job
            the shares of a machine's resources that it asks for, of none where it runs on
            processors alone. Empty where it weighs and is billed its processors. Flat, since each
            compiled call is handed all columns: as two it took a sixth of the speed of processors
            alone, as one of two dimensions an eighth.
    """

    submit: FloatArray
    run_time: FloatArray
    estimate: FloatArray
    time_limit: FloatArray
    processors: IntArray
    account: IntArray
    interactive: BoolArray
    shares: FloatArray
    past: WorkloadHistory = NO_PAST
    counted: FloatArray = _PROCESSORS_ALONE

    @property
    def size(self) -> FloatArray:
        """How large each job is, in processors, shape [n]; `size_of` in compiled code."""
        return self._counted(_WEIGHED)

    @property
    def billed(self) -> FloatArray:
        """What each job is charged for a second, shape [n]."""
        return self._counted(_BILLED)

    def _counted(self, number: int) -> FloatArray:
        if len(self.counted):
            return self.counted[: _NUMBERS * len(self.submit)][number::_NUMBERS]
        return self.processors.astype(np.float64)

    @property
    def asked(self) -> FloatArray:
        """Shares of a machine's resources that each job asks for, shape [n, resources].

        Without any column where the jobs run on processors alone.
        """
        jobs = len(self.submit)
        return self.counted[_NUMBERS * jobs :].reshape(jobs, resources_of(self))

    def counting(
        self,
        *,
        weighed: FloatArray | None = None,
        billed: FloatArray | None = None,
        asked: FloatArray | None = None,
    ) -> Self:
        """The same jobs with what they weigh and are billed, each [n]; None for processors.

        And with the shares that they ask for, [n, resources]; None on processors alone.
        """
        if weighed is None and billed is None and asked is None:
            return self._replace(counted=_PROCESSORS_ALONE)
        both = [self.processors if each is None else each for each in (weighed, billed)]
        flat = [np.column_stack(both).astype(np.float64).ravel()]
        if asked is not None:
            flat.append(asked.ravel())
        return self._replace(counted=np.concatenate(flat))

    @classmethod
    def of_jobs(
        cls,
        jobs: JobTable,
        *,
        run_time: FloatArray,
        estimate: FloatArray,
        time_limit: FloatArray,
        shares: FloatArray,
        past: WorkloadHistory,
        billed: FloatArray | None = None,
        asked: FloatArray | None = None,
    ) -> Self:
        """What the jobs of a table ask for, with what is known and believed of them."""
        return cls(
            submit=jobs.submit,
            run_time=run_time,
            estimate=estimate,
            time_limit=time_limit,
            processors=jobs.processors,
            account=jobs.account,
            interactive=jobs.interactive,
            shares=shares,
            past=past,
        ).counting(weighed=jobs.weighed, billed=billed, asked=asked)

    @property
    def knows_users(self) -> bool:
        """Whether the user of each job is known."""
        return len(self.past.user) == len(self.submit)

    def _columns(self) -> dict[str, Any]:
        fields = self._asdict().items()
        return {name: column for name, column in fields if name not in _NOT_COLUMNS}

    def rows(self, count: int) -> Self:
        """Room for `count` of these jobs, to be filled by `write`; until then they never come."""
        columns = {name: np.zeros(count, column.dtype) for name, column in self._columns().items()}
        columns["submit"] += np.inf
        columns["processors"] += 1
        numbers = _NUMBERS + self.asked.shape[1] if len(self.counted) else 0
        past = self.past.rows(count)
        return self._replace(**columns, past=past, counted=np.zeros(numbers * count))

    def write(self, places: slice, jobs: IntArray, known: Self) -> None:
        """Fill rows of `rows` with what is known of some jobs.

        Args:
            places: of the rows, as many as there are jobs.
            jobs: numbers in `known`, shape [n].
            known: the jobs of which these rows were made.
        """
        for mine, theirs in zip(self._per_job(), known._per_job(), strict=True):
            mine[places] = theirs[jobs]

    def _per_job(self) -> list[Any]:
        """Views of all that has a row for each job."""
        per_job = list(self._columns().values())
        if len(self.counted):
            per_job += [self.size, self.billed, self.asked]
        return [*per_job, *self.past.per_job()]

    def select(self, job: IntArray | BoolArray) -> Self:
        """The chosen jobs with the shares of the whole."""
        columns = {name: column[job] for name, column in self._columns().items()}
        chosen = self._replace(**columns, past=self.past.of_jobs(job))
        if len(self.counted):
            return chosen.counting(
                weighed=self.size[job], billed=self.billed[job], asked=self.asked[job]
            )
        return chosen


@compiled_borrowing
def size_of(workload: Workload, job: int) -> float:
    """How large a job is, in processors."""
    if len(workload.counted) > 0:
        return workload.counted[_NUMBERS * job + _WEIGHED]
    return float(workload.processors[job])


@compiled_borrowing
def charge_of(workload: Workload, job: int) -> float:
    """What a job is charged for a second."""
    if len(workload.counted) > 0:
        return workload.counted[_NUMBERS * job + _BILLED]
    return float(workload.processors[job])


@compiled_borrowing
def resources_of(workload: Workload) -> int:
    """Of how many resources of a machine the shares are known; 0 on processors alone."""
    if len(workload.counted) == 0:
        return 0
    return len(workload.counted) // len(workload.submit) - _NUMBERS


@compiled_borrowing
def share_of(workload: Workload, job: int, resource: int, resources: int) -> float:
    """The part of a resource of the machine that a job asks for.

    Args:
        workload: the jobs.
        job: its number.
        resource: the column.
        resources: how many there are, as `resources_of` tells.
    """
    shares = _NUMBERS * len(workload.submit)
    return workload.counted[shares + resources * job + resource]


@compiled_borrowing
def dominant_of(workload: Workload, job: int, resources: int) -> int:
    """The resource of the machine of which a job asks for the largest part, the first of equals."""
    dominant = 0
    for resource in range(1, resources):
        share = share_of(workload, job, resource, resources)
        if share > share_of(workload, job, dominant, resources):
            dominant = resource
    return dominant
