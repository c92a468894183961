"""What the hidden layer of a network is worth: its slowdown over that of its own linear part.

    python -m bench.networks.hidden_part MODEL LOG...

Continuous replay (docs/definitions.md), the last 40 % of each log; all protect as the shipped model
does. `moved` is the linear part with every weight off by a thousandth: a replay is chaotic, and
what that alone changes is no gain.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.networks.replayed_orders import over
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.cli.assembly.candidates import candidate_of
from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    ContinuousRun,
    Replayed,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log

NETWORK, LINEAR, MOVED, FIRST_COME = "network", "linear part", "moved", "fifo"
THOUSANDTH = 1e-3


def network_of(model: str) -> QNetwork:
    """The network of a shipped model or a path.

    Raises:
        SystemExit: it is none of ours.
    """
    network = candidate_of(model).network
    if not isinstance(network, QNetwork):
        raise SystemExit(f"{model} is no network with one hidden layer: give one that we trained.")
    return network


def compared(model: str) -> list[Replayed]:
    """The network, its parts, the shipped model and first come, first served."""
    shipped = network_of(SHIPPED_MODEL)
    network = replace(network_of(model), protection=shipped.protection)
    linear = replace(network, output=np.zeros_like(network.output))
    off = 1.0 + THOUSANDTH * np.random.default_rng(1).choice([-1.0, 1.0], len(linear.linear))
    networks = {
        NETWORK: network,
        LINEAR: linear,
        MOVED: replace(linear, linear=linear.linear * off),
        SHIPPED_MODEL: shipped,
    }
    candidates = [Candidate(name=name, network=each) for name, each in networks.items()]
    candidates.append(Candidate(name=FIRST_COME))
    return [Replayed(name=each.name, candidate=each) for each in candidates]


def replayed(path: Path, model: str, runs: int) -> dict[str, list[ContinuousRun]]:
    """All of them in the same runs of one log."""
    log, _ = read_log(path)
    known = class_known_at_submission(prepare_log(log))
    settings = SimulationSettings(capacity=known.capacity, backfilling="easy")
    return replay_continuously(compared(model), known, settings, ContinuousProtocol(runs=runs))


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model that we trained, or default")
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--runs", type=int, default=4, help="of each log (4)")
    options = parser.parse_args(arguments)
    logs = {path.name: [replayed(path, options.model, options.runs)] for path in options.logs}
    logs["all"] = [runs for each in logs.values() for runs in each]
    for name, chosen in logs.items():
        for mine, base in ((NETWORK, LINEAR), (NETWORK, SHIPPED_MODEL), (MOVED, LINEAR)):
            print(
                json.dumps(
                    {"log": name, "of": mine, "over": base, **over(chosen, mine, base, FIRST_COME)}
                )
            )


if __name__ == "__main__":
    main()
