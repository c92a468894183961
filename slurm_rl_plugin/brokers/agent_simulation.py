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
    NO_JOB,
    ScoreMemory,
    WaitMemory,
    best_score,
    choose_place,
    forget_scores,
    forget_waits,
    learn_score,
    learn_wait,
    note_completed,
    note_sent,
    place_of,
    score_memory,
    wait_memory,
)
from slurm_rl_plugin.brokers.agent_rules import ProbeSettings
from slurm_rl_plugin.brokers.agent_split import optimal_split
from slurm_rl_plugin.simulator.compilation import compiled, compiled_inline
from slurm_rl_plugin.units import FloatArray, IntArray

RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN = "random", "least loaded", "least loaded in turn"
OPTIMAL_SPLIT, PAPER, PROBING = "optimal split", "paper's agents", "probing agents"
RULES = (RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN, OPTIMAL_SPLIT, PAPER, PROBING)
_RANDOM, _LEAST_LOADED, _IN_TURN, _SPLIT, _PAPER, _PROBING = range(len(RULES))
#: Chosen on grids of 240 agents and 60 resources (capacities 5-500, jobs 8-800); times in ticks.
TICK_PROBES = ProbeSettings(probes=4, weight=0.03, recent=3.0, fading=300.0)


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
    probes: ProbeSettings = TICK_PROBES


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
    probes: ProbeSettings


class _Course(NamedTuple):
    """What the loop fills: load [ticks], resource [n], wait [n], backlog [R]; see `GridRun`."""

    load: FloatArray
    resource: IntArray
    wait: FloatArray
    backlog: FloatArray


class _Feedback(NamedTuple):
    """Jobs of which agents will hear, as a list for each tick.

    Attributes:
        first, last: of a tick, shape [ticks].
        following: job that comes after a job in such a list, shape [n].
        later: next job that the same agent sent to the same resource, shape [n].
        born: tick in which an agent began, shape [agents].
    """

    first: IntArray
    last: IntArray
    following: IntArray
    later: IntArray
    born: IntArray


class _Agents(NamedTuple):
    """What the agents know, by their rule, and of what they will hear."""

    scores: ScoreMemory
    waits: WaitMemory
    feedback: _Feedback


def run_grid(settings: GridSettings, grid: Grid, rule: AgentRule, seed: int) -> GridRun:
    """Simulate.

    Args:
        settings: that the grid was drawn with.
        grid: capacities and submissions.
        rule: of all agents.
        seed: of their own random choices; the same seed gives the same bytes.
    """
    resources = settings.resources
    known = min(rule.known, resources)
    split = optimal_split(grid.capacity, settings.work_rate, settings.size_variability)
    compiled_rule = _Compiled(
        rule=RULES.index(rule.name),
        noise=rule.noise,
        at_completion=rule.at_completion,
        split=np.cumsum(split),
        probes=rule.probes._replace(probes=min(rule.probes.probes, known)),
    )
    jobs = len(grid.tick)
    course = _Course(
        load=np.zeros(settings.ticks),
        resource=np.zeros(jobs, dtype=np.int64),
        wait=np.zeros(jobs),
        backlog=np.zeros(resources),
    )
    feedback = _Feedback(
        first=np.full(settings.ticks, NO_JOB),
        last=np.full(settings.ticks, NO_JOB),
        following=np.full(jobs, NO_JOB),
        later=np.full(jobs, NO_JOB),
        born=np.zeros(settings.agents, dtype=np.int64),
    )
    agents = _Agents(
        scores=score_memory(settings.agents if rule.name == PAPER else 0, resources),
        waits=wait_memory(settings.agents if rule.name == PROBING else 0, known),
        feedback=feedback,
    )
    _run(grid, compiled_rule, agents, np.random.default_rng([seed, 1]), course)
    response = course.wait + grid.size / grid.capacity[course.resource]
    return GridRun(response=response, **course._asdict())


@compiled
def _run(
    grid: Grid, rule: _Compiled, agents: _Agents, rng: np.random.Generator, course: _Course
) -> None:
    """The loop over ticks."""
    for agent in range(len(agents.waits.known)):
        forget_waits(agents.waits, agent, grid.capacity, rng)
    job = leaver = 0
    for tick in range(len(course.load)):
        leaver = _replace_leavers(grid, agents, leaver, tick, rng)
        _hear(grid, rule, agents, course, tick)
        job = _submit(grid, rule, agents, course, job, tick, rng)
        course.load[tick] = (course.backlog / grid.capacity).mean()
        course.backlog[:] = np.maximum(course.backlog - grid.capacity, 0.0)


@compiled
def _replace_leavers(
    grid: Grid, agents: _Agents, leaver: int, tick: int, rng: np.random.Generator
) -> int:
    """New agents for those who leave in this tick; the number of the next leaver."""
    while leaver < len(grid.leaver) and grid.leaver_tick[leaver] == tick:
        agent = grid.leaver[leaver]
        agents.feedback.born[agent] = tick
        forget_scores(agents.scores, agent)
        forget_waits(agents.waits, agent, grid.capacity, rng)
        leaver += 1
    return leaver


