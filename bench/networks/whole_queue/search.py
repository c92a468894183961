"""Search over a QueueNetwork's numbers by continuous replays of pieces of the training part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.networks.replayed_orders import TrialLog
from bench.networks.whole_queue.loop import WholeQueueOrder
from bench.networks.whole_queue.network import LINEAR, NUMBERS, QueueNetwork
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, select_prepared
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.responsiveness import bounded_slowdown

#: Part of the first 60 % that trains; what is left of it chooses among generations.
TRAINED = 0.75
#: Jobs of a piece, of which the first ones fill the machine and do not count.
PIECE, WARM_UP = 15_000, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How long is searched, and from where.

    Attributes:
        generations: of CMA-ES (Hansen and Ostermeier 2001).
        population: candidates of each.
        step: standard deviation at first.
        seed: of the search and of the pieces.
        whole: whether the queue may move the weights; else the linear part alone is searched.
    """

    generations: int = 24
    population: int = 12
    step: float = 0.1
    seed: int = 1
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Jobs of one log, replayed in one go."""

    log: TrialLog
    jobs: PreparedLog

    def slowdown(self, order: WholeQueueOrder) -> tuple[float, int]:
        """Mean bounded slowdown behind the warm-up, and how many decisions it took."""
        workload = self.jobs.workload(RequestedLimit())
        schedule = order(workload, self.log.settings)
        wait = schedule.start - workload.submit
        return (
            float(bounded_slowdown(wait, workload.run_time)[WARM_UP:].mean()),
            schedule.decisions,
        )


def training_pieces(logs: Sequence[TrialLog], seed: int, generation: int) -> list[Piece]:
    """One piece of each log's training part, drawn for this generation."""
    rng = np.random.default_rng([seed, generation])
    pieces = []
    for log in logs:
        many = int(len(log.past.log) * TRAINED)
        jobs = min(PIECE, many)
        first = int(rng.integers(many - jobs + 1))
        pieces.append(Piece(log=log, jobs=select_prepared(log.past, first + np.arange(jobs))))
    return pieces


def validation_pieces(logs: Sequence[TrialLog]) -> list[Piece]:
    """Of each log what the first 60 % have behind the training part."""
    pieces = []
    for log in logs:
        jobs = np.arange(int(len(log.past.log) * TRAINED), len(log.past.log))
        pieces.append(Piece(log=log, jobs=select_prepared(log.past, jobs[-2 * PIECE :])))
    return pieces


def objective(order: WholeQueueOrder, pieces: Sequence[Piece]) -> tuple[float, int]:
    """Mean logarithm of the slowdowns, less is better, and the decisions."""
    found = [piece.slowdown(order) for piece in pieces]
    return float(np.mean(np.log([slowdown for slowdown, _ in found]))), sum(d for _, d in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search found.

    Attributes:
        network: best on the validation pieces among the start and the means of the search.
        curve: generation and validation objective.
        decisions: that were simulated.
    """

    network: QueueNetwork
    curve: tuple[tuple[int, float], ...]
    decisions: int


def search(
    logs: Sequence[TrialLog],
    linear: QNetwork,
    start: QueueNetwork,
    settings: SearchSettings,
    *,
    checkpoint: Path,
    progress: Callable[[int, float], None],
) -> Searched:
    """Minimise the mean logarithm of the slowdowns; a search that was interrupted goes on."""
    from cmaes import CMA  # noqa: PLC0415 - brings scipy.stats

    places = np.arange(NUMBERS if settings.whole else LINEAR)
    key = {
        "settings": asdict(settings),
        "start": start.numbers.tolist(),
        "logs": [log.name for log in logs],
    }
    kept = Checkpoint(checkpoint, key)
    done = iter(list(kept.steps))

    def valued(numbers: FloatArray, pieces: Sequence[Piece]) -> tuple[float, int]:
        remembered = next(done, None)
        if remembered is None:
            order = WholeQueueOrder(network=network_of(numbers), linear=linear)
            remembered = list(objective(order, pieces))
            kept.add(remembered)
        return float(remembered[0]), int(remembered[1])

    def network_of(numbers: FloatArray) -> QueueNetwork:
        whole = start.numbers.copy()
        whole[places] = numbers
        network = QueueNetwork.of(whole)
        return network if settings.whole else network.linear_part

    best = start.numbers[places]
    evolution = CMA(
        mean=best.copy(),
        sigma=settings.step,
        seed=settings.seed,
        population_size=settings.population,
    )
    chosen_by = validation_pieces(logs)
    least, decisions = valued(best, chosen_by)
    curve = [(0, least)]
    for generation in range(1, settings.generations + 1):
        pieces = training_pieces(logs, settings.seed, generation)
        candidates = [evolution.ask() for _ in range(settings.population)]
        values = [valued(candidate, pieces) for candidate in candidates]
        decisions += sum(each for _, each in values)
        evolution.tell([(x, value) for x, (value, _) in zip(candidates, values, strict=True)])
        if generation % 4 == 0 or generation == settings.generations:
            mean = np.array(evolution.mean)
            value, more = valued(mean, chosen_by)
            decisions += more
            curve.append((generation, value))
            if value < least:
                best, least = mean, value
        progress(generation, least)
    return Searched(network=network_of(best), curve=tuple(curve), decisions=decisions)
