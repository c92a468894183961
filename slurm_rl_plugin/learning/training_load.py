"""What a policy is trained on: loads with FIFO's figures beside them; and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.learning.evaluation.group_waits import groupings_of
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine
from slurm_rl_plugin.simulator.schedules.on_nodes import simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.units import DAY, MINUTE, FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.summary import JobMeasures
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

#: Told after each step of a training: the number of steps done and the best objective so far.
Progress = Callable[[int, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedPolicy:
    """The outcome of a training."""

    network: QNetwork | EchoStateNetwork  #: the best by the validation loads
    validation_objective: float  #: its objective there
    #: [step, objective on the training loads, objective on the validation loads].
    curve: tuple[tuple[int, float, float], ...]
    simulated_jobs: int  #: jobs simulated in all
    #: What else was validated beside it, and its objective; () leaves that to the ordering rules.
    compared: tuple[tuple[str, float], ...] = ()


def check_number(training: str, name: str, value: float, holds: bool, words: str) -> None:
    """Refuse the setting `name` of a training where it does not hold; `words` say what it may be.

    Raises:
        ConfigurationError: it may not be that value.
    """
    if not holds:
        raise ConfigurationError(f"{training} setting {name} is {value:g}: give a number {words}.")


#: Seconds up to which the mean wait of batch jobs counts as none: a ratio of small waits is noise.
_SHORT_BATCH_WAIT = 15 * MINUTE

#: Of usage as Slurm ships it (PriorityDecayHalfLife), seconds.
_HALF_LIFE = 7 * DAY
#: Fewest jobs of a group by which its mean wait is judged.
_GROUP_JOBS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoad:
    """One load, simulated again and again with paired input."""

    prepared: PreparedLog  #: the jobs
    workload: Workload  #: the same as the policy believes them
    settings: SimulationSettings  #: the batch system
    fifo_max_wait: float  #: longest wait under FIFO, seconds
    sjf_batch_wait: float  #: mean wait of batch jobs under SJF with known run times, seconds
    saf_slowdown: float  #: mean bounded slowdown under SAF with requested times
    #: Of each job under the site's own priority with past usage decayed, seconds, [n].
    site_wait: FloatArray
    drop: tuple[int, int] = (0, 0)  #: how many first and last jobs are simulated but not counted
    nodes: NodeMachine | None = None  #: that the jobs run on; None for a pool of processors

    @classmethod
    def of(
        cls,
        prepared: PreparedLog,
        estimates: RunTimeEstimate | None,
        settings: SimulationSettings,
        drop: tuple[int, int] = (0, 0),
    ) -> TrainingLoad:
        """The load with what simple orders make of it."""
        workload = prepared.workload(estimates)
        counted = _counted(prepared, drop)
        fifo = starts_under(Candidate(name="fifo"), prepared, workload, settings)
        known = prepared.workload(None)
        sjf = starts_under(Candidate(name="sjf"), prepared, known, settings)
        asked = prepared.workload(RequestedLimit())
        saf = starts_under(Candidate(name="saf"), prepared, asked, settings)
        slowdown = bounded_slowdown(saf - workload.submit, prepared.log.run_time)
        decayed = replace(settings, half_life=min(settings.half_life, _HALF_LIFE))
        own = starts_under(Candidate(name="multifactor"), prepared, asked, decayed)
        return cls(
            prepared=prepared,
            workload=workload,
            settings=settings,
            fifo_max_wait=float((fifo - workload.submit)[counted].max()),
            sjf_batch_wait=_mean_batch_wait(prepared, sjf - workload.submit, counted),
            saf_slowdown=float(slowdown[counted].mean()),
            site_wait=own - workload.submit,
            drop=drop,
            nodes=None
            if prepared.machine is None
            else node_machine(prepared.log, prepared.machine),
        )

    def starts(self, network: QNetwork | EchoStateNetwork) -> FloatArray:
        """When each job starts under a network, seconds, shape [n]."""
        if self.nodes is None:
            candidate = Candidate(name="this model", network=network)
            return starts_under(candidate, self.prepared, self.workload, self.settings)
        order = QueueOrder(network=network)
        return simulate_on_nodes(self.workload, self.nodes, order, self.settings).start

    def objective(self, start: FloatArray, weights: RewardWeights) -> float:
        """The site's objective for the given starts."""
        jobs = schedule_of(self.prepared, start, self.settings)
        counted = _counted(self.prepared, self.drop)
        measures = JobMeasures.of(jobs)
        # where a simple order leaves no queue there is nothing to compare: count it as a minute
        longest = max(float(measures.wait[counted].max()), MINUTE)
        waited = _mean_batch_wait(self.prepared, measures.wait, counted)
        return weights.objective(
            float(measures.time_utility[counted].mean()),
            float(measures.responsiveness[counted].mean()),
            float(measures.fairness[counted].mean()),
            longest / max(self.fifo_max_wait, MINUTE),
            max(waited, _SHORT_BATCH_WAIT) / max(self.sjf_batch_wait, _SHORT_BATCH_WAIT),
            float(measures.bounded_slowdown[counted].mean()) / self.saf_slowdown,
            self._group_ratios(measures.wait, counted) if weights.groups else (),
        )

    def _group_ratios(self, wait: FloatArray, counted: slice) -> list[float]:
        """Mean wait of widths and of time limits over that under the site's own priority."""
        of_groups = groupings_of(self.prepared)
        found = []
        for name in ("width", "limit"):
            place = of_groups[name].place[counted]
            jobs = np.bincount(place)
            mine, site = (np.bincount(place, each[counted]) for each in (wait, self.site_wait))
            known = jobs >= _GROUP_JOBS
            # waits of some minutes are noise: a minute and more on either side
            least = MINUTE * jobs[known]
            found += ((mine[known] + least) / (site[known] + least)).tolist()
        return found


def _counted(prepared: PreparedLog, drop: tuple[int, int]) -> slice:
    return slice(drop[0], len(prepared.log) - drop[1])


def _mean_batch_wait(prepared: PreparedLog, wait: FloatArray, counted: slice) -> float:
    batch = ~prepared.interactive[counted]
    return float(wait[counted][batch].mean()) if batch.any() else 0.0


class TrainingLoads(NamedTuple):
    """What a training sees: loads that train, and loads that choose."""

    training: list[TrainingLoad]
    validation: list[TrainingLoad]


def drawn_loads(
    loads: Sequence[TrainingLoad], batch: int, seed: int, step: int
) -> Sequence[TrainingLoad]:
    """The loads of one step of a training, the same in every run; a batch of 0 takes all."""
    if not batch or batch >= len(loads):
        return loads
    rng = np.random.default_rng((seed, step))
    return [loads[each] for each in rng.choice(len(loads), batch, replace=False)]


def mean_objective(
    network: QNetwork | EchoStateNetwork,
    loads: Sequence[TrainingLoad],
    weights: RewardWeights,
    *,
    threads: int = 1,
) -> float:
    """Mean objective of a network over loads, simulated side by side in so many threads."""

    def objective(load: TrainingLoad) -> float:
        return load.objective(load.starts(network), weights)

    with ThreadPoolExecutor(max_workers=threads) as pool:
        return float(np.mean(list(pool.map(objective, loads))))


def rule_objective(rule: str, loads: Sequence[TrainingLoad], weights: RewardWeights) -> float:
    """Mean objective of an ordering rule over loads."""
    values = []
    for load in loads:
        start = starts_under(Candidate(name=rule), load.prepared, load.workload, load.settings)
        values.append(load.objective(start, weights))
    return float(np.mean(values))
