"""How much any order could gain by knowing more: that by true run times over the shipped model's.

    python -m bench.networks.clairvoyant_order LOG...

Continuous replay (docs/definitions.md), the last 40 % of each log, all behind the shipped model's
protection, the plan by requests: the order alone knows. `clairvoyant` is that of KNOWING with the
least slowdown on the first 60 % of all logs together.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench.networks.hidden_part import network_of
from bench.networks.replayed_orders import Order, Runs, TrialLog, over, ratio, replays
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.learning.evaluation.continuous import ContinuousRun
from slurm_rl_plugin.policies.protection import Protection
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    simulate_network,
    simulate_order,
)

CLAIRVOYANT, FIRST_COME = "clairvoyant", "fifo"
#: Shorter runs count as so many seconds in bounded slowdown.
COUNTED = 10.0
#: Powers of the true run time and of the processors by which a job goes behind others. The first
#: is weighted shortest processing time for slowdown, whose weight is the inverse of the run time.
KNOWING: Mapping[str, tuple[float, float]] = {
    "weighted shortest": (2.0, 1.0),
    "between": (2.0, 0.5),
    "smallest area": (1.0, 1.0),
    "shortest": (1.0, 0.0),
}


def knowing(
    powers: tuple[float, float],
    protection: Protection | None,
    workload: Workload,
    settings: SimulationSettings,
) -> SimulatedSchedule:
    """The schedule of an order by true run times."""
    counted = np.maximum(workload.run_time, COUNTED)
    behind = powers[0] * np.log(counted) + powers[1] * np.log(workload.processors)
    return simulate_order(workload, QueueOrder(scores=-behind, protection=protection), settings)


def orders() -> dict[str, Order]:
    """First come, first served, the shipped model, and those that know."""
    shipped = network_of(SHIPPED_MODEL)

    def by_model(workload: Workload, settings: SimulationSettings) -> SimulatedSchedule:
        return simulate_network(workload, shipped, settings)

    def first_come(workload: Workload, settings: SimulationSettings) -> SimulatedSchedule:
        return simulate_order(workload, QueueOrder(scores=-workload.submit), settings)

    knows = {name: partial(knowing, powers, shipped.protection) for name, powers in KNOWING.items()}
    return {FIRST_COME: first_come, SHIPPED_MODEL: by_model, **knows}


def measured(logs: Sequence[TrialLog], runs: int, *, heldout: bool) -> dict[str, Runs]:
    """The runs of every order on each log."""
    found: dict[str, Runs] = {}
    tried = orders()
    part = "last 40 %" if heldout else "first 60 %"
    with progress_bar(part, len(logs) * runs * len(tried), "slowdown") as progress:
        done = 0
        for log in logs:
            of_log: dict[str, list[ContinuousRun]] = {name: [] for name in tried}
            for name, run, _ in replays(log, tried, range(1, runs + 1), heldout=heldout):
                of_log[name].append(run)
                done += 1
                progress(done, run.waits.bounded_slowdown)
            found[log.name] = of_log
    return found


def best_knowing(past: Sequence[Runs]) -> str:
    """The order of KNOWING with the least slowdown over the shipped model's."""
    return min(
        KNOWING,
        key=lambda name: sum(
            np.log(ratio(runs[name], runs[SHIPPED_MODEL], "bounded_slowdown")) for runs in past
        ),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--runs", type=int, default=4, help="of each log (4)")
    options = parser.parse_args(arguments)
    logs = [TrialLog.read(path) for path in options.logs]
    best = best_knowing(list(measured(logs, options.runs, heldout=False).values()))
    found = measured(logs, options.runs, heldout=True)
    parts = {**{name: [runs] for name, runs in found.items()}, "all": list(found.values())}
    for name, chosen in parts.items():
        for order in KNOWING:
            told = over(chosen, order, SHIPPED_MODEL, FIRST_COME)
            kind = CLAIRVOYANT if order == best else "knowing"
            print(json.dumps({"log": name, kind: order, "over": SHIPPED_MODEL, **told}))


if __name__ == "__main__":
    main()
