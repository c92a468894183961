"""Summary statistics of a schedule, by docs/research/definitions.md; the rows of every report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.fairness import (
    KEPT,
    ServedJobs,
    Service,
    fairness_at_starts,
    service_of_windows,
)
from slurm_rl_plugin.utility.time_utility import (
    JobUtilities,
    bounded_slowdown,
    job_rows,
    relative_overhead,
    responsiveness,
    time_utility,
)

#: Rows of weight 1 that one user may have however few the others have.
ENOUGH_OF_ONE = 100.0


def one_user_capped(weight: FloatArray, user: NDArray[Any]) -> FloatArray:
    """Lower the weights of a user who outweighs all others together, shape [n].

    Each figure of the site that users' own rows fill is computed with these weights. One user then
    has at most half of it, or `ENOUGH_OF_ONE` rows where the others have fewer. Weights are not
    negative; `user` says by any labels whose each row is, shape [n].
    """
    if len(weight) == 0:
        return weight
    _, whose = np.unique(user, return_inverse=True)
    of_user = np.bincount(whose, weight)
    most = int(np.argmax(of_user))
    allowed = max(float(of_user.sum() - of_user[most]), ENOUGH_OF_ONE)
    if of_user[most] <= allowed:
        return weight
    return np.where(whose == most, weight * (allowed / of_user[most]), weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJobs:
    """Jobs with the starts that a schedule gave them; columns of shape [n] in submit order."""

    submit: FloatArray  #: seconds
    start: FloatArray  #: seconds
    run_time: FloatArray  #: seconds
    processors: IntArray  #: processors occupied
    account: IntArray  #: index into `shares`
    interactive: BoolArray  #: job class
    shares: FloatArray  #: share of each account, shape [accounts], sum 1
    capacity: int  #: processors of the machine
    billed: FloatArray | None = None  #: what the site bills for a second; None for processors
    utilities: JobUtilities | None = None  #: of the site's own classes; None without such

    @property
    def charged(self) -> FloatArray | IntArray:
        """What each job is charged for a second; accounts have shares of it; shape [n]."""
        return self.processors if self.billed is None else self.billed

    @property
    def wait(self) -> FloatArray:
        """Start minus submit, seconds, shape [n]."""
        return np.asarray(self.start - self.submit, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMeasures:
    """Measures of each job, shape [n]."""

    wait: FloatArray
    responsiveness: FloatArray
    time_utility: FloatArray
    bounded_slowdown: FloatArray
    relative_overhead: FloatArray
    fairness: FloatArray

    @classmethod
    def of(cls, jobs: ScheduledJobs) -> JobMeasures:
        """Measure every job of a schedule."""
        wait, row = jobs.wait, job_rows(jobs.interactive, jobs.utilities).T
        return cls(
            wait=wait,
            responsiveness=responsiveness(wait, jobs.run_time),
            time_utility=time_utility(wait + jobs.run_time, jobs.run_time, row),
            bounded_slowdown=bounded_slowdown(wait, jobs.run_time),
            relative_overhead=relative_overhead(wait, jobs.run_time),
            fairness=fairness_at_starts(
                jobs.start, jobs.run_time, jobs.charged, jobs.account, jobs.shares
            ),
        )


def utilization(jobs: ScheduledJobs) -> float:
    """Processor-seconds used over processor-seconds offered between first submit and last end."""
    span = float((jobs.start + jobs.run_time).max() - jobs.submit.min())
    work = float((jobs.run_time * jobs.processors).sum())
    return work / (jobs.capacity * span) if span > 0 else 0.0


def summarise(
    jobs: ScheduledJobs,
    *,
    drop: tuple[int, int] = (0, 0),
    accounts: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The measures of one policy's schedule, as an entry of `evaluate --json`.

    `drop` first and last jobs take part in the schedule but are not counted.
    """
    measures = JobMeasures.of(jobs)
    counted = np.zeros(len(jobs.submit), dtype=np.bool_)
    counted[drop[0] : max(len(counted) - drop[1], 0)] = True
    mean_time_utility = _mean(measures.time_utility[counted])
    mean_fairness = _mean(measures.fairness[counted])
    last = np.flatnonzero(counted)[np.argmax(jobs.start[counted])] if counted.any() else None
    service = service_of(jobs, counted) if accounts and counted.any() else None
    own: dict[str, Any] = {}
    if (classes := jobs.utilities) is not None:  # those of the site that have jobs
        masks = {name: counted & (classes.of_job == at) for at, name in enumerate(classes.names)}
        own = {name: _class_summary(measures, mine) for name, mine in masks.items() if mine.any()}
    return {
        "jobs": int(counted.sum()),
        **_waits(measures.wait[counted]),
        "mean_bounded_slowdown": _mean(measures.bounded_slowdown[counted]),
        "utilization": utilization(jobs),
        "responsiveness": _mean(measures.responsiveness[counted]),
        "time_utility": mean_time_utility,
        "fairness": mean_fairness,
        "fairness_final": float(measures.fairness[last]) if last is not None else None,
        "objective": (mean_time_utility + mean_fairness) / 2 if counted.any() else None,
        "relative_overhead_p90": _quantile(measures.relative_overhead[counted], 0.9),
        "classes": {
            "interactive": _class_summary(measures, counted & jobs.interactive),
            "batch": _class_summary(measures, counted & ~jobs.interactive),
        },
        **({} if jobs.utilities is None else {"utility_classes": own}),
        **({} if service is None else {"misdelivered": misdelivered_figures(service)}),
        "accounts": {
            name: _account_summary(jobs, measures, counted & (jobs.account == index), index)
            | ({} if service is None else service_of_account(service, index))
            for index, name in enumerate(accounts)
        },
    }


