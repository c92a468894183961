"""The arrays by which a compiled network looks at past runs, and their first state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    ROW_FACTS,
    USER_FACTS,
    RunTimePrediction,
    request_facts,
)
from slurm_rl_plugin.features.history.run_spread import BOUNDS, PARTS, SHARES, nominal_shares
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.kernel.workload_history import (
    ENDED_EVENT,
    NO_PAST,
    WorkloadHistory,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Features of jobs alike, the last ones of the schema.
_ALIKE = 2
#: Of a template whose part was never computed.
_NEVER = np.iinfo(np.int64).min
_NO_SPREAD = np.empty((0, KNOWN_FACTS))


class HistoryPart(NamedTuple):
    """The part of a network that looks at past runs, and what it has seen.

    Attributes:
        prediction: weights of the run-time prediction, shape [PREDICTED, KNOWN_FACTS].
        weights: of the prediction's features into hidden units, shape [features, hidden].
        linear: of the same into the score, shape [features].
        alike_weights: of the features of jobs alike, shape [_ALIKE, hidden].
        alike_linear: shape [_ALIKE].
        asked: what the request adds to each output of the prediction, shape [templates, PREDICTED].
        processors: of the jobs of each template, shape [templates].
        speaks: whether past runs spoke for each template when its part was computed, [templates].
        past: rows of history.
        user_facts: what the rows of users tell, shape [users, ROW_FACTS].
        user_changed: whose row has changed since, shape [users].
        template_facts: the same for templates, shape [templates, ROW_FACTS].
        template_changed: shape [templates].
        seen: started jobs that have outlived each of SHORT_RUN_TIMES or are known not to, ended
            jobs, then started and ended jobs counted in `running`; shape [ENDED_EVENT + 3].
        version: how often each user's row has changed, last the site's, shape [users + 1].
        stamp: version at which each template's part was computed, shape [templates].
        part: what the prediction adds to hidden units and, last, to the score, shape [templates,
            hidden + 1].
        pending: pending jobs of each template, shape [templates].
        running: running jobs of each template, shape [templates].
        spread: weights of the log odds below each of BOUNDS, shape [len(BOUNDS), KNOWN_FACTS]; of
            length 0 where nothing asks for quantiles.
        asked_spread: what the request adds to them, shape [templates, len(BOUNDS)].
        log_odds: space, shape [len(BOUNDS)].
        shares: predicted of runs below each number of the grid, shape [templates, SHARES].
        told: quantiles of each job as it started, seconds, NaN before, shape [n, len(PARTS)].
        asked_shares: shares that are asked for (`run_spread.learn_shares`), shape [len(PARTS)].
    """

    prediction: FloatArray
    weights: FloatArray
    linear: FloatArray
    alike_weights: FloatArray
    alike_linear: FloatArray
    asked: FloatArray
    processors: FloatArray
    speaks: BoolArray
    past: WorkloadHistory
    user_facts: FloatArray
    user_changed: BoolArray
    template_facts: FloatArray
    template_changed: BoolArray
    seen: IntArray
    version: IntArray
    stamp: IntArray
    part: FloatArray
    pending: IntArray
    running: IntArray
    spread: FloatArray
    asked_spread: FloatArray
    log_odds: FloatArray
    shares: FloatArray
    told: FloatArray
    asked_shares: FloatArray

    def copy(self) -> HistoryPart:
        """The same in arrays of its own, to be changed."""
        return self._replace(**{name: column.copy() for name, column in self._asdict().items()})


def history_part(
    prediction: RunTimePrediction | None,
    workload: Workload | None,
    weights: FloatArray,
    linear: FloatArray,
    *,
    quantiles: bool = False,
) -> HistoryPart:
    """The part of a network that looks at past runs.

    Args:
        prediction: None for a network that does not look at them.
        workload: the jobs; its rows of history are copied.
        weights: of the history features into hidden units, shape [history features, hidden].
        linear: the same into the score, shape [history features].
        quantiles: whether the prediction's spread is asked for, where it has one.

    Raises:
        SimulationError: history features count, but nothing predicts run times.
    """
    if prediction is None or workload is None:
        if weights.any() or linear.any():
            raise SimulationError("a network that looks at past runs needs a run-time prediction.")
        nothing = np.zeros((PREDICTED, KNOWN_FACTS))
        none = np.empty((0, PREDICTED))
        return _part_of(nothing, NO_PAST, none, np.empty(0), weights, linear, _NO_SPREAD)
    past = workload.past
    if len(past.template) != len(workload.submit):
        raise SimulationError("a network that looks at past runs needs to know users.")
    processors = np.ones(len(past.templates))
    processors[past.template] = workload.processors
    request = np.column_stack(request_facts(past.asked, processors))
    asked = request @ prediction.weights[:, 1:USER_FACTS].T
    spread = prediction.spread if quantiles and prediction.spread is not None else _NO_SPREAD
    part = _part_of(prediction.weights, past.copy(), asked, processors, weights, linear, spread)
    return part._replace(
        asked_spread=request @ spread[:, 1:USER_FACTS].T,
        told=np.full((len(workload.submit) if len(spread) else 0, len(PARTS)), np.nan),
    )


def _part_of(
    prediction: FloatArray,
    past: WorkloadHistory,
    asked: FloatArray,
    processors: FloatArray,
    weights: FloatArray,
    linear: FloatArray,
    spread: FloatArray,
) -> HistoryPart:
    users, templates = len(past.users), len(past.templates)
    split = max(len(linear) - _ALIKE, 0)
    return HistoryPart(
        prediction=np.ascontiguousarray(prediction),
        weights=np.ascontiguousarray(weights[:split]),
        linear=np.ascontiguousarray(linear[:split]),
        alike_weights=np.ascontiguousarray(weights[split:]),
        alike_linear=np.ascontiguousarray(linear[split:]),
        asked=asked,
        processors=processors,
        speaks=np.ones(templates, dtype=np.bool_),
        past=past,
        user_facts=np.zeros((users, ROW_FACTS)),
        user_changed=np.ones(users, dtype=np.bool_),
        template_facts=np.zeros((templates, ROW_FACTS)),
        template_changed=np.ones(templates, dtype=np.bool_),
        seen=np.zeros(ENDED_EVENT + 3, dtype=np.int64),
        version=np.zeros(users + 1, dtype=np.int64),
        stamp=np.full(templates, _NEVER, dtype=np.int64),
        part=np.zeros((templates, weights.shape[1] + 1)),
        pending=np.zeros(templates, dtype=np.int64),
        running=np.zeros(templates, dtype=np.int64),
        spread=np.ascontiguousarray(spread),
        asked_spread=np.empty((templates, len(spread))),
        log_odds=np.zeros(len(BOUNDS)),
        shares=np.zeros((templates if len(spread) else 0, SHARES)),
        told=np.empty((0, len(PARTS))),
        asked_shares=nominal_shares(),
    )


NO_HISTORY = history_part(None, None, np.empty((0, 0)), np.empty(0))
