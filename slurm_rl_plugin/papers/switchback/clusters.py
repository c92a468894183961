"""Drawn clusters with a queue that two orders sort in turns: users have habits, by day and week."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration, TurnBlock, drawn_blocks
from slurm_rl_plugin.simulator.kernel.cluster import advance
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import Run
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray
from slurm_rl_plugin.utility.time_utility import bounded_slowdown
from slurm_rl_plugin.what_if.switchback.block_costs import JobTimes, ReplayedCluster

PROCESSORS = 128
_USERS, _ACCOUNTS = 40, 4
#: Ranges of the load, as a part of the machine, and of the jobs a day, drawn uniformly.
_LOADS, _JOBS_A_DAY = (0.75, 0.95), (150.0, 350.0)
#: Mean number of jobs of a series, and mean seconds between them.
_SERIES, _APART = 4.0, 300.0
#: Requests over run times, and their probabilities.
_OVER, _PARTS = np.array([1.1, 1.5, 3.0, 8.0, 20.0]), np.array([0.15, 0.25, 0.30, 0.20, 0.10])
_SHORTEST, _LONGEST, _LONGEST_LIMIT = 10.0, 48.0 * HOUR, 72.0 * HOUR
_INTERACTIVE = 900.0


def drawn_cluster(rng: np.random.Generator, days: int) -> Workload:
    """Jobs of some days on PROCESSORS processors; the first day is a Monday."""
    usual = rng.lognormal(np.log(1800.0), 1.4, _USERS)
    width = 2.0 ** rng.integers(0, 6, _USERS)
    submit, user = _arrivals(rng, days)
    run = usual[user] * rng.lognormal(0.0, 1.0, len(user))
    wide = np.clip(width[user] * 2.0 ** rng.integers(-1, 2, len(user)), 1, PROCESSORS)
    processors = wide.astype(np.int64)
    work = rng.uniform(*_LOADS) * PROCESSORS * days * DAY
    run = np.clip(run * work / float(run @ processors), _SHORTEST, _LONGEST)
    over = rng.choice(_OVER, size=len(run), p=_PARTS)
    limit = np.minimum(np.ceil(run * over / _INTERACTIVE) * _INTERACTIVE, _LONGEST_LIMIT)
    return Workload.of(
        submit=submit,
        run_time=run,
        estimate=limit,
        time_limit=limit,
        processors=processors,
        account=user % _ACCOUNTS,
        interactive=limit <= _INTERACTIVE,
        shares=np.full(_ACCOUNTS, 1.0 / _ACCOUNTS),
    )


def _arrivals(rng: np.random.Generator, days: int) -> tuple[FloatArray, IntArray]:
    """Submit times, ascending, and users of the jobs."""
    count = int(days * rng.uniform(*_JOBS_A_DAY) / _SERIES)
    begins = np.empty(0)
    while len(begins) < count:
        drawn = rng.uniform(0.0, days * DAY, size=count)
        begins = np.append(begins, drawn[rng.random(count) < _busyness(drawn)])
    begins = begins[:count]
    sizes = rng.geometric(1.0 / _SERIES, size=count)
    owner = rng.choice(_USERS, size=count, p=rng.dirichlet(np.full(_USERS, 0.6)))
    within = np.concatenate([np.arange(size) for size in sizes])
    submit = np.repeat(begins, sizes) + within * rng.exponential(_APART, size=len(within))
    order = np.argsort(submit, kind="stable")
    order = order[submit[order] < days * DAY]
    return submit[order], np.repeat(owner, sizes)[order].astype(np.int64)


def _busyness(time: FloatArray) -> FloatArray:
    """Arrival rate relative to the busiest time: highest at 14 h, half at weekends."""
    hour, day = (time % DAY) / HOUR, (time // DAY) % 7
    return (0.35 + 0.65 * np.exp(-(((hour - 14.0) / 4.5) ** 2))) * np.where(day < 5, 1.0, 0.5)


SETTINGS = SimulationSettings(capacity=PROCESSORS, backfilling="easy")
#: Days before the experiment, in which the queue fills and usual costs are measured.
WARM_UP = 14
#: Lengths of blocks to draw from, hours.
HOURS = (4, 6, 8, 12)
#: Mean of an exponential lead of jobs in the site's order that replays do not know, seconds.
_HIDDEN_LEAD = HOUR / 2.0
#: Delay of a job per requested second in replays of a model that does not delay it.
_BELIEVED = 0.25
#: Tolerances for a gain: of the search, and of the result; the largest weight, halvings, and
#: factors of the last weight.
_NEAR, _NEAR_ENOUGH = 0.005, 0.015
_HEAVIEST, _HALVINGS = 2.0, 10
_AROUND = np.geomspace(1.0, 3.0, 30)[1:].repeat(2) ** np.tile([1.0, -1.0], 29)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTrial:
    """A cluster, its two actual orders, and the orders that replays know."""

    jobs: Workload  #: of the warm-up and of the experiment
    scores: Mapping[str, FloatArray]  #: SITE and OURS -> score of each job on the cluster
    known: Mapping[str, FloatArray]  #: the same in replays, without the hidden leads

    def starts(self, blocks: Sequence[TurnBlock]) -> FloatArray:
        """Start of each job, with the site's order outside the blocks; shape [n]."""
        runs = self._runs()
        run = runs[SITE]
        for block in blocks:
            run.run_until(block.begin)
            run = runs[block.arm]
            _take_over(run, block.begin)
        if blocks:
            run.run_until(blocks[-1].end)
            run = runs[SITE]
            _take_over(run, blocks[-1].end)
        run.run_until(np.inf)
        return run.cluster.start

    def _runs(self) -> dict[str, Run]:
        """A run under each order, both of one cluster."""
        found = {
            arm: Run.of(self.jobs, QueueOrder(scores=scores), SETTINGS)
            for arm, scores in self.scores.items()
        }
        one = found[SITE].cluster
        return {
            arm: replace(run, cluster=one._replace(rank=run.cluster.rank))
            for arm, run in found.items()
        }

    def slowdown(self, arm: str) -> float:
        """Mean bounded slowdown after the warm-up with an order in force all the time."""
        only = replace(self, scores={SITE: self.scores[arm], OURS: self.scores[arm]})
        late = self.jobs.submit >= WARM_UP * DAY
        wait = only.starts(()) - self.jobs.submit
        return float(bounded_slowdown(wait[late], self.jobs.run_time[late]).mean())

    def replayed(self, start: FloatArray) -> ReplayedCluster:
        """The cluster with these starts, for replays of its blocks."""
        return ReplayedCluster(
            times=JobTimes(jobs=self.jobs, start=start, capacity=PROCESSORS),
            orders={arm: partial(_of_jobs, scores) for arm, scores in self.known.items()},
            settings=SETTINGS,
        )


