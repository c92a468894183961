"""A grid of many agents, tick by tick (2005, sections 2 and 3).

In a tick agents are replaced, hear of jobs that completed, submit theirs one after the other; the
load is read; then each resource works off its queue. A wait is what stands in the queue over the
capacity, so that an agent can be told of it at once, as in the paper, or when the job completes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.agent_grid import Grid, GridSettings
from slurm_rl_plugin.brokers.agent_memory import (
    ScoreMemory,
    WaitMemory,
    best_score,
    choose_place,
    forget_scores,
    forget_waits,
    learn_score,
    learn_wait,
    score_memory,
    wait_memory,
)
from slurm_rl_plugin.brokers.agent_rules import ProbeSettings
from slurm_rl_plugin.brokers.agent_split import optimal_split
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.units import FloatArray, IntArray

RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN = "random", "least loaded", "least loaded in turn"
OPTIMAL_SPLIT, PAPER, PROBING = "optimal split", "paper's agents", "probing agents"
RULES = (RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN, OPTIMAL_SPLIT, PAPER, PROBING)
_RANDOM, _LEAST_LOADED, _IN_TURN, _SPLIT, _PAPER, _PROBING = range(len(RULES))
_NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRule:
    """How agents choose.

    Attributes:
        name: one of RULES.
        noise: probability of a random choice instead (2005, section 3.2).
        at_completion: they learn when a job completes; otherwise as soon as it is submitted.
        known: M, resources that a probing agent uses.
        probes: its constants.
    """

    name: str
    noise: float = 0.0
    at_completion: bool = False
    known: int = 4
    probes: ProbeSettings = ProbeSettings(probes=2, weight=0.3, fading=50.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRun:
    """What came of a grid under a rule.

    Attributes:
        load: queued work / capacity, mean over the resources, after the submissions of each tick;
            shape [ticks].
        resource: that each job went to, shape [n].
        wait: ticks from submission to start, shape [n].
        response: ticks from submission to completion, shape [n].
        backlog: work left at the end, shape [R].
    """

    load: FloatArray
    resource: IntArray
    wait: FloatArray
    response: FloatArray
    backlog: FloatArray


class _Compiled(NamedTuple):
    """An `AgentRule` for compiled code; `split` is cumulative, shape [R]."""

    rule: int
    noise: float
    at_completion: bool
    split: FloatArray
    probes: int
    weight: float
    fading: float


class _Feedback(NamedTuple):
    """Jobs of which agents will hear, as a list for each tick.

    Attributes:
        first, last: of a tick, shape [ticks].
        following: job that comes after a job, shape [n].
        born: tick in which an agent began, shape [agents].
    """

    first: IntArray
    last: IntArray
    following: IntArray
    born: IntArray


def run_grid(settings: GridSettings, grid: Grid, rule: AgentRule, seed: int) -> GridRun:
    """Simulate.

    Args:
        settings: that the grid was drawn with.
        grid: capacities and submissions.
        rule: of all agents.
        seed: of their own random choices; the same seed gives the same bytes.
    """
    agents, resources = settings.agents, settings.resources
    known = min(rule.known, resources)
    split = optimal_split(grid.capacity, settings.work_rate, settings.size_variability)
    compiled_rule = _Compiled(
        rule=RULES.index(rule.name),
        noise=rule.noise,
        at_completion=rule.at_completion,
        split=np.cumsum(split),
        probes=min(rule.probes.probes, known),
        weight=rule.probes.weight,
        fading=rule.probes.fading,
    )
    jobs = len(grid.tick)
    load, backlog = np.zeros(settings.ticks), np.zeros(resources)
    resource, wait = np.zeros(jobs, dtype=np.int64), np.zeros(jobs)
    feedback = _Feedback(
        first=np.full(settings.ticks, _NOBODY),
        last=np.full(settings.ticks, _NOBODY),
        following=np.full(jobs, _NOBODY),
        born=np.zeros(agents, dtype=np.int64),
    )
    _run(
        grid,
        compiled_rule,
        score_memory(agents if rule.name == PAPER else 0, resources),
        wait_memory(agents if rule.name == PROBING else 0, known),
        feedback,
        np.random.default_rng([seed, 1]),
        load,
        resource,
        wait,
        backlog,
    )
    response = wait + grid.size / grid.capacity[resource]
    return GridRun(load=load, resource=resource, wait=wait, response=response, backlog=backlog)


@compiled
def _run(
    grid: Grid,
    rule: _Compiled,
    scores: ScoreMemory,
    waits: WaitMemory,
    feedback: _Feedback,
    rng: np.random.Generator,
    load: FloatArray,
    resource: IntArray,
    wait: FloatArray,
    backlog: FloatArray,
) -> None:
    """The loop over ticks; fills the last four arrays."""
    capacity = grid.capacity
    for agent in range(len(waits.known)):
        forget_waits(waits, agent, capacity, rng)
    least = np.empty(len(capacity), dtype=np.int64)
    job = leaver = equal = 0
    for tick in range(len(load)):
        while leaver < len(grid.leaver) and grid.leaver_tick[leaver] == tick:
            agent = grid.leaver[leaver]
            feedback.born[agent] = tick
            forget_scores(scores, agent)
            forget_waits(waits, agent, capacity, rng)
            leaver += 1
        heard = feedback.first[tick]
        while heard != _NOBODY:
            if grid.tick[heard] >= feedback.born[grid.agent[heard]]:
                _learn(grid, rule, scores, waits, heard, resource[heard], wait[heard], tick)
            heard = feedback.following[heard]
        if rule.rule == _LEAST_LOADED:
            equal = _least_loaded(backlog, capacity, least)
        while job < len(grid.tick) and grid.tick[job] == tick:
            if rule.rule == _IN_TURN:
                equal = _least_loaded(backlog, capacity, least)
            chosen = _choose(grid, rule, scores, waits, job, least[:equal], rng)
            resource[job], wait[job] = chosen, backlog[chosen] / capacity[chosen]
            backlog[chosen] += grid.size[job]
            if rule.at_completion:
                _hear_later(feedback, job, tick + backlog[chosen] / capacity[chosen])
            else:
                _learn(grid, rule, scores, waits, job, chosen, wait[job], tick)
            job += 1
        load[tick] = (backlog / capacity).mean()
        backlog[:] = np.maximum(backlog - capacity, 0.0)


@compiled
def _least_loaded(backlog: FloatArray, capacity: FloatArray, least: IntArray) -> int:
    """How many resources have the least load; their numbers come first in `least`."""
    lowest, equal = np.inf, 0
    for resource in range(len(capacity)):
        load = backlog[resource] / capacity[resource]
        if load < lowest:
            lowest, equal = load, 0
        if load == lowest:
            least[equal] = resource
            equal += 1
    return equal


@compiled
def _choose(
    grid: Grid,
    rule: _Compiled,
    scores: ScoreMemory,
    waits: WaitMemory,
    job: int,
    least: IntArray,
    rng: np.random.Generator,
) -> int:
    """The resource that a job goes to."""
    resources, agent = len(grid.capacity), grid.agent[job]
    if rule.rule == _RANDOM or (rule.noise > 0.0 and rng.random() < rule.noise):
        return int(rng.random() * resources)
    if rule.rule == _PAPER:
        return best_score(scores.score[agent], rng.random())
    if rule.rule == _PROBING:
        now, size = float(grid.tick[job]), grid.size[job]
        place = choose_place(
            waits, agent, size, now, grid.capacity, rule.probes, rule.fading, rng
        )
        return waits.known[agent, place]
    if rule.rule == _SPLIT:
        return min(np.searchsorted(rule.split, rng.random(), side="right"), resources - 1)
    return least[int(rng.random() * len(least))]


@compiled
def _learn(
    grid: Grid,
    rule: _Compiled,
    scores: ScoreMemory,
    waits: WaitMemory,
    job: int,
    resource: int,
    wait: float,
    tick: int,
) -> None:
    """An agent hears what its job met."""
    agent, size = grid.agent[job], grid.size[job]
    if rule.rule == _PAPER:
        learn_score(scores, agent, resource, wait, size / grid.capacity[resource], size)
    elif rule.rule == _PROBING:
        learn_wait(waits, agent, resource, wait, float(tick), rule.weight)


@compiled
def _hear_later(feedback: _Feedback, job: int, completion: float) -> None:
    """Put a job into the list of the first tick after its completion, if there is one."""
    # at the end of a tick the next one begins: nobody hears in the tick of the submission
    tick = int(np.ceil(completion))
    if tick >= len(feedback.first):
        return
    if feedback.first[tick] == _NOBODY:
        feedback.first[tick] = job
    else:
        feedback.following[feedback.last[tick]] = job
    feedback.last[tick] = job
