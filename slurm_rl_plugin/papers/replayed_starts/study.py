"""`replayed-starts`, a study: starts predicted by replays of the queue along whole logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf
from slurm_rl_plugin.forecasts.scores import scores_of
from slurm_rl_plugin.learning.export.model import import_model
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.papers.replayed_starts.claims import claims_of
from slurm_rl_plugin.papers.replayed_starts.experiment import ForetoldLog, foretold
from slurm_rl_plugin.papers.replayed_starts.sampling import QUICK, Sampling
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.parallel_machines import read_study_logs
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, IntArray

_NO_TRACES = "replayed-starts needs logs of parallel machines: give their folder as TRACES."
#: The model whose predicted run times are drawn, and which orders the queue of "default".
_MODEL = "default"
_HALF_LIFE = 7 * DAY
_SEED = 1
#: The week of UB-HPC as its folder has it, and its machine beside it.
_WEEK, _MACHINE = "workload_week.events.gz", "slurm.conf"


def _logs_in(folder: Path) -> dict[str, PreparedLog]:
    """Those that a folder holds, under their names.

    Raises:
        ConfigurationError: none is there, or the machine cannot be read.
        AccountingLogError: one cannot be read.
    """
    places = [each for each in (folder, folder / "ubhpc") if (each / _WEEK).exists()]
    found = {
        name: each.prepared
        for name, each in read_study_logs(folder, fewest=0 if places else 1).items()
    }
    for place in places[:1]:
        machine = read_machine(place / _MACHINE)
        found["UB-HPC"] = prepare_log(read_log(place / _WEEK)[0], machine=machine)
    return found


def _backfilling_of(log: PreparedLog) -> str:
    """As slurmctld does it where the machine is known by its nodes, else EASY."""
    return "easy" if log.machine is None else AS_SLURM


def _coverage_figure(found: Mapping[tuple[str, str], ForetoldLog]) -> Any:
    """For each log and order the median and the 90 % band over the true wait, hours."""
    logs, orders = (list(dict.fromkeys(each[place] for each in found)) for place in (0, 1))
    figure, axes = plt.subplots(
        len(logs), len(orders), figsize=(4 * len(orders), 3.2 * len(logs)), squeeze=False
    )
    for (log, order), each in found.items():
        axis = axes[logs.index(log)][orders.index(order)]
        wait = np.maximum(each.wait, 1.0) / HOUR
        low, high = (end / HOUR for end in each.forecasts.band(0.9))
        axis.vlines(wait, low, high, color="C0", alpha=0.12)
        axis.plot(
            wait, each.forecasts.median / HOUR, ".", markersize=3, color="C0", label="replays"
        )
        axis.plot(
            wait, np.maximum(each.planned, 1.0) / HOUR, ".", markersize=2, color="C1", label="plan"
        )
        ends = [float(wait.min()), float(wait.max())]
        axis.plot(ends, ends, color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", title=f"{log}, {order}")
        axis.set_xlabel("wait, hours")
        axis.set_ylabel("foretold, hours")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def run(asked: Asked) -> Outcome:
    """Foretell submissions of each log under each order, and score them by what came true."""
    asked.refuse_policy("it takes the run times that the default model predicts")
    if asked.seeds is not None:
        raise ConfigurationError("--seeds is not for replayed-starts: give none.")
    logs = _logs_in(asked.traces_or_refuse(_NO_TRACES))
    network = _foretelling_model(asked)
    sampling = QUICK if asked.quick else Sampling()
    orders = _orders(network)
    steps = len(logs) * len(orders) * (sampling.days + sampling.warm_up) * sampling.jobs
    found: dict[tuple[str, str], ForetoldLog] = {}
    with asked.bar("replaying", steps) as add:
        for log, prepared in logs.items():
            settings = SimulationSettings(
                capacity=prepared.capacity,
                backfilling=_backfilling_of(prepared),
                half_life=_HALF_LIFE,
            )
            for order, of in orders.items():
                found[log, order] = foretold(prepared, of, settings, sampling, seed=_SEED, add=add)
    facts = {f"{log}, {order}": _facts(each) for (log, order), each in found.items()}
    return Outcome(
        claims=[one for (log, order), each in found.items() for one in claims_of(log, order, each)],
        seeds=(),
        more=list(_passages(facts)),
        facts={"forecasts": facts, "sampling": sampling._asdict()},
        drawings={"replayed-starts.png": lambda: _coverage_figure(found)},
    )


def _foretelling_model(asked: Asked) -> QNetwork:
    """The shipped network."""
    network = import_model(asked.shipped(_MODEL))
    if not isinstance(network, QNetwork):
        raise ConfigurationError(f"the model {_MODEL!r} has a memory of its own: install it again.")
    return network


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