def service_of(jobs: ScheduledJobs, counted: slice | BoolArray) -> Service:
    """Service of each account in the fortnights in which the counted jobs came, one at least."""
    came = jobs.submit[counted]
    served = ServedJobs(
        submit=jobs.submit,
        start=jobs.start,
        run_time=jobs.run_time,
        rate=np.asarray(jobs.charged, dtype=np.float64),
        account=jobs.account,
    )
    return service_of_windows(
        served,
        jobs.shares,
        begin=float(came.min()),
        end=float(came.max()),
        most=float(jobs.capacity) if jobs.billed is None else np.inf,
    )


def misdelivered_figures(service: Service) -> dict[str, Any]:
    """Who got what, over all accounts (docs/research/definitions.md)."""
    kept = service.kept_parts
    return {
        "fortnight": service.misdelivered,
        "quantile05": _quantile(kept, 0.05),
        "kept95": _mean((kept >= KEPT).astype(np.float64)),
        "windows": len(service.delivered),
    }


def service_of_account(service: Service, index: int) -> dict[str, Any]:
    """Mean service of one account in a window, delivered and entitled, and their ratio."""
    delivered = float(service.delivered[:, index].mean())
    entitled = float(service.entitled[:, index].mean())
    ratio = delivered / entitled if entitled > 0.0 else None
    return {"delivered": delivered, "entitled": entitled, "ratio": ratio}


def _waits(wait: FloatArray) -> dict[str, Any]:
    return {
        "mean_wait": _mean(wait),
        "std_wait": float(wait.std()) if len(wait) else None,
        "max_wait": float(wait.max()) if len(wait) else None,
    }


def _class_summary(measures: JobMeasures, mine: BoolArray) -> dict[str, Any]:
    wait = measures.wait[mine]
    return {
        "jobs": int(mine.sum()),
        **_waits(wait),
        "median_wait": _quantile(wait, 0.5),
        "p95_wait": _quantile(wait, 0.95),
        "within_120s": _mean((wait <= INTERACTIVE_WAIT_GOAL).astype(np.float64)),
        "responsiveness": _mean(measures.responsiveness[mine]),
        "time_utility": _mean(measures.time_utility[mine]),
        "mean_bounded_slowdown": _mean(measures.bounded_slowdown[mine]),
    }


def _account_summary(
    jobs: ScheduledJobs, measures: JobMeasures, mine: BoolArray, index: int
) -> dict[str, Any]:
    work = jobs.run_time * jobs.charged
    total = float(work.sum())
    return {
        "jobs": int(mine.sum()),
        "share": float(jobs.shares[index]),
        "work_fraction": float(work[jobs.account == index].sum()) / total if total else 0.0,
        "mean_wait": _mean(measures.wait[mine]),
        "time_utility": _mean(measures.time_utility[mine]),
    }


def _mean(values: FloatArray) -> Any:
    return float(values.mean()) if len(values) else None


def _quantile(values: FloatArray, level: float) -> Any:
    return float(np.quantile(values, level)) if len(values) else None
