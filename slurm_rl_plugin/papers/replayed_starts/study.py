"""`replayed-starts`: starts foretold by replays of the queue along whole logs, as a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf
from slurm_rl_plugin.forecasts.scores import scores_of
from slurm_rl_plugin.learning.export.model import import_model
from slurm_rl_plugin.papers.replayed_starts.claims import claims_of
from slurm_rl_plugin.papers.replayed_starts.experiment import ForetoldLog, foretold
from slurm_rl_plugin.papers.replayed_starts.figures import coverage_figure
from slurm_rl_plugin.papers.replayed_starts.logs import backfilling_of, logs_in
from slurm_rl_plugin.papers.replayed_starts.sampling import QUICK, Sampling
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

_NO_TRACES = "replayed-starts needs logs of parallel machines: give their folder as TRACES."
#: The model whose predicted run times are drawn, and which orders the queue of "default".
_MODEL = "default"
_HALF_LIFE = 7 * DAY
_SEED = 1


def run(asked: Asked) -> Outcome:
    """Foretell submissions of each log under each order, and score them by what came true."""
    asked.refuse_policy("it takes the run times that the default model predicts")
    if asked.seeds is not None:
        raise ConfigurationError("--seeds is not for replayed-starts: give none.")
    logs = logs_in(asked.traces_or_refuse(_NO_TRACES))
    network, spread = _foretelling_model(asked)
    sampling = QUICK if asked.quick else Sampling()
    orders = _orders(network)
    steps = len(logs) * len(orders) * (sampling.days + sampling.warm_up) * sampling.jobs
    found: dict[tuple[str, str], ForetoldLog] = {}
    with asked.bar("replaying", steps) as add:
        for log, prepared in logs.items():
            settings = SimulationSettings(
                capacity=prepared.capacity,
                backfilling=backfilling_of(prepared),
                half_life=_HALF_LIFE,
            )
            for order, of in orders.items():
                found[log, order] = foretold(
                    prepared, spread, of, settings, sampling, seed=_SEED, add=add
                )
    facts = {f"{log}, {order}": _facts(each) for (log, order), each in found.items()}
    return Outcome(
        claims=[one for (log, order), each in found.items() for one in claims_of(log, order, each)],
        seeds=(),
        more=list(_passages(facts)),
        facts={"forecasts": facts, "sampling": sampling._asdict()},
        drawings={"replayed-starts.png": lambda: coverage_figure(found)},
    )


def _foretelling_model(asked: Asked) -> tuple[QNetwork, FloatArray]:
    """The shipped network, and its weights of quantiles of run times."""
    network = import_model(asked.shipped(_MODEL))
    prediction = network.prediction if isinstance(network, QNetwork) else None
    if not isinstance(network, QNetwork) or prediction is None or prediction.spread is None:
        raise ConfigurationError(f"the model {_MODEL!r} foretells no run times: train another.")
    return network, prediction.spread


def _orders(network: QNetwork) -> dict[str, OrderOf]:
    """What a site may have: first come, first served; multifactor; ours, in active mode."""

    def first_come(workload: Workload, jobs: IntArray) -> QueueOrder:  # noqa: ARG001
        return QueueOrder(scores=-workload.submit)

    def multifactor(workload: Workload, jobs: IntArray) -> QueueOrder:  # noqa: ARG001
        return QueueOrder(rule="multifactor")

    def learned(workload: Workload, jobs: IntArray) -> QueueOrder:  # noqa: ARG001
        return QueueOrder(network=network)

    return {"fifo": first_come, "multifactor": multifactor, _MODEL: learned}


def _facts(found: ForetoldLog) -> dict[str, Any]:
    """Scores as given, before bands were set, and of the plan by limits, which has no band."""
    planned = Forecasts.of_draws(found.planned[:, None])
    return {
        "days": len(np.unique(found.day)),
        "replays": scores_of(found.forecasts, found.wait).as_json(),
        "before bands were set": scores_of(found.plain, found.wait).as_json(),
        "plan by limits": scores_of(planned, found.wait).as_json(),
    }


_COLUMNS = {
    "median_error": "MEDIAN",
    "square_error": "SQUARE",
    "within_2": "X2",
    "within_3": "X3",
    "coverage_90": "IN-90%",
    "width_90": "WIDTH",
    "pinball": "PINBALL",
}


def _passages(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str | TextTable]:
    for name, each in facts.items():
        yield f"\n{name}: jobs that waited, {each['replays']['jobs']} of {each['days']} days"
        rows = [
            [source, *(scores[column] for column in _COLUMNS)]
            for source, scores in each.items()
            if isinstance(scores, dict)
        ]
        yield TextTable(["FORECAST", *_COLUMNS.values()], rows)
