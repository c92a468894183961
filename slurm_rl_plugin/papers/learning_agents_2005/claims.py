"""What the 2005 paper says of its Fig. 2 to 5, and goals for agents that learn better, judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from slurm_rl_plugin.brokers.agents.simulation import (
    LEAST_LOADED,
    LEAST_LOADED_IN_TURN,
    PAPER,
    PROBING,
    RANDOM,
)
from slurm_rl_plugin.papers.learning_agents_2005.experiment import (
    CRITICAL_RATE,
    FIGURE_5,
    LATE,
    LEAVING,
    NOISE,
    RATE_OF_DYNAMICS,
    RATES_OF_FIGURE_2,
    RATES_OF_FIGURE_3,
    RATES_OF_RANDOM,
    Measured,
    group_of,
    group_of_leaving,
    with_noise,
)
from slurm_rl_plugin.papers.study.claims import (
    FEW_LOGS,
    READING,
    Cell,
    Claim,
    Judgement,
    Printed,
    Statistic,
    as_gain,
    bounded,
    measure,
    ratio_of_means,
)
from slurm_rl_plugin.units import FloatArray

LOAD, RESPONSE = "load", "response (ticks)"
TO_LEAST_LOADED = "load / least loaded"
SAME = "load / least loaded, or the other way round"
GROWTH = "load at the end / load in the middle"
TO_PAPER = {LOAD: "load / paper's agents", RESPONSE: "response / paper's agents"}
#: The factor that this project chose for "similar" and "comparable" of the paper, and a closer one
#: that each claim names as well, since 2 is generous.
SIMILAR, CLOSE = 2.0, 1.2
#: A load that grows by this factor from the middle of a run to its end has no steady state.
GROWING = 1.2
#: R Cmin / (g N Jav): with more noise, random jobs alone overload the slowest resources.
BEARABLE_NOISE = 0.025
_READINGS = (str(SIMILAR), str(GROWING))
#: g -> what probing agents are to reach of the paper's load and response.
GOALS = {0.20: "0.65", 0.22: "0.40"}
_GOAL_AT_COMPLETION = "5"


def claims_of(found: Mapping[str, Measured]) -> list[Claim]:
    """All claims and goals, then every load and response."""
    return [
        *_figure_2(found),
        *_figure_3(found),
        *_figure_4(found),
        *_figure_5(found),
        *_goals(found),
        *_all_figures(found),
    ]


def _bounded(
    group: str,
    policy: str,
    column: str,
    values: tuple[FloatArray, FloatArray],
    bound: str,
    statistic: Statistic = ratio_of_means,
    **more: Any,
) -> Claim:
    """A ratio of means over the same seeds, against a bound."""
    ratio = measure(np.array(values), statistic)
    claim = bounded(Cell(group, policy, column), ratio, bound, logs=len(values[0]), **more)
    few = len(values[0]) < FEW_LOGS
    ends = (ratio.value, ratio.value) if few else ratio.ends
    return _our_reading(claim, ends, **more) if bound in _READINGS else claim


def _either_way(pair: FloatArray) -> FloatArray:
    """Factor by which two means differ, whichever is larger."""
    ratio = ratio_of_means(pair)
    return np.maximum(ratio, 1.0 / ratio)


def _our_reading(
    claim: Claim, ends: tuple[float, float], *, least: bool = False, **_: Any
) -> Claim:
    """The same with its source, the factors at which it would hold, and its verdict at CLOSE."""
    low, high = ends
    scale = f"up to {high:.3g}" if least else f"from {low:.3g}"
    close = "also" if (high >= CLOSE if least else low <= CLOSE) else "not"
    because = (
        f"{claim.because}, a factor that this project chose: holds {scale}, {close} at {CLOSE:g}"
    )
    return replace(claim, source=READING, judged=Judgement(claim.reproduces is True, because))


def _growth(measured: Measured, rule: str) -> tuple[FloatArray, FloatArray]:
    return measured.load[rule], measured.middle[rule]


def _grown(group: str, rule: str, measured: Measured) -> Claim:
    """That a load has no steady state, however slowly it grows."""
    grown = measure(measured.load[rule] - measured.middle[rule])
    return Claim(
        cell=Cell(group, rule, "load at the end less that in the middle"),
        measured=grown,
        printed=Printed.of("0"),
        baselines=_loads(measured),
        judged=as_gain(grown),
    )


def _loads(measured: Measured) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in measured.load.items()}


def _figure_2(found: Mapping[str, Measured]) -> Iterator[Claim]:
    """Random keeps up below g = .15 and then grows; the paper's agents stay near least loaded."""
    for rate in RATES_OF_FIGURE_2:
        group = group_of(2, rate)
        measured = found[group]
        loads = _loads(measured)
        pair = (measured.load[PAPER], measured.load[LEAST_LOADED])
        yield _bounded(group, PAPER, TO_LEAST_LOADED, pair, str(SIMILAR), baselines=loads)
        growth = _growth(measured, PAPER)
        yield _bounded(group, PAPER, GROWTH, growth, str(GROWING), baselines=loads)
        if rate == RATES_OF_FIGURE_2[0]:
            pair = (measured.load[RANDOM], measured.load[LEAST_LOADED])
            yield _bounded(group, RANDOM, TO_LEAST_LOADED, pair, str(SIMILAR), baselines=loads)
        if rate != CRITICAL_RATE:
            growth = _growth(measured, RANDOM)
            yield _bounded(group, RANDOM, GROWTH, growth, str(GROWING), baselines=loads)
    yield from _random_diverges(found[group_of(2, CRITICAL_RATE)])


