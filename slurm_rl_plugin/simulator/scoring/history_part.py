"""The arrays by which a compiled network looks at past runs, and their first state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.history.run_history import BOUNDS
from slurm_rl_plugin.features.history.run_prediction import PARTS, SHARES, nominal_shares
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.kernel.workload_history import (
    ENDED_EVENT,
    NO_PAST,
    WorkloadHistory,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Features of jobs alike, the last ones of the schema.
_ALIKE = 1
#: Of a template whose part was never computed.
_NEVER = np.iinfo(np.int64).min


class HistoryPart(NamedTuple):
    """The part of a network that looks at past runs, and what it has seen.

    Attributes:
        weights: of the prediction's features into hidden units, shape [features, hidden].
        linear: of the same into the score, shape [features].
        alike_weights: of the features of jobs alike, shape [_ALIKE, hidden].
        alike_linear: shape [_ALIKE].
        speaks: whether past runs spoke for each template when its part was computed, [templates].
        past: rows of history.
        seen: started jobs that have outlived each of BOUNDS or are known not to, ended jobs, then
            started and ended jobs counted in `running`; shape [ENDED_EVENT + 3].
        since: what runs outlived before this time is in the rows already, seconds, shape [1].
        version: how often the row of each user, and of each class of requests, has changed, shape
            [users] and [REQUEST_CLASSES].
        site_version: see `version`.
        stamp: versions at which each template's part was computed, shape [templates, 2].
        part: what the prediction adds to hidden units and, last, to the score, shape [templates,
            hidden + 1].
        pending: pending jobs of each template, shape [templates].
        running: running jobs of each template, shape [templates].
        hazards: as each template's part was computed, shape [templates, len(BOUNDS)].
        shares: of runs below each number of the grid, shape [SHARES]; of length 0 where nothing
            asks for quantiles.
        told: quantiles of each job as it started, seconds, NaN before, shape [n, len(PARTS)].
        asked_shares: shares that are asked for (`run_prediction.learn_shares`), [len(PARTS)].
    """

    weights: FloatArray
    linear: FloatArray
    alike_weights: FloatArray
    alike_linear: FloatArray
    speaks: BoolArray
    past: WorkloadHistory
    seen: IntArray
    since: FloatArray
    version: IntArray
    site_version: IntArray
    stamp: IntArray
    part: FloatArray
    pending: IntArray
    running: IntArray
    hazards: FloatArray
    shares: FloatArray
    told: FloatArray
    asked_shares: FloatArray

    def copy(self) -> HistoryPart:
        """The same in arrays of its own, to be changed."""
        return self._replace(**{name: column.copy() for name, column in self._asdict().items()})


def history_part(
    workload: Workload | None,
    weights: FloatArray,
    linear: FloatArray,
    *,
    quantiles: bool = False,
) -> HistoryPart:
    """The part of a network that looks at past runs.

    Args:
        workload: the jobs; its rows of history are copied. None for a network that looks at none.
        weights: of the history features into hidden units, shape [history features, hidden].
        linear: the same into the score, shape [history features].
        quantiles: whether quantiles of run times are asked for.

    Raises:
        SimulationError: the workload does not tell users apart.
    """
    past = NO_PAST if workload is None else workload.past
    if workload is not None and len(past.template) != len(workload.submit):
        raise SimulationError("a network that looks at past runs needs to know users.")
    templates = len(past.asked)
    split = max(len(linear) - _ALIKE, 0)
    rows = len(past.template) if quantiles else 0
    return HistoryPart(
        weights=np.ascontiguousarray(weights[:split]),
        linear=np.ascontiguousarray(linear[:split]),
        alike_weights=np.ascontiguousarray(weights[split:]),
        alike_linear=np.ascontiguousarray(linear[split:]),
        speaks=np.ones(templates, dtype=np.bool_),
        past=past.copy(),
        seen=np.zeros(ENDED_EVENT + 3, dtype=np.int64),
        since=np.array([-np.inf]),
        version=np.zeros(len(past.users), dtype=np.int64),
        site_version=np.zeros(len(past.site), dtype=np.int64),
        stamp=np.full((templates, 2), _NEVER, dtype=np.int64),
        part=np.zeros((templates, weights.shape[1] + 1)),
        pending=np.zeros(templates, dtype=np.int64),
        running=np.zeros(templates, dtype=np.int64),
        hazards=np.zeros((templates, len(BOUNDS))),
        shares=np.zeros(SHARES if quantiles else 0),
        told=np.full((rows, len(PARTS)), np.nan),
        asked_shares=nominal_shares(),
    )


NO_HISTORY = history_part(None, np.empty((0, 0)), np.empty(0))
