"""Experience of fitted Q on the papers' schemas: rollouts without backfilling (2011)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.features.scales import log_seconds
from slurm_rl_plugin.learning.fitted_q.regression import QRegressor, Samples
from slurm_rl_plugin.learning.fitted_q.settings import SCHEMAS, FittedQSettings
from slurm_rl_plugin.learning.fitted_q.targets import rewards, targets, with_a_choice
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.rollouts.experience import Experience
from slurm_rl_plugin.simulator.rollouts.rollout import collect_experience
from slurm_rl_plugin.simulator.scoring.reactive_grid import grid_job_table
from slurm_rl_plugin.units import FloatArray

#: Experience of each load of one iteration, and the load.
GridCollection = Sequence[tuple[Experience, Workload]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPatterns:
    """Collects by rollouts: at each start anything that fits may be chosen.

    Attributes:
        settings: of the iteration.
        regressor: makes networks of parameters.
    """

    settings: FittedQSettings
    regressor: QRegressor

    def collected(
        self, parameters: Sequence[float] | None, loads: Sequence[TrainingLoad], iteration: int
    ) -> GridCollection:
        """Experience of every load; the first is that of simple orders, as there is no policy."""
        network = self.regressor.driven(parameters)
        epsilon = None if parameters is None else self.settings.epsilon
        found = []
        for number, load in enumerate(loads):
            rng = np.random.default_rng([self.settings.seed, iteration, number])
            experience = collect_experience(
                load.workload, network, load.settings, epsilon=epsilon, rng=rng
            )
            found.append((experience, load.workload))
        return found

    def samples(
        self, collections: Sequence[GridCollection], parameters: Sequence[float] | None
    ) -> Samples:
        """Pattern set of Algorithm 1; memory was driven through each simulation in its order."""
        network = None if parameters is None else self.regressor.driven(parameters)
        settings, parts = self.settings, []
        for experience, workload in (each for collection in collections for each in collection):
            reward = rewards(experience, settings.reward, settings.utility_weight)
            found = targets(experience, reward, network, workload, settings.gamma)
            free = with_a_choice(experience)
            jobs = self._job_features(experience, workload)[free]
            parts.append((experience.queue[free], jobs, experience.state[free], found[free]))
        return Samples(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _job_features(self, experience: Experience, workload: Workload) -> FloatArray:
        """Features of the job of every start when it started, float64[n, Fx]."""
        table = grid_job_table(workload)[experience.job]
        if not SCHEMAS[self.settings.schema].dynamic_jobs:
            return table
        wait = experience.now - workload.submit[experience.job]
        return np.column_stack([table, log_seconds(wait)])
