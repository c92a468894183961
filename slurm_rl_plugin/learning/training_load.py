"""Loads of a training: parts of logs to train and to validate on, and the objective of networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints

import numpy as np

from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit, RunTimeEstimate
from slurm_rl_plugin.learning.evaluation.group_waits import groupings_of
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    classify_log,
    select_prepared,
)
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.recorded_runs import windows_with_past
from slurm_rl_plugin.units import DAY, MINUTE, FloatArray, IntArray
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.summary import JobMeasures
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

#: Part of each log for training; the rest validates (definitions: time split).
TRAINING_FRACTION = 0.6
#: Maximum number of jobs of a run of a training.
MOST_JOBS = 50_000
#: Part of a run's jobs that fill the machine and do not count.
WARM_UP = 0.1
#: Part of the jobs that each of several runs leaves out, so that the runs differ.
LEFT_OUT = 0.02


def training_jobs(prepared: PreparedLog) -> int:
    """Number of jobs for training: the first 60 % of a log in submit order, rounded down.

    On a machine of nodes those of the first 60 % of its time: one array can have more jobs than a
    week, and parts by jobs would be cut within a day.
    """
    if prepared.machine is None:
        return int(len(prepared.log) * TRAINING_FRACTION)
    submit = prepared.log.submit
    border = submit[0] + TRAINING_FRACTION * (submit[-1] - submit[0])
    return int(np.searchsorted(submit, border))


def training_part(prepared: PreparedLog) -> PreparedLog:
    """The first 60 % of a log, the only part that training knows."""
    return log_window(prepared, 0, training_jobs(prepared))


def log_windows(prepared: PreparedLog, firsts: Sequence[int], count: int) -> list[PreparedLog]:
    """Windows of `count` consecutive jobs of a log from the places `firsts`, ascending.

    Submit times stay those of the log (F1 counts them from its start), and shares those of the
    whole log. A window knows users' recorded runs from before its begin.
    """
    for first in firsts:
        if first < 0 or count < 0 or first + count > len(prepared.log):
            raise ConfigurationError(
                f"a log of {len(prepared.log)} jobs has no window of {count} jobs from job {first}."
            )
    return windows_with_past(prepared, firsts, count)


def log_window(prepared: PreparedLog, first: int, count: int) -> PreparedLog:
    """The window of `count` jobs from number `first` on."""
    return log_windows(prepared, [first], count)[0]


def class_known_at_submission(
    prepared: PreparedLog, classifier: JobClassifier | None = None
) -> PreparedLog:
    """The log with job classes that are known at submission.

    The class in a SWF log is an actual run time < 900 s (definitions), which is unknown while a job
    waits. Reports on the actual run time must use `log.run_time`. The default rules are those of
    JobClassifier: for a SWF log a requested time <= 900 s; a job without a request is batch.
    """
    interactive, rule, own = classify_log(prepared.log, classifier or JobClassifier())
    return replace(prepared, interactive=interactive, class_rule=rule, utilities=own)


def split_stretches(
    prepared: PreparedLog, runs: int, rng: np.random.Generator
) -> tuple[list[PreparedLog], list[PreparedLog]]:
    """Training runs from the first 60 % of a log, and the validation run from the rest.

    Both are runs through the jobs next to the border, at most MOST_JOBS. Each of several training
    runs leaves out other LEFT_OUT of the jobs, so that a training does not overfit one run.
    """
    jobs = len(prepared.log)
    border = training_jobs(prepared)
    if border < 1 or jobs - border < 1:
        raise ConfigurationError(
            f"the log has too few jobs to train and validate on ({jobs}): give a longer one."
        )
    first = max(border - MOST_JOBS, 0)
    past = log_window(prepared, first, border - first)
    later = log_window(prepared, border, min(jobs - border, MOST_JOBS))
    kept = [kept_jobs(border - first, rng) for _ in range(runs)] if runs > 1 else []
    return [select_prepared(past, each) for each in kept] or [past], [later]


def kept_jobs(jobs: int, rng: np.random.Generator) -> IntArray:
    """Places of jobs without random LEFT_OUT of them, ascending."""
    left_out = rng.choice(jobs, int(jobs * LEFT_OUT), replace=False)
    return np.setdiff1d(np.arange(jobs), left_out)


#: Called after each step with the number of steps done and a figure, as the best objective so far.
Progress = Callable[[int, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedPolicy:
    """The result of a training."""

    network: QNetwork | EchoStateNetwork  #: the best on the validation loads
    validation_objective: float  #: its objective on the validation loads
    #: [step, objective on the training loads, objective on the validation loads].
    curve: tuple[tuple[int, float, float], ...]
    simulated_jobs: int  #: total number of simulated jobs
    #: Names and objectives of other predictions on the same loads; () for the ordering rules.
    compared: tuple[tuple[str, float], ...] = ()


Count = Annotated[int, "[1, inf)"]
Natural = Annotated[int, "[0, inf)"]


def check_settings(settings: Any) -> None:
    """Refuse a setting out of the interval or the names that annotate its type."""
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        [allowed], value = hint.__metadata__, getattr(settings, name)
        if isinstance(allowed, tuple):
            if value not in allowed:
                known = ", ".join(allowed)
                raise ConfigurationError(f"setting {name} is {value!r}: give one of {known}.")
            continue
        low, high = map(float, allowed[1:-1].split(", "))
        least, most = allowed[0] == "[", allowed[-1] == "]"
        enough = value >= low if least else value > low
        if enough and (value <= high if most else value < high):
            continue
        words = f"{'at least' if least else 'above'} {low:g}"
        if not math.isinf(high):
            words += f" and {'at most' if most else 'below'} {high:g}"
        number = "number" if math.isfinite(value) else "finite number"
        raise ConfigurationError(f"setting {name} is {value:g}: give a {number} {words}.")


#: Mean waits of batch jobs below this count as this, seconds: a ratio of small waits is noise.
_SHORT_BATCH_WAIT = 15 * MINUTE

#: Slurm's default half-life of usage (PriorityDecayHalfLife), seconds.
_HALF_LIFE = 7 * DAY
#: Fewest jobs of a group with a judged mean wait.
_GROUP_JOBS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoad:
    """A load, simulated repeatedly with paired input."""

    prepared: PreparedLog
    workload: Workload  #: the same jobs with the policy's estimates
    settings: SimulationSettings  #: the batch system
    fifo_max_wait: float  #: longest wait under FIFO, seconds
    sjf_batch_wait: float  #: mean wait of batch jobs under SJF with known run times, seconds
    saf_slowdown: float  #: mean bounded slowdown under SAF with requested times
    #: Of each job under the site's own priority with past usage decayed, seconds, [n].
    site_wait: FloatArray
    drop: tuple[int, int] = (0, 0)  #: numbers of first and last jobs that are not counted
    nodes: NodeMachine | None = None  #: None for a pool of processors

    @classmethod
    def of(
        cls,
        prepared: PreparedLog,
        estimates: RunTimeEstimate | None,
        settings: SimulationSettings,
        drop: tuple[int, int] = (0, 0),
    ) -> TrainingLoad:
        """The load with the reference figures of simple orders."""
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
        # without a queue under a simple order there is nothing to compare: waits count as a minute
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
            # waits of some minutes are noise: a minute is added on either side
            least = MINUTE * jobs[known]
            found += ((mine[known] + least) / (site[known] + least)).tolist()
        return found


def _counted(prepared: PreparedLog, drop: tuple[int, int]) -> slice:
    return slice(drop[0], len(prepared.log) - drop[1])


def _mean_batch_wait(prepared: PreparedLog, wait: FloatArray, counted: slice) -> float:
    batch = ~prepared.interactive[counted]
    return float(wait[counted][batch].mean()) if batch.any() else 0.0


class TrainingLoads(NamedTuple):
    """Loads to train on, and loads to validate on."""

    training: list[TrainingLoad]
    validation: list[TrainingLoad]


def drawn_loads(
    loads: Sequence[TrainingLoad], batch: int, seed: int, step: int
) -> Sequence[TrainingLoad]:
    """The loads of a step of a training, the same in every run; a batch of 0 takes all."""
    if not batch or batch >= len(loads):
        return loads
    rng = np.random.default_rng((seed, step))
    return [loads[each] for each in rng.choice(len(loads), batch, replace=False)]


def mean_objective(
    network: QNetwork | EchoStateNetwork,
    loads: Sequence[TrainingLoad],
    weights: RewardWeights,
    *,
    together: bool = False,
) -> float:
    """Mean objective of a network over loads, simulated side by side or one after the other."""

    def objective(load: TrainingLoad) -> float:
        return load.objective(load.starts(network), weights)

    run = side_by_side if together else map
    return float(np.mean(list(run(objective, loads))))


def rule_objective(rule: str, loads: Sequence[TrainingLoad], weights: RewardWeights) -> float:
    """Mean objective of an ordering rule over loads."""
    values = []
    for load in loads:
        start = starts_under(Candidate(name=rule), load.prepared, load.workload, load.settings)
        values.append(load.objective(start, weights))
    return float(np.mean(values))
