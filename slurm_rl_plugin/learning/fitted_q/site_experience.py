"""Experience of fitted Q on the `site` schema: queues ordered under true EASY."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.learning.fitted_q.regression import FeedForwardRegressor, Samples
from slurm_rl_plugin.learning.fitted_q.settings import FittedQSettings
from slurm_rl_plugin.learning.fitted_q.targets import site_targets, slowdown_rewards
from slurm_rl_plugin.learning.policy_search.search import unsearched_network
from slurm_rl_plugin.learning.policy_search.settings import SLOWDOWN
from slurm_rl_plugin.learning.side_by_side import processors_here
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.rollouts.site_experience import (
    NOBODY,
    SiteExperience,
    site_experience,
)
from slurm_rl_plugin.simulator.schedules.simulation import simulate_network

#: What noise is put on.
_NOISY = ("queue_weights", "job_weights", "bias", "output", "linear")


def with_noise(network: QNetwork, noise: float, rng: np.random.Generator) -> QNetwork:
    """A network that orders a little differently, all the time in the same way.

    Noise on the weights instead of on single starts (Ruckstiess, Felder, Schmidhuber 2008): under
    EASY one start out of order changes little, and who starts is not the network's choice alone.

    Args:
        network: stays as it is.
        noise: standard deviation, in parts of the root mean square of each group of weights.
        rng: source of randomness.
    """
    changed = {}
    for name in _NOISY:
        weights = getattr(network, name)
        spread = noise * np.sqrt(np.mean(weights**2))
        changed[name] = weights + spread * rng.standard_normal(weights.shape)
    return replace(network, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePatterns:
    """Collects from finished simulations, each under a network with noise of its own.

    Attributes:
        settings: of the iteration.
        regressor: makes networks of parameters.
    """

    settings: FittedQSettings
    regressor: FeedForwardRegressor

    def collected(
        self, parameters: Sequence[float] | None, loads: Sequence[TrainingLoad], iteration: int
    ) -> list[SiteExperience]:
        """Experience of every load; the first is that of the order that policy search starts from.

        Side by side in threads: the compiled simulator needs no interpreter.
        """
        network = unsearched_network(SLOWDOWN)
        if parameters is not None:
            network = self.regressor.network(parameters)

        def experience(number: int) -> SiteExperience:
            load = loads[number]
            rng = np.random.default_rng([self.settings.seed, iteration, number])
            explorer = with_noise(network, self.settings.noise, rng)
            start = simulate_network(load.workload, explorer, load.settings).start
            return site_experience(load.workload, start, load.settings)

        with ThreadPoolExecutor(max_workers=processors_here()) as pool:
            return list(pool.map(experience, range(len(loads))))

    def samples(
        self, collections: Sequence[Sequence[SiteExperience]], parameters: Sequence[float] | None
    ) -> Samples:
        """Pattern set: every start that left somebody waiting, and those that did not happen.

        The reward of a start that did not happen is known as well: that of letting another job of
        the same queue go first. Without these the network would know bad jobs only from short
        queues, in which nobody better is left.
        """
        network = None if parameters is None else self.regressor.network(parameters)
        parts = []
        for experience in (each for collection in collections for each in collection):
            reward = slowdown_rewards(experience, self.settings.exponent)
            found = site_targets(experience, reward, network, self.settings.gamma)
            width = 1 + self.settings.others
            row, column = np.nonzero(experience.job[:, :width] != NOBODY)
            jobs = experience.features[row, column]
            states = np.empty((len(row), 0))  # no memory
            parts.append((experience.queue[row], jobs, states, found[row, column]))
        return Samples(*(np.concatenate(each) for each in zip(*parts, strict=True)))
