"""Whether a network that sees the whole queue is worth more than its own linear part.

    python -m bench.networks.whole_queue LOG... --keep FOLDER

On the first 60 % of the logs it imitates the order by true run times, and from there, or from the
shipped model where that is better on their last quarter, it is searched by continuous replays; so
is its linear part alone. Then all are replayed on the last 40 %, which nothing saw. What is done
is kept in the folder: a trial that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from bench.networks.clairvoyant_order import FIRST_COME, orders
from bench.networks.hidden_part import network_of
from bench.networks.replayed_orders import Order, TrialLog, over
from bench.networks.whole_queue.heldout import heldout_runs
from bench.networks.whole_queue.imitation import (
    Choices,
    agreement,
    first_network,
    imitate,
    loss_of,
    together,
)
from bench.networks.whole_queue.loop import WholeQueueOrder, no_looks
from bench.networks.whole_queue.network import QueueNetwork
from bench.networks.whole_queue.search import (
    TRAINED,
    Searched,
    SearchSettings,
    objective,
    search,
    validation_pieces,
)
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL

#: Decisions from one look that is kept to the next; looks of a log at most.
EVERY, MOST = 6, 100_000
#: Of the processors of a job that goes first, in what the other one of a pair pays.
POWER = 1.0
#: What is replayed on the last 40 %: as searched, its linear part, the linear part searched alone.
WHOLE, OWN_LINEAR, LINEAR_ALONE = "whole queue", "its linear part", "linear, searched alone"
IMITATED, IMITATED_LINEAR = "imitation", "imitation's linear part"
COMPARISONS = (
    (WHOLE, OWN_LINEAR),
    (WHOLE, LINEAR_ALONE),
    (WHOLE, SHIPPED_MODEL),
    (IMITATED, IMITATED_LINEAR),
    (IMITATED, SHIPPED_MODEL),
    (LINEAR_ALONE, SHIPPED_MODEL),
)


def choices_of(logs: Sequence[TrialLog], linear: QNetwork) -> tuple[Choices, Choices]:
    """What true run times say at looks of the shipped model: of the training part, of the rest."""
    training, rest = [], []
    shipped = WholeQueueOrder(network=first_network(0), linear=linear)
    for log in logs:
        workload, kept = log.past.workload(RequestedLimit()), no_looks(MOST, EVERY)
        shipped.watched(workload, log.settings, kept)
        early = kept.jobs[: kept.filled[0], 0] < TRAINED * len(workload.submit)
        choices = Choices.of(kept, workload, POWER)
        training.append(choices[early])
        rest.append(choices[~early])
    return together(training), together(rest)


def imitated(
    logs: Sequence[TrialLog], linear: QNetwork, options: argparse.Namespace, *, whole: bool
) -> QueueNetwork:
    """The imitation, kept; prints what it agrees in with the order by true run times."""
    kept = options.keep / f"imitated-{'whole' if whole else 'linear'}-{options.seed}.json"
    if not kept.exists():
        training, rest = choices_of(logs, linear)
        with progress_bar("imitation", options.steps, "loss") as progress:
            network = imitate(
                training,
                rest,
                steps=options.steps,
                seed=options.seed,
                whole=whole,
                progress=progress,
            )
        told = {
            "imitated": WHOLE if whole else LINEAR_ALONE,
            "looks": len(training.context),
            "loss": [loss_of(network, each) for each in (training, rest)],
            "agreement": [agreement(network, each) for each in (training, rest)],
            "agreement of the shipped model": [
                agreement(first_network(0), each) for each in (training, rest)
            ],
        }
        kept.write_text(json.dumps({"numbers": network.numbers.tolist(), "told": told}))
    content = json.loads(kept.read_text())
    print(json.dumps(content["told"]))
    return QueueNetwork.of(np.array(content["numbers"]))


def searched(
    logs: Sequence[TrialLog],
    linear: QNetwork,
    start: QueueNetwork,
    options: argparse.Namespace,
    *,
    whole: bool,
) -> Searched:
    """The search from the better of two starts; prints its curve."""
    pieces = validation_pieces(logs)
    shipped = first_network(options.seed)
    values = [
        objective(WholeQueueOrder(network=each, linear=linear), pieces)[0]
        for each in (start, shipped)
    ]
    settings = SearchSettings(
        generations=options.generations,
        population=options.population,
        seed=options.seed,
        whole=whole,
    )
    name = WHOLE if whole else LINEAR_ALONE
    with progress_bar(f"search, {name}", options.generations, "least log slowdown") as progress:
        found = search(
            logs,
            linear,
            start if values[0] < values[1] else shipped,
            settings,
            checkpoint=options.keep / f"search-{'whole' if whole else 'linear'}-{options.seed}",
            progress=progress,
        )
    started = {"imitation": values[0], SHIPPED_MODEL: values[1]}
    told = {"searched": name, "start": started, "curve": found.curve, "decisions": found.decisions}
    print(json.dumps(told), flush=True)
    return found


def compared(logs: Sequence[TrialLog], options: argparse.Namespace) -> dict[str, Order]:
    """What the last 40 % are asked about, trained."""
    linear = network_of(SHIPPED_MODEL)
    starts = {whole: imitated(logs, linear, options, whole=whole) for whole in (True, False)}
    whole = searched(logs, linear, starts[True], options, whole=True).network
    networks = {
        WHOLE: whole,
        OWN_LINEAR: whole.linear_part,
        IMITATED: starts[True],
        IMITATED_LINEAR: starts[True].linear_part,
    }
    if options.linear_too:
        networks[LINEAR_ALONE] = searched(logs, linear, starts[False], options, whole=False).network
    known = orders()
    order: Callable[[QueueNetwork], Order] = lambda each: WholeQueueOrder(  # noqa: E731
        network=each, linear=linear
    )
    return {
        FIRST_COME: known[FIRST_COME],
        SHIPPED_MODEL: known[SHIPPED_MODEL],
        **{name: order(each) for name, each in networks.items()},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--keep", type=Path, required=True, help="folder of what is done")
    parser.add_argument("--runs", type=int, default=4, help="of each log (4)")
    parser.add_argument("--seed", type=int, default=1, help="of imitation and search (1)")
    parser.add_argument("--steps", type=int, default=3000, help="of the imitation (3000)")
    parser.add_argument("--generations", type=int, default=24, help="of each search (24)")
    parser.add_argument("--population", type=int, default=12, help="of each generation (12)")
    parser.add_argument("--linear-too", action="store_true", help="search the linear part alone")
    options = parser.parse_args(arguments)
    options.keep.mkdir(parents=True, exist_ok=True)
    logs = [TrialLog.read(path) for path in options.logs]
    found, decisions = heldout_runs(logs, compared(logs, options), options.runs, options.keep)
    parts = {**{name: [runs] for name, runs in found.items()}, "all": list(found.values())}
    for name, runs in parts.items():
        for mine, base in COMPARISONS:
            if mine in runs[0] and base in runs[0]:
                told = over(runs, mine, base, FIRST_COME)
                print(json.dumps({"log": name, "of": mine, "over": base, **told}))
    print(json.dumps({"heldout decisions": decisions}))


if __name__ == "__main__":
    main()
