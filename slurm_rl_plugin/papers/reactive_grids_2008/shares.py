"""Fig. 4 and 5 of the 2008 paper: fairness over time with targets that can and cannot be met."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slurm_rl_plugin.papers.reactive_grids_2008.tables import BASELINES, FIFO, RL
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Printed, measure
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.papers.study.verdicts import as_bound, bounded
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.fairness import fairness, service_at
from slurm_rl_plugin.utility.summary import ScheduledJobs

#: Simulated seconds after which fairness was printed to be above .94 (section VI.A).
_SETTLED, _SETTLED_FAIRNESS = 50_000.0, 0.94
#: 3 % off the ideal allocation in the long run.
_LONG_RUN_FAIRNESS = 0.97
#: Targets .4/.2/.2/.2 against work .7/.2/.05/.05: 1 - (.2 - .05)/.4.
INFEASIBLE_BOUND = 0.625
#: What counts as nearly optimal: 3 % off that bound.
_NEARLY = 0.97 * INFEASIBLE_BOUND


def fairness_over_time(jobs: ScheduledJobs, times: FloatArray) -> FloatArray:
    """Fairness (eq. 4) on the service consumed up to each of `times`, shape [times].

    Args:
        jobs: a schedule.
        times: seconds on the clock of the schedule, shape [times].
    """
    served = np.empty((len(times), len(jobs.shares)))
    for account in range(len(jobs.shares)):
        mine = jobs.account == account
        served[:, account] = service_at(
            times - jobs.submit[0],  # small numbers: sums of epoch seconds would lose digits
            jobs.start[mine] - jobs.submit[0],
            jobs.run_time[mine],
            jobs.processors[mine],
        )
    total = served.sum(axis=1)
    fractions = np.divide(
        served, total[:, None], out=np.zeros_like(served), where=total[:, None] > 0
    )
    return np.array([float(fairness(jobs.shares, each)) for each in fractions])


def fairness_after(trial: PairedTrial, policy: str, seconds: float) -> FloatArray:
    """Fairness so many seconds after the first submit, one figure a log, shape [logs]."""
    return np.array(
        [
            fairness_over_time(jobs, np.array([jobs.submit[0] + seconds]))[0]
            for jobs in trial.schedules[policy]
        ]
    )


def claims_of_shares(feasible: PairedTrial, infeasible: PairedTrial) -> Iterator[Claim]:
    """Every sentence of sections VI.A and B on fairness.

    Args:
        feasible: the load with targets equal to the accounts' work, p = .2.
        infeasible: the same logs with other targets.
    """
    settled = {name: fairness_after(feasible, name, _SETTLED) for name in feasible.schedules}
    at_the_end = {name: feasible.figure(name, "F at the end") for name in feasible.schedules}
    yield _claim("Fig. 4", RL, "F at 50,000 s", settled, _SETTLED_FAIRNESS)
    for policy in (RL, FIFO):
        yield _claim("Fig. 4", policy, "F in the long run", at_the_end, _LONG_RUN_FAIRNESS)
    for policy in (RL, FIFO):
        figures = {name: infeasible.figure(name, "F") for name in infeasible.schedules}
        yield _infeasible_claim(policy, figures)


def _claim(
    group: str, policy: str, column: str, figures: dict[str, FloatArray], bound: float
) -> Claim:
    remark = "the accounts' own work is random and misses the targets by as much under any order"
    return bounded(
        Cell(f"{group}, feasible targets", policy, column),
        measure(figures[policy]),
        f"{bound:.2f}",
        least=True,
        baselines={name: float(figures[name].mean()) for name in BASELINES if name in figures},
        remark=remark,
    )


def _infeasible_claim(policy: str, figures: dict[str, FloatArray]) -> Claim:
    measured = measure(figures[policy])
    judged = as_bound(measured, _NEARLY, least=True)
    lowest, highest = (pick(float(each.mean()) for each in figures.values()) for pick in (min, max))
    trivially = f"; no order can do else: the policies lie between {lowest:.3f} and {highest:.3f}"
    return Claim(
        cell=Cell("Fig. 5, infeasible targets", policy, "F"),
        measured=measured,
        printed=Printed(value=INFEASIBLE_BOUND, unit=0.001, text=".625"),
        baselines={name: float(figures[name].mean()) for name in BASELINES if name in figures},
        judged=judged._replace(because=judged.because + trivially),
    )
