"""A Q-network laid out for the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.reactive_grid import account_places
from slurm_rl_plugin.features.site import SITE, static_job_features
from slurm_rl_plugin.policies.network import ACTIVATIONS, QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.history_part import NO_HISTORY, HistoryPart, history_part
from slurm_rl_plugin.simulator.scoring.reactive_grid import NO_GRID, grid_code, grid_job_table
from slurm_rl_plugin.simulator.scoring.site_queue import no_arrivals
from slurm_rl_plugin.units import FloatArray, IntArray


class CompiledNetwork(NamedTuple):
    """A QNetwork with its scaler folded in and everything that never changes summed up.

    Attributes:
        queue_weights: shape [Fq, hidden].
        dynamic_weights: of what changes while a job waits, shape [dynamic features, hidden]; of
            length 0 where that weighs nothing.
        dynamic_linear: the same into the score, shape [dynamic features].
        output: shape [hidden].
        static_hidden: static features, bias and scaler of each job, shape [n, hidden].
        static_score: linear part of the static features of each job, shape [n].
        activation: index into ACTIVATIONS, shape [1].
        reserve_weights: shape [Fq]; all 0 for a network that holds nothing.
        reserve_bias: shape [1].
        arrived: recent arrivals, as `no_arrivals` makes them; changes while the network scores.
        longest: the longest wait known lately, and when, seconds; shape [2]; changes.
        goals: how much waits and shares count (`domain.goals`), shape [2].
        history: what past runs add; changes while the network scores.
        grid: code of a schema with the papers' state, NO_GRID for `site`, shape [1].
        places: VO place of each account in the papers' schemas, shape [accounts].
    """

    queue_weights: FloatArray
    dynamic_weights: FloatArray
    dynamic_linear: FloatArray
    output: FloatArray
    static_hidden: FloatArray
    static_score: FloatArray
    activation: IntArray
    reserve_weights: FloatArray
    reserve_bias: FloatArray
    arrived: FloatArray
    longest: FloatArray
    goals: FloatArray
    history: HistoryPart
    grid: IntArray
    places: IntArray

    def copy(self) -> CompiledNetwork:
        """The same with a memory of its own of arrivals, waits and past runs."""
        return self._replace(
            arrived=self.arrived.copy(), longest=self.longest.copy(), history=self.history.copy()
        )

    def rows(self, count: int) -> CompiledNetwork:
        """A copy with room for `count` jobs, to be filled by `write`."""
        return self.copy()._replace(
            static_hidden=np.zeros((count, self.static_hidden.shape[1])),
            static_score=np.zeros(count),
        )

    def write(self, places: slice, jobs: IntArray, known: CompiledNetwork) -> None:
        """Fill rows of `rows` with what was compiled for these numbers of `known`."""
        self.static_hidden[places] = known.static_hidden[jobs]
        self.static_score[places] = known.static_score[jobs]


def compile_network(
    network: QNetwork, workload: Workload, goals: Goals = AS_TRAINED
) -> CompiledNetwork:
    """Fold the scaler into the weights and the static features of a workload into offsets.

    Args:
        network: of the `site` schema or one of the papers'.
        workload: the jobs.
        goals: what the site wants; for `site` only.

    Raises:
        SimulationError: the network was made for another schema.
    """
    grid = grid_code(network.schema)
    if grid == NO_GRID and network.schema != SITE:
        raise SimulationError(
            "only networks of the site and reactive-grid schemas can be simulated."
        )
    job_weights = network.job_weights / network.job_scale[:, None]
    linear = network.linear / network.job_scale
    queue_weights = network.queue_weights / network.queue_scale[:, None]
    bias = network.bias - network.queue_mean @ queue_weights - network.job_mean @ job_weights
    score = network.output_bias - float(network.job_mean @ linear)
    hold = np.zeros_like(network.queue_scale)
    if network.reserve_weights is not None:
        hold = network.reserve_weights / network.queue_scale
    if grid == NO_GRID:
        static = np.column_stack(
            static_job_features(workload, workload.time_limit, goals.wide_jobs, goals.interactive)
        )
    else:
        static = grid_job_table(workload)
    known = static.shape[1]
    last = known + len(network.schema.dynamic_jobs)
    past_weights, past_linear = job_weights[last:].copy(), linear[last:].copy()
    past_weights[:1] *= goals.short_jobs
    past_linear[:1] *= goals.short_jobs
    tells = network.looks_at_past
    changes = bool(job_weights[known:last].any() or linear[known:last].any())
    changing = slice(known, last if changes else known)
    return CompiledNetwork(
        queue_weights=np.ascontiguousarray(queue_weights),
        dynamic_weights=np.ascontiguousarray(job_weights[changing]),
        dynamic_linear=np.ascontiguousarray(linear[changing]),
        output=np.ascontiguousarray(network.output),
        static_hidden=static @ job_weights[:known] + bias,
        static_score=static @ linear[:known] + score,
        activation=np.array([ACTIVATIONS.index(network.activation)], dtype=np.int64),
        reserve_weights=hold,
        reserve_bias=np.array([network.reserve_bias - float(network.queue_mean @ hold)]),
        arrived=no_arrivals(workload) if _queue_tells(network) else np.empty(0),
        longest=np.array([0.0, -np.inf]),
        goals=np.array([goals.longest_wait, goals.points_a_doubling]),
        history=history_part(workload if tells else None, past_weights, past_linear),
        grid=np.array([grid], dtype=np.int64),
        places=account_places(workload.shares),
    )


def _queue_tells(network: QNetwork) -> bool:
    """Whether the queue features can change an order or a reserve."""
    return bool(network.output.any()) or network.reserve_weights is not None


def no_network() -> CompiledNetwork:
    """What stands in for a network where a rule scores."""
    empty, table = np.empty(0), np.empty((0, 0))
    return CompiledNetwork(
        queue_weights=table,
        dynamic_weights=table,
        dynamic_linear=empty,
        output=empty,
        static_hidden=table,
        static_score=empty,
        activation=np.zeros(1, dtype=np.int64),
        reserve_weights=empty,
        reserve_bias=np.zeros(1),
        arrived=empty,
        longest=empty,
        goals=empty,
        history=NO_HISTORY,
        grid=np.zeros(1, dtype=np.int64),
        places=np.zeros(0, dtype=np.int64),
    )
