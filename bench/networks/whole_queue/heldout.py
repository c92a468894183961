"""Replays of the last 40 %, kept run by run, so that a trial can be interrupted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.networks.replayed_orders import Order, TrialLog
from bench.networks.whole_queue.loop import WholeQueueOrder
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.evaluation.continuous import ContinuousRun
from slurm_rl_plugin.learning.evaluation.schedule_waits import ScheduleWaits


def _digest(order: Order) -> str:
    """Tells one network from another; the orders that stand in the package are told by name."""
    if not isinstance(order, WholeQueueOrder):
        return ""
    return hashlib.sha256(order.network.numbers.tobytes()).hexdigest()[:16]


def _as_json(run: ContinuousRun, decisions: int) -> dict[str, Any]:
    return {
        "waits": asdict(run.waits),
        "slowdowns": run.slowdowns.tolist(),
        "decisions": decisions,
    }


def _run_of(kept: Mapping[str, Any]) -> ContinuousRun:
    return ContinuousRun(
        waits=ScheduleWaits(**kept["waits"]), slowdowns=np.array(kept["slowdowns"])
    )


def heldout_runs(
    logs: Sequence[TrialLog], orders: Mapping[str, Order], runs: int, folder: Path
) -> tuple[dict[str, dict[str, list[ContinuousRun]]], int]:
    """The runs of every order on each log, and the decisions that they took.

    The first run of every log comes before the second of any, so that a few are soon there; what
    is there counts for a longer trial too.
    """
    kept = {}
    for name, order in orders.items():
        key = {"logs": [log.name for log in logs], "numbers": _digest(order)}
        kept[name] = Checkpoint(folder / f"heldout-{name.replace(' ', '-')}", key)
    done = {name: iter(list(each.steps)) for name, each in kept.items()}
    found: dict[str, dict[str, list[ContinuousRun]]] = {
        log.name: {name: [] for name in orders} for log in logs
    }
    decisions, replayed = 0, 0
    with progress_bar("last 40 %", len(logs) * runs * len(orders), "slowdown") as progress:
        for seed, log, name in product(range(1, runs + 1), logs, orders):
            step = next(done[name], None)
            if step is None:
                step = _as_json(*log.replayed(orders[name], log.drawn(seed, heldout=True)))
                kept[name].add(step)
            run = _run_of(step)
            found[log.name][name].append(run)
            decisions += step["decisions"]
            replayed += 1
            progress(replayed, run.waits.bounded_slowdown)
    return found, decisions
