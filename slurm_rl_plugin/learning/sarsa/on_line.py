"""SARSA as its authors ran it: it learns while it schedules, from an initialised policy (2008).

Early deadline first schedules one log; the network is trained on those starts. Then the learner
schedules another log: at every start it adds that start to its examples and trains the network
afresh (2008, section III.C). The paper trains on all examples each time, which is quadratic in
their number. Here each training takes a fixed number of examples, spread evenly over all of them.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.features.reactive_grid import VO_PLACES
from slurm_rl_plugin.learning.sarsa.settings import SarsaSettings
from slurm_rl_plugin.learning.sarsa.sweeps import grid_inputs, sweep_settings
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.simulator.rollouts.sarsa import (
    GridInputs,
    Transitions,
    input_count,
    sarsa_sweep,
)
from slurm_rl_plugin.simulator.scoring.perceptron import (
    descend_through,
    perceptron_of,
    random_parameters,
    values_of,
)
from slurm_rl_plugin.units import FloatArray

#: Sweeps of the learner over the starts of early deadline first ("a few", section III.C).
_SWEEPS = 3


class OnLineLearner:
    """A network that learns at every start.

    Attributes:
        parameters: of the network, as `perceptron_of` takes them.
    """

    def __init__(
        self, calibration: TrainingLoad, settings: SarsaSettings, *, replayed: int, one_hot: bool
    ) -> None:
        """Initialise the policy by early deadline first.

        Args:
            calibration: load that early deadline first schedules.
            settings: of SARSA; its schema is the paper's.
            replayed: examples of each training at a start.
            one_hot: whether a job's VO is an input for each VO instead of one number.
        """
        self._settings, self._replayed, self._one_hot = settings, replayed, one_hot
        self._width = int(input_count(self._inputs(calibration)))
        rng = np.random.default_rng(settings.seed)
        self._fresh = random_parameters(rng, self._width, settings.hidden)
        self.parameters = self._fresh.copy()
        nothing = Transitions(np.empty((0, self._width)), np.empty(0))
        self._past = self._swept(calibration, rng, nothing, by_deadline=True)[0]
        self._learn_past(rng)

    def run(self, load: TrainingLoad, *, learning: bool) -> FloatArray:
        """Schedule a load: start of each job, seconds, shape [n].

        Args:
            load: what is scheduled.
            learning: explore and learn at every start; otherwise act greedily by what was learned.
        """
        rng = np.random.default_rng([self._settings.seed, 1])
        return self._swept(load, rng, self._past, learning=learning)[1]

    def _inputs(self, load: TrainingLoad) -> GridInputs:
        grid = grid_inputs(load, self._settings.inputs)
        if not self._one_hot:
            return grid
        place = grid.places[load.workload.account]
        vo = (np.eye(VO_PLACES)[place] - 0.5) / 0.5
        return grid._replace(jobs=np.column_stack([grid.jobs[:, :1], vo, grid.jobs[:, 2:]]))

    def _swept(
        self,
        load: TrainingLoad,
        rng: np.random.Generator,
        past: Transitions,
        *,
        by_deadline: bool = False,
        learning: bool = False,
    ) -> tuple[Transitions, FloatArray]:
        settings = self._settings
        sweep = sweep_settings(settings, load, by_deadline=by_deadline)._replace(
            epsilon=float(settings.epsilon) if learning else 0.0,
            rate=float(settings.learning_rate) if learning else 0.0,
            replayed=self._replayed,
        )
        cluster = load.settings.empty_cluster(load.workload)
        network = perceptron_of(self.parameters, self._width)
        fresh = perceptron_of(self._fresh, self._width)
        draws = rng.random((len(load.workload.submit), 2))
        grid = self._inputs(load)
        starts = sarsa_sweep(load.workload, cluster, grid, network, sweep, draws, past, fresh)
        return starts, cluster.start

    def _learn_past(self, rng: np.random.Generator) -> None:
        """Fit the network to SARSA's targets for the starts of early deadline first."""
        settings, past = self._settings, self._past
        network = perceptron_of(self.parameters, self._width)
        for _ in range(_SWEEPS):
            ahead = values_of(network, past.inputs[1:])
            targets = past.reward[:-1] + settings.gamma * ahead
            order = rng.permutation(len(targets))
            descend_through(network, past.inputs[:-1], targets, order, settings.learning_rate)