def _random_diverges(measured: Measured) -> Iterator[Claim]:
    """Above R Cmin / (N Jav) random choices have no steady state.

    The slowest resources are overloaded by 1 %: their queues grow without end, but slowly, so that
    it is asked whether the mean load grows at all.
    """
    group, loads = group_of(2, CRITICAL_RATE), _loads(measured)
    pair = (measured.load[RANDOM], measured.load[LEAST_LOADED])
    yield _bounded(
        *(group, RANDOM, TO_LEAST_LOADED, pair, str(SIMILAR)), least=True, baselines=loads
    )
    yield _grown(group, RANDOM, measured)


def _figure_3(found: Mapping[str, Measured]) -> Iterator[Claim]:
    """The paper's agents compare very well with least loaded; both keep up until g = .22."""
    for rate in RATES_OF_FIGURE_3:
        group = group_of(3, rate)
        measured = found[group]
        loads = _loads(measured)
        pair = (measured.load[PAPER], measured.load[LEAST_LOADED])
        if rate == RATE_OF_DYNAMICS:  # of this one alone "the same value" is said
            column, bound, statistic = SAME, str(SIMILAR), _either_way
        else:
            column, bound, statistic = TO_LEAST_LOADED, "1", ratio_of_means
        yield _bounded(group, PAPER, column, pair, bound, statistic, baselines=loads)
        if rate == RATES_OF_FIGURE_3[-1]:
            for rule in (PAPER, LEAST_LOADED):
                growth = _growth(measured, rule)
                yield _bounded(group, rule, GROWTH, growth, str(GROWING), baselines=loads)
    yield _late(found[group_of(3, RATE_OF_DYNAMICS)])
    sustained, beyond = map(partial(group_of, 3), RATES_OF_RANDOM)
    growth = _growth(found[sustained], RANDOM)
    yield _bounded(sustained, RANDOM, GROWTH, growth, str(GROWING))
    yield _grown(beyond, RANDOM, found[beyond])


def _late(measured: Measured) -> Claim:
    """To hear of jobs when they complete is said to take a longer training, and no more (4)."""
    return _bounded(
        group_of(3, RATE_OF_DYNAMICS),
        PAPER + LATE,
        "load / told at once",
        (measured.load[PAPER + LATE], measured.load[PAPER]),
        str(SIMILAR),
        baselines=_loads(measured),
    )


def _figure_4(found: Mapping[str, Measured]) -> Iterator[Claim]:
    """Few leaving agents are said to do no harm, many to do much."""
    steady = found[FIGURE_5].load[with_noise(PAPER, 0.0)]
    for leaving in LEAVING[1:]:
        group = group_of_leaving(leaving)
        measured = found[group]
        pair = (measured.load[PAPER], steady)
        yield _bounded(
            *(group, PAPER, "load / load without leaving", pair, str(SIMILAR)),
            least=leaving > LEAVING[1],
            baselines=_loads(measured),
        )


def _figure_5(found: Mapping[str, Measured]) -> Iterator[Claim]:
    """The load is sustained up to eps = R Cmin / (g N Jav) = .025, and grows above it."""
    measured = found[FIGURE_5]
    steady = measured.load[with_noise(PAPER, 0.0)]
    for noise in NOISE[1:]:
        rule = with_noise(PAPER, noise)
        column = "load / load without noise"
        yield _bounded(FIGURE_5, rule, column, (measured.load[rule], steady), "1", least=True)
        if noise <= BEARABLE_NOISE:
            growth = _growth(measured, rule)
            yield _bounded(FIGURE_5, rule, GROWTH, growth, str(GROWING))
        else:
            yield _grown(FIGURE_5, rule, measured)


def _goals(found: Mapping[str, Measured]) -> Iterator[Claim]:
    for rate, bound in GOALS.items():
        group = group_of(3, rate)
        measured = found[group]
        for name, values in ((LOAD, measured.load), (RESPONSE, measured.response)):
            means = {rule: float(each.mean()) for rule, each in values.items()}
            yield _bounded(
                *(group, PROBING, TO_PAPER[name], (values[PROBING], values[PAPER]), bound),
                source="goal",
                baselines=means,
            )
    group = group_of(3, RATE_OF_DYNAMICS)
    measured = found[group]
    pair = (measured.load[PROBING], measured.load[LEAST_LOADED_IN_TURN])
    yield _bounded(
        *(group, PROBING, f"load / {LEAST_LOADED_IN_TURN}", pair, "1"),
        source="goal",
        baselines=_loads(measured),
    )
    late = measured.load[PROBING + LATE]
    yield bounded(
        Cell(group, PROBING + LATE, f"{LOAD}, goal"),
        measure(late),
        _GOAL_AT_COMPLETION,
        source="goal",
        baselines=_loads(measured),
        logs=len(late),
    )


def _all_figures(found: Mapping[str, Measured]) -> Iterator[Claim]:
    for group, measured in found.items():
        for rule in measured.load:
            for column, values in ((LOAD, measured.load), (RESPONSE, measured.response)):
                yield Claim(cell=Cell(group, rule, column), measured=measure(values[rule]))
