"""Evidence from pairs is right however often one looks, whatever the differences are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slurm_rl_plugin.domain.switchback import Declaration, drawn_blocks
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.units import DAY, FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS, BlockCosts
from slurm_rl_plugin.what_if.switchback.trial import (
    PairDifferences,
    effect_of,
    findings,
    floors_of,
    sure_above,
    wealth,
)

LEVEL, COINS = 0.05, 2000


def heavy_tailed(rng: np.random.Generator, count: int) -> FloatArray:
    """Student's t of 1.2 degrees of freedom: no variance, hardly a mean."""
    return rng.standard_t(1.2, count)


def hanging_together(rng: np.random.Generator, count: int) -> FloatArray:
    """Each nearly the one before, growing as time passes."""
    found = np.zeros(count)
    for place in range(1, count):
        found[place] = 0.95 * found[place - 1] + rng.normal()
    return found * np.linspace(0.2, 3.0, count)


def pairs_of(seed: int, count: int = 40, effect: float = 0.0) -> PairDifferences:
    rng = np.random.default_rng(seed)
    return PairDifferences(
        logs=effect + rng.standard_t(3.0, count) * 0.3, weight=rng.uniform(0.05, 1.0, count)
    )


@pytest.mark.parametrize("drawn", [heavy_tailed, hanging_together])
def test_under_coins_alone_evidence_is_as_rare_as_its_level(
    drawn: Callable[[np.random.Generator, int], FloatArray],
) -> None:
    """The differences are fixed and the coins are drawn anew: looked at after each pair."""
    rng = np.random.default_rng(7)
    sizes, weight = drawn(rng, 50), rng.uniform(0.05, 1.0, 50)
    said = [
        sure_above(
            PairDifferences(logs=sizes * rng.choice([-1.0, 1.0], 50), weight=weight), 0.0, LEVEL
        )
        is not None
        for _ in range(COINS)
    ]
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / COINS)
    assert np.mean(said) <= LEVEL + 3.0 * error


def test_an_effect_is_found() -> None:
    above = sure_above(pairs_of(1, effect=0.5), 0.0, LEVEL)
    assert above is not None
    assert above < 40
    assert sure_above(pairs_of(1, effect=0.5).swapped, 0.0, LEVEL) is None
    assert sure_above(pairs_of(1, effect=0.5), 2.0, LEVEL) is None


@pytest.mark.parametrize("seed", range(3))
def test_ends_of_the_sequence_come_nearer_and_never_go_back(seed: int) -> None:
    pairs = pairs_of(seed, effect=-0.3)
    ends = []
    for count in range(1, len(pairs) + 1):
        known = PairDifferences(logs=pairs.logs[:count], weight=pairs.weight[:count])
        effect = effect_of(known, LEVEL)
        ends.append((effect.low, effect.high))
        assert effect.pairs == count
    lows, highs = np.array(ends).T
    assert (lows[1:] >= lows[:-1]).all()
    assert (highs[1:] <= highs[:-1]).all()
    assert lows[0] == -np.inf
    assert lows[-1] < -0.3 < highs[-1]


def test_nothing_is_known_of_no_pair() -> None:
    none = PairDifferences(logs=np.empty(0), weight=np.empty(0))
    effect = effect_of(none, LEVEL)
    assert np.isnan(effect.estimate)
    assert (effect.low, effect.high, effect.pairs) == (-np.inf, np.inf, 0)
    assert sure_above(none, 0.0, LEVEL) is None


def test_the_gambler_gains_nothing_on_average() -> None:
    """All coins of six pairs: the mean of what he has is what he began with."""
    sizes = np.array([0.9, -0.3, 1.0, 0.05, 0.6, 0.2])
    coins = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1).T
    ends = [np.exp(wealth(each * sizes)[-1]) for each in coins]
    assert np.mean(ends) == pytest.approx(1.0)


def declared(days: int, seed: int) -> Declaration:
    return Declaration(
        goal="bounded_slowdown",
        harm=1.0,
        longest_wait=np.inf,
        policy="drawn",
        model_sha256="",
        seed=seed,
        day=DAY,
        blocks=drawn_blocks(0.0, days, (4, 6, 8, 12), seed),
    )


@pytest.mark.parametrize(("effect", "word"), [(-0.35, BETTER), (0.35, WORSE), (0.0, INCONCLUSIVE)])
def test_one_look_at_all_blocks_tells_when_it_was_sure_first(effect: float, word: str) -> None:
    """As if one had looked after every block."""
    experiment, rng = declared(20, 3), np.random.default_rng(3)
    shape = (len(experiment.blocks), len(GOALS))
    usual = rng.lognormal(0.0, 0.5, shape)
    ours = np.array([block.arm == "ours" for block in experiment.blocks])[:, None]
    noise = rng.normal(0.0, 0.15, shape)
    costs = BlockCosts(
        measured=usual * np.exp(effect * ours + noise),
        by_site=usual,
        by_ours=usual * np.exp(rng.normal(0.0, 0.3, shape)),
    )
    floors = floors_of(usual)
    at_once = findings(experiment, costs, floors)
    first: dict[str, tuple[str, int]] = {}
    for blocks in range(1, len(costs) + 1):
        known = BlockCosts(
            measured=costs.measured[:blocks],
            by_site=costs.by_site[:blocks],
            by_ours=costs.by_ours[:blocks],
        )
        for each in findings(experiment, known, floors):
            if each.word != INCONCLUSIVE:
                assert each.blocks is not None
                assert each.blocks <= blocks
                first.setdefault(each.goal, (each.word, blocks))
    assert {
        each.goal: (each.word, each.blocks) for each in at_once if each.word != INCONCLUSIVE
    } == first
    assert at_once[0].word == word
    assert at_once[0].decides