def _of_jobs(scores: FloatArray, workload: Workload, jobs: IntArray) -> QueueOrder:
    del workload
    return QueueOrder(scores=scores[jobs])


def _take_over(run: Run, now: float) -> None:
    """Sort the pending jobs by the order of a run, and schedule at once."""
    pending = run.cluster.waiting
    pending[:] = pending[np.argsort(run.cluster.rank[pending])]
    advance(run.cluster, now)
    run.decide()


#: The jobs and the scores of an order -> scores of another order.
_Scores = Callable[[Workload, FloatArray], FloatArray]


def _drawn(seed: int, days: int, ours: _Scores, believed: _Scores | None = None) -> DrawnTrial:
    """A cluster with our order made from the site's, and another one in replays if `believed`."""
    rng = np.random.default_rng(seed)
    jobs = drawn_cluster(rng, WARM_UP + days)
    known = -jobs.submit
    site = rng.exponential(_HIDDEN_LEAD, len(jobs.submit)) + known
    return DrawnTrial(
        jobs=jobs,
        scores={SITE: site, OURS: ours(jobs, site)},
        known={SITE: known, OURS: (believed or ours)(jobs, known)},
    )


def equal_models(seed: int, days: int) -> DrawnTrial:
    """Two equal orders, although replays believe that ours prefers short jobs."""
    return _drawn(
        *(seed, days, lambda _, site: site),
        lambda jobs, known: known - _BELIEVED * jobs.time_limit,
    )


def preferring_short(seed: int, days: int, weight: float) -> DrawnTrial:
    """Our order delays jobs by a multiple of their time limit."""
    return _drawn(seed, days, lambda jobs, site: site - weight * jobs.time_limit)


def reversed_model(seed: int, days: int) -> DrawnTrial:
    """Our order is largest area first."""
    return _drawn(seed, days, lambda jobs, _: jobs.time_limit * jobs.processors)


def with_gain(seed: int, days: int, gain: float) -> DrawnTrial:
    """A model with a mean bounded slowdown lower by `gain`, a part of the site's.

    The slowdown is not a smooth function of the weight, since each start moves later ones: where
    halving misses the gain, weights around its result are tried in turn.

    Returns:
        The first model within _NEAR of the gain; otherwise the nearest one tried.
    """
    nearest, least = equal_models(seed, days), np.inf
    site = nearest.slowdown(SITE)
    low, high = 0.0, _HEAVIEST
    for tried in range(_HALVINGS + len(_AROUND)):
        halves = tried < _HALVINGS
        weight = (low + high) / 2.0 if halves else low * _AROUND[tried - _HALVINGS]
        trial = preferring_short(seed, days, float(weight))
        left = trial.slowdown(OURS) / site - (1.0 - gain)
        if abs(left) < least:
            nearest, least = trial, abs(left)
        if least < _NEAR or (not halves and least < _NEAR_ENOUGH):
            break
        if halves:
            low, high = (weight, high) if left > 0.0 else (low, weight)
    return nearest


def declared(seed: int, days: int, longest_wait: float = np.inf) -> Declaration:
    """The experiment on a drawn cluster, after its warm-up."""
    return Declaration(
        goal="bounded_slowdown",
        harm=1.0,
        longest_wait=longest_wait,
        policy="drawn",
        model_sha256="",
        seed=seed,
        day=DAY,
        blocks=drawn_blocks(WARM_UP * DAY, days, HOURS, seed),
    )
