"""`slurm-rl benchmark`: measure the speed of decisions."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.port import HIGHEST_PRIORITY
from slurm_rl_plugin.cli.argument_types import add_seed_option, at_least_one
from slurm_rl_plugin.cli.progress import said_if_long
from slurm_rl_plugin.cli.tables import answer, print_table
from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.hook.order.queue_plan import LOWEST_PRIORITY, order_changes
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.services.drawn_queue import past_runs, random_snapshot
from slurm_rl_plugin.services.hook import load_policy
from slurm_rl_plugin.units import IntArray

#: Ended jobs before the first decision of a policy that learns from runs.
PAST_RUNS = 100_000
#: Measured repetitions of a drawn queue and of an order.
_DRAWS, _ORDERS = 3, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, and on how many jobs."""
    what = "time of a decision and of its order"
    parser.add_argument("what", choices=["hook"], help=what)
    parser.add_argument("--jobs", type=at_least_one, default=10_000, help="number of pending jobs")
    parser.add_argument(
        "--policy",
        default=SHIPPED_MODEL,
        metavar="RULE|MODEL",
        help=f"policy that decides (default: {SHIPPED_MODEL})",
    )
    parser.add_argument(
        "--repeats", type=at_least_one, default=50, help="measured repetitions after a first one"
    )
    add_seed_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Measure, and print one row for each figure; 1 if the hook sends more writes than needed."""
    with said_if_long("measuring"):
        document = _hook(options)
    rows = [[key, value] for key, value in _flat(document).items()]
    answer(options, document, lambda: print_table(["MEASURE", "VALUE"], rows))
    writes, fewest = document["writes"], document["minimum_writes"]
    if writes == fewest:
        return 0
    print(
        f"slurm-rl benchmark: the hook sends {writes:,} writes, but {fewest:,} are enough: report "
        "this with --jobs, --policy and --seed.",
        file=sys.stderr,
    )
    return 1


def _flat(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = f"{value:.6f}" if isinstance(value, float) else value
    return flat


def _seconds(work: Callable[[], Any], repeats: int) -> list[float]:
    """Of each repetition after a first run."""
    work()  # fills caches and loads lazy imports
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return times


def _hook(options: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(options.seed)
    loaded = load_policy(options.policy)
    drawn = _seconds(lambda: random_snapshot(options.jobs, rng), _DRAWS)
    snapshot = random_snapshot(options.jobs, rng)
    past = snapshot
    if loaded.learns_from_runs:
        past = replace(snapshot, ended=past_runs(PAST_RUNS, rng))
    begin = time.perf_counter()
    first = loaded.policy.decide(past)
    return {
        "jobs": options.jobs,
        "snapshot_seconds": float(np.median(drawn)),
        "first_decide_seconds": time.perf_counter() - begin,
        **_decisions(loaded.policy, snapshot, first, options.repeats),
    }


def _decisions(
    policy: Policy, snapshot: QueueSnapshot, first: Decision, repeats: int
) -> dict[str, Any]:
    """Seconds of later decisions and of the order, and the number of its writes."""
    decide = _seconds(
        lambda: np.argsort(-policy.decide(snapshot, first.memory).scores, kind="stable"), repeats
    )
    priority = snapshot.pending.total_priority[np.argsort(-first.scores, kind="stable")]
    # the floor of any decision: running the graph, and sorting
    floor, scores = {}, policy.decide(snapshot, first.memory).scores
    if isinstance(policy, QNetworkPolicy):
        jobs = policy.job_features(snapshot, first.memory)
        runs = policy.scores_of(snapshot, first.memory, repeat(jobs))
        floor["inference"] = float(np.median(_seconds(lambda: next(runs), repeats)))
    sort = _seconds(lambda: np.argsort(-scores, kind="stable"), repeats)
    order = _seconds(lambda: order_changes(priority), _ORDERS)
    return {
        "decide_seconds": {
            "median": float(np.median(decide)),
            "p99": float(np.quantile(decide, 0.99)),
        },
        "floor_seconds": {**floor, "argsort": float(np.median(sort))},
        "order_seconds": float(np.median(order)),
        # if one cycle may send all of them, and the queue has room
        "writes": len(order_changes(priority).place),
        "minimum_writes": fewest_writes(priority),
    }


def fewest_writes(priority: IntArray) -> int:
    """The minimum number of jobs that must change their priority for a falling order.

    An independent check of `order_changes`. Two jobs can both keep their priority if whole numbers
    for the jobs between fit between them; `room` is the rest. The longest sequence of jobs along
    which `room` does not rise is found with a Fenwick tree, in O(n log n).

    Args:
        priority: in the wanted order, first to start first; shape [n].
    """
    count = len(priority)
    behind = np.arange(count - 1, -1, -1)
    room = priority - behind
    possible = (room >= LOWEST_PRIORITY) & (room <= HIGHEST_PRIORITY - (count - 1))
    distinct, rank = np.unique(-room[possible], return_inverse=True)
    best = [0] * (len(distinct) + 1)
    kept = 0
    for own in (rank + 1).tolist():
        longest, place = 1, own
        while place:
            longest = max(longest, best[place] + 1)
            place &= place - 1
        kept, place = max(kept, longest), own
        while place < len(best):
            best[place] = max(best[place], longest)
            place += place & -place
    return count - kept
