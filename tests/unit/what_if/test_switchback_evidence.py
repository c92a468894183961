"""Evidence and guards are right however often one looks, whatever the differences are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.switchback import OURS, drawn_blocks
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.papers.switchback.clusters import declared, reversed_model
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS, BlockCosts, costs_of_blocks
from slurm_rl_plugin.what_if.switchback.trial import (
    PairDifferences,
    Trial,
    early_stretches,
    effect_of,
    floors_of,
    sure_above,
    wealth,
)
from tests.case_files import rows
from tests.unit.what_if.test_switchback_blocks import declared as declared_of

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
    drawn_anew = (sizes * rng.choice([-1.0, 1.0], 50) for _ in range(COINS))
    sure = [
        sure_above(PairDifferences(logs=logs, weight=weight), 0.0, LEVEL) for logs in drawn_anew
    ]
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / COINS)
    assert np.mean([each is not None for each in sure]) <= LEVEL + 3.0 * error


def test_an_effect_is_found() -> None:
    above = sure_above(pairs_of(1, effect=0.5), 0.0, LEVEL)
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


@pytest.mark.parametrize(("effect", "word"), [(-0.35, BETTER), (0.35, WORSE), (0.0, INCONCLUSIVE)])
def test_one_look_at_all_blocks_tells_when_it_was_sure_first(effect: float, word: str) -> None:
    """As if one had looked after every block."""
    blocks, rng = drawn_blocks(0.0, 20, (4, 6, 8, 12), 3), np.random.default_rng(3)
    experiment = declared_of(blocks, goal="bounded_slowdown", harm=1.0)
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
    trial = Trial(declared=experiment, floors=floors, costs=costs)
    at_once = trial.findings()
    first: dict[str, tuple[str, int]] = {}
    for count in range(1, len(costs) + 1):
        for each in trial.first(count).findings():
            if each.word != INCONCLUSIVE:
                assert each.blocks <= count
                first.setdefault(each.goal, (each.word, count))
    assert {
        each.goal: (each.word, each.blocks) for each in at_once if each.word != INCONCLUSIVE
    } == first
    assert at_once[0].word == word
    assert at_once[0].decides


DECLARED = declared(seed=1, days=4)
FLOORS = np.zeros(len(GOALS))
EARLY = early_stretches(DECLARED)


def costs(ours_by_site: FloatArray, measured_by_site: float = 1.0) -> BlockCosts:
    """Blocks that cost 1 under the site's order by every goal, and so much under ours."""
    by_site = np.ones((len(ours_by_site), len(GOALS)))
    ours = np.array([block.arm == OURS for block in DECLARED.blocks[: len(by_site)]])
    measured = np.where(ours[:, None], measured_by_site, by_site)
    return BlockCosts(measured=measured, by_site=by_site, by_ours=by_site * ours_by_site[:, None])


def said(found: BlockCosts, since_begin: BlockCosts) -> str | None:
    trial = Trial(declared=DECLARED, floors=FLOORS, costs=found, since_begin=since_begin)
    return trial.tripped()


def test_stretches_are_of_the_first_two_days_and_begin_with_them() -> None:
    assert {each.begin for each in EARLY} == {DECLARED.begin}
    assert [each.end for each in EARLY] == [block.end for block in DECLARED.blocks[: len(EARLY)]]
    assert EARLY[-1].end == DECLARED.begin + 2 * DAY
    compressed = replace(DECLARED, day=DAY / 2.0)
    assert early_stretches(compressed)[-1].end == DECLARED.begin + DAY


#: One block costs much more, the others as much or a little less: they do not agree.
AT_ODDS = np.array([0.95, 0.95, 2.0, 0.95, 0.95, 1.0])
#: Blocks that all cost more.
AGREEING = np.array([1.2, 1.3, 1.2, 1.25, 1.2, 1.3])


@rows("trips", "replays", "blocks whole measured trips")
def test_what_trips(blocks: list[float], whole: float, measured: float, trips: bool) -> None:
    found = costs(np.array(blocks), measured)
    sentence = said(found, costs(np.full(len(blocks), whole)))
    assert (sentence is not None) == trips
    assert sentence is None or f"{whole - 1.0:+.0%} in bounded_slowdown" in sentence


def test_later_blocks_speak_for_themselves() -> None:
    """Behind the first days there is no replay of the whole time."""
    assert said(costs(AGREEING, 1.1), BlockCosts.none()) is not None
    assert said(costs(AT_ODDS, 1.1), BlockCosts.none()) is None


def test_a_late_look_asks_after_each_block_that_it_has_passed_over() -> None:
    """All of the first days' replays are made by then, and no later one is."""
    blocks = len(EARLY) + 3
    calm = np.concatenate([AT_ODDS, np.full(blocks - len(AT_ODDS), 0.9)])
    trial = Trial(
        declared=DECLARED,
        floors=FLOORS,
        costs=costs(calm, 1.1),
        since_begin=costs(np.array([1.0, 1.0, 1.5, 1.0, 1.0, *np.ones(len(EARLY) - 5)])),
    )
    said_after = [trial.first(count).tripped() for count in range(1, blocks + 1)]
    assert [place for place, sentence in enumerate(said_after, 1) if sentence] == [3]
    assert trial.steps_back(1.0) == said_after[2]
    assert "all the time since the begin" in (said_after[2] or "")


def test_declared_bounds_are_kept() -> None:
    lenient = replace(DECLARED, harm=1.6)
    found = costs(AGREEING, 1.1), costs(np.full(6, 1.5))
    trial = Trial(declared=DECLARED, floors=FLOORS, costs=found[0], since_begin=found[1])
    assert trial.tripped() is not None
    assert replace(trial, declared=lenient).tripped() is None
    calm = Trial(declared=DECLARED, floors=FLOORS, costs=costs(np.ones(2)))
    assert "16% of the last fortnight's service" in (calm.tripped(1.0, 0.16) or "")
    fair_enough = replace(DECLARED, misdelivered=0.2)
    assert replace(calm, declared=fair_enough).tripped(1.0, 0.16) is None


def test_a_trial_keeps_the_time_since_its_begin_and_one_of_an_earlier_release_makes_it() -> None:
    trial = reversed_model(3, 4)
    cluster = trial.replayed(trial.starts(DECLARED.blocks))
    begun = Trial.begun(DECLARED, cluster, DECLARED.begin + 5 * HOUR)
    first = begun.looked_at(cluster, DECLARED.begin + 9 * HOUR)
    looked = first.looked_at(cluster, DECLARED.end)
    assert (looked.since_begin.by_ours == costs_of_blocks(cluster, EARLY).by_ours).all()
    assert len(looked.costs) == len(DECLARED.blocks) > len(looked.since_begin) == len(EARLY)

    document = first.as_json(1.0)
    again = Trial.of_json(DECLARED, document)
    assert (again.since_begin.by_ours == first.since_begin.by_ours).all()
    del document["since_begin"]
    older = Trial.of_json(DECLARED, document).looked_at(cluster, DECLARED.end)
    assert (older.since_begin.by_ours == looked.since_begin.by_ours).all()
