"""The loads of the 2008 paper, the policies compared on them, and the trainings of its networks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.sarsa import SarsaSettings
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.papers.study.claims import Declared, Printed
from slurm_rl_plugin.papers.study.result_store import LearningTask, Loads
from slurm_rl_plugin.papers.study.study import Effort
from slurm_rl_plugin.papers.study.trials import (
    FIFO,
    INTERACTIVE_FIRST,
    LONGEST_FIRST,
    MIN_RUN_WAIT,
    PROCESSORS_OF_2011,
    SJF,
    prepared_segments,
    rules,
    scheduled,
)
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import SHORT_JOB_RUN_TIME
from slurm_rl_plugin.utility.reward import RewardWeights

RL = "RL"
HOLDING = (f"{SJF}, 1 held", f"{SJF}, 2 held")
#: Policies shown with FIFO and RL in every claim.
BASELINES = (FIFO, SJF, "EDF", INTERACTIVE_FIRST, MIN_RUN_WAIT, *HOLDING)
#: Interactive fractions p of the experiments.
FRACTIONS = (0.2, 0.4, 0.5)

DECLARED = Declared(__package__)


def printed_waits(interactive: float, policy: str, job_class: str) -> tuple[float, ...]:
    """Mean, standard deviation and longest wait of Table II, seconds."""
    waits = DECLARED.of(f"Table II, p = {interactive}").line(policy)
    first = 0 if job_class == "interactive" else 3
    return tuple(float(text) for text in waits[first : first + 3])


def printed_factor(interactive: float, job_class: str) -> Printed:
    """FIFO's mean wait in Table II over RL's."""
    fifo, learned = (printed_waits(interactive, p, job_class)[0] for p in (FIFO, RL))
    return Printed.rounded(fifo / learned, 1)


JOBS, PROCESSORS, LOAD = 6000, 50, 0.99
#: Targets that the work can meet, and targets that it cannot (2008, section VI.A and B).
FEASIBLE = {"vo0": 0.7, "vo1": 0.2, "vo2": 0.05, "vo3": 0.05}
INFEASIBLE = {"vo0": 0.4, "vo1": 0.2, "vo2": 0.2, "vo3": 0.2}
#: The last jobs are not counted, because the queue drains (2008, section V.B).
DROP = (0, 500)
#: First seeds of the logs to learn on and to choose on; the measured ones begin at 0.
TRAINING_SEED, VALIDATION_SEED = 1000, 2000

#: U/2 + F/2 with a small penalty for a long tail (definitions): chooses among the networks.
OBJECTIVE = RewardWeights(time_utility=0.5, responsiveness=0.0, fairness=0.5)
#: Segments of LPC-EGEE that are measured, four busy ones to learn on, and one to choose on.
MEASURED_SEGMENTS = (14, 17, 18, 19)
_LEARNED, _CHOOSING = (8, 9, 11, 16), (15,)


def rates(interactive: float) -> tuple[float, float]:
    """Mu and lambda, 1/s, of the load with that fraction of interactive jobs (section V.B)."""
    mu = -math.log(1.0 - interactive) / SHORT_JOB_RUN_TIME
    return mu, LOAD * PROCESSORS * mu


def generated(
    interactive: float, seeds: Iterable[int], effort: Effort, shares: Mapping[str, float]
) -> list[PreparedLog]:
    """Logs of the 2008 load, one a seed, with the given targets."""
    jobs = effort.jobs_of(JOBS)
    logs = (
        mmn_log(np.random.default_rng(seed), interactive=interactive, jobs=jobs) for seed in seeds
    )
    return [prepare_log(log, capacity=PROCESSORS, shares=shares) for log in logs]


def learning_task(
    name: str,
    interactive: float,
    effort: Effort,
    settings: SarsaSettings,
    *,
    shares: Mapping[str, float] = FEASIBLE,
    recorded: bool = False,
    training_jobs: int = 0,
) -> LearningTask:
    """SARSA on logs of seeds 1000 and above; seeds 2000 and above choose the network.

    Args:
        recorded: whether the logs record starts, those of interactive jobs first.
        training_jobs: jobs of a log to learn on; 0 for as many as in a log to choose on.
    """
    counts = (effort.training, effort.validation)

    def logs(first: int, count: int, jobs: int) -> list[TrainingLoad]:
        size = replace(effort, jobs=jobs)
        found = generated(interactive, range(first, first + count), size, shares)
        if recorded:  # as by a site that serves interactive jobs first
            site = rules(INTERACTIVE_FIRST)[INTERACTIVE_FIRST]
            found = [
                replace(log, log=replace(log.log, start=scheduled(site, log).start))
                for log in found
            ]
        return training_loads(found)

    return LearningTask(
        name=f"{name}-p{interactive}",
        settings=replace(settings, sweeps=effort.sweeps, weights=OBJECTIVE),
        sources=[
            f"mmn p={interactive} jobs={effort.jobs_of(JOBS)} {counts}",
            f"{dict(shares)} {recorded}",
            *([f"training jobs={training_jobs}"] if training_jobs else []),
        ],
        loads=lambda: (
            logs(TRAINING_SEED, counts[0], training_jobs or effort.jobs),
            logs(VALIDATION_SEED, counts[1], effort.jobs),
        ),
    )


def segments_task(log: JobLog, effort: Effort) -> LearningTask:
    """SARSA on busy segments that are not measured, on the 81 processors of 2011."""

    def loads() -> Loads:
        training, validation = (
            training_loads(
                prepared_segments(log, numbers, PROCESSORS_OF_2011, effort.jobs).values()
            )
            for numbers in (_LEARNED, _CHOOSING)
        )
        return training, validation

    return LearningTask(
        name="reactive-grids-lpc",
        settings=SarsaSettings(sweeps=effort.sweeps, weights=OBJECTIVE),
        sources=[f"LPC-EGEE {_LEARNED} {_CHOOSING} {PROCESSORS_OF_2011} {effort.jobs}"],
        loads=loads,
    )


def training_loads(
    logs: Iterable[PreparedLog], estimates: ClassMedian | None = None
) -> list[TrainingLoad]:
    """The logs on an empty machine without backfilling; run times known (ORA) or estimated."""
    return [
        TrainingLoad.of(
            log, estimates, SimulationSettings(capacity=log.capacity, half_life=math.inf)
        )
        for log in logs
    ]


def contenders(network: QNetwork, medians: ClassMedian) -> dict[str, Candidate]:
    """The policies of the experiments on generated load."""
    names = (SJF, "EDF", INTERACTIVE_FIRST, MIN_RUN_WAIT, LONGEST_FIRST, *HOLDING)
    learned = {RL: Candidate(name="", network=network)}
    return rules(FIFO) | learned | rules(*names, medians=medians)