@compiled_inline
def _hear(grid: Grid, rule: _Compiled, agents: _Agents, course: _Course, tick: int) -> None:
    """Agents learn from jobs that completed since the last tick; not from their predecessors'."""
    heard = agents.feedback.first[tick]
    while heard != NO_JOB:
        if grid.tick[heard] >= agents.feedback.born[grid.agent[heard]]:
            _note_completed(grid, agents, heard, course.resource[heard])
            _learn(grid, rule, agents, heard, course.resource[heard], course.wait[heard], tick)
        heard = agents.feedback.following[heard]


@compiled_inline
def _submit(
    grid: Grid,
    rule: _Compiled,
    agents: _Agents,
    course: _Course,
    job: int,
    tick: int,
    rng: np.random.Generator,
) -> int:
    """The submissions of a tick, one after the other; the number of the next job."""
    capacity, backlog = grid.capacity, course.backlog
    loads = backlog / capacity
    least = np.empty(len(capacity), dtype=np.int64)
    equal = _least_loaded(loads, least) if rule.rule == _LEAST_LOADED else 0
    while job < len(grid.tick) and grid.tick[job] == tick:
        if rule.rule == _IN_TURN:
            equal = _least_loaded(loads, least)
        chosen = _choose(grid, rule, agents, job, least[:equal], rng)
        wait = loads[chosen]
        course.resource[job], course.wait[job] = chosen, wait
        backlog[chosen] += grid.size[job]
        loads[chosen] = backlog[chosen] / capacity[chosen]
        if rule.at_completion:
            _hear_later(agents.feedback, job, tick + loads[chosen])
            _note_sent(grid, agents, job, chosen)
        else:
            _learn(grid, rule, agents, job, chosen, wait, tick)
        job += 1
    return job


@compiled_inline
def _least_loaded(loads: FloatArray, least: IntArray) -> int:
    """How many resources have the least load; their numbers come first in `least`."""
    lowest, equal = loads.min(), 0
    for resource in range(len(loads)):
        if loads[resource] == lowest:
            least[equal] = resource
            equal += 1
    return equal


@compiled_inline
def _choose(
    grid: Grid,
    rule: _Compiled,
    agents: _Agents,
    job: int,
    least: IntArray,
    rng: np.random.Generator,
) -> int:
    """The resource that a job goes to."""
    resources, agent = len(grid.capacity), grid.agent[job]
    if rule.rule == _RANDOM or (rule.noise > 0.0 and rng.random() < rule.noise):
        return int(rng.random() * resources)
    if rule.rule == _PAPER:
        return int(best_score(agents.scores.score[agent], rng.random()))
    if rule.rule == _PROBING:
        place = choose_place(agents.waits, grid, job, rule.probes, rng)
        return int(agents.waits.known[agent, place])
    if rule.rule == _SPLIT:
        place = int(np.searchsorted(rule.split, rng.random(), side="right"))
        return min(place, resources - 1)
    return int(least[int(rng.random() * len(least))])


@compiled_inline
def _learn(
    grid: Grid,
    rule: _Compiled,
    agents: _Agents,
    job: int,
    resource: int,
    wait: float,
    tick: int,
) -> None:
    """An agent hears what its job met."""
    agent, size = grid.agent[job], grid.size[job]
    if rule.rule == _PAPER:
        run_time = size / grid.capacity[resource]
        learn_score(agents.scores, agent, resource, wait, run_time, size)
    elif rule.rule == _PROBING:
        place = place_of(agents.waits, agent, resource)
        if place != NO_JOB:  # noise sends jobs where the agent keeps nothing in mind
            learn_wait(agents.waits, agent, place, wait, float(tick), rule.probes.weight)
            if not rule.at_completion:
                run_time = size / grid.capacity[resource]
                agents.waits.busy[agent, place] = tick + wait + run_time


@compiled_inline
def _note_sent(grid: Grid, agents: _Agents, job: int, resource: int) -> None:
    """A probing agent knows where it has a job of which it has not heard."""
    if len(agents.waits.known) > 0:
        agent = grid.agent[job]
        place = place_of(agents.waits, agent, resource)
        if place != NO_JOB:
            note_sent(agents.waits, agent, place, job, agents.feedback.later)


@compiled_inline
def _note_completed(grid: Grid, agents: _Agents, job: int, resource: int) -> None:
    if len(agents.waits.known) > 0:
        agent = grid.agent[job]
        place = place_of(agents.waits, agent, resource)
        if place != NO_JOB:
            note_completed(agents.waits, agent, place, agents.feedback.later)


@compiled_inline
def _hear_later(feedback: _Feedback, job: int, completion: float) -> None:
    """Put a job into the list of the first tick after its completion, if there is one."""
    # at the end of a tick the next one begins: nobody hears in the tick of the submission
    tick = int(np.ceil(completion))
    if tick >= len(feedback.first):
        return
    if feedback.first[tick] == NO_JOB:
        feedback.first[tick] = job
    else:
        feedback.following[feedback.last[tick]] = job
    feedback.last[tick] = job
