"""What a training is made of: logs, algorithm, seeds, and the folds that leave one log out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.algorithms import ALGORITHMS, Settings, steps_of
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Which logs are trained on, by which algorithm and how often, and what is left untouched.

    Attributes:
        logs: prepared logs.
        sources: of each log, for the manifest.
        estimates: kinds of run-time estimates; each log is trained on under each of them.
        backfilling: of the simulated batch system.
        runs: through the first 60 % of each log that train; see `split_stretches`.
        algorithm: one of ALGORITHMS.
        settings: of that algorithm.
        command: for the manifest.
        seeds: trainings that differ by their seed alone; the best on the validation loads is kept.
        heldout: leave the last 40 % of each log untouched (`learning.heldout_training`).
        classifier: the site's job-class rules and classes; None for the default ones.
        start: a network to start the search from.
        class_limit: how the simulated batch system keeps a reserve; None keeps processors free.
        leave_one_out: also train without each of the logs, and say what that is worth on it.
    """

    logs: Sequence[PreparedLog]
    sources: Sequence[dict[str, Any]]
    estimates: Sequence[str]
    backfilling: str
    runs: int
    algorithm: str
    settings: Settings
    command: str
    seeds: int = 1
    heldout: bool = False
    classifier: JobClassifier | None = None
    start: QNetwork | None = None
    class_limit: ClassLimit | None = None
    leave_one_out: bool = False

    def __post_init__(self) -> None:
        if self.leave_one_out and not ALGORITHMS[self.algorithm].orders:
            raise ConfigurationError(
                f"--leave-one-out compares orders of the queue, and {self.algorithm} orders none: "
                "leave it out."
            )
        if self.leave_one_out and len(self.logs) < 2:
            raise ConfigurationError("--leave-one-out needs two logs at least: give another LOG.")

    @property
    def folds(self) -> list[TrainingPlan]:
        """The same without the first log, without the second, ...; none where not asked for."""
        if not self.leave_one_out:
            return []
        return [
            replace(
                self,
                logs=[*self.logs[:out], *self.logs[out + 1 :]],
                sources=[*self.sources[:out], *self.sources[out + 1 :]],
                leave_one_out=False,
            )
            for out in range(len(self.logs))
        ]

    @property
    def steps_of_one(self) -> int:
        """How many steps one training takes, as its algorithm counts them."""
        return steps_of(self.algorithm, self.settings)

    @property
    def steps(self) -> int:
        """How many steps all trainings take: every seed, and every fold of each."""
        return self.seeds * (1 + len(self.folds)) * self.steps_of_one
