"""What all agents of a simulated grid know, as arrays, and how a new agent begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers import agent_rules
from slurm_rl_plugin.brokers.agent_grid import Grid
from slurm_rl_plugin.brokers.agent_rules import ProbeSettings
from slurm_rl_plugin.simulator.compilation import compiled, compiled_copy, compiled_inline
from slurm_rl_plugin.units import FloatArray, IntArray

experience = compiled_copy(agent_rules.experience)
reward = compiled_copy(agent_rules.reward)
best_score = compiled_copy(agent_rules.best_score)
drawn_places = compiled_copy(agent_rules.drawn_places)
waited_so_far = compiled_copy(agent_rules.waited_so_far)
expected_wait = compiled_copy(agent_rules.expected_wait)
learned_wait = compiled_copy(agent_rules.learned_wait)

#: Number that stands for no job.
NO_JOB = -1


class ScoreMemory(NamedTuple):
    """Agents of the paper.

    Attributes:
        score: of each resource, shape [agents, R].
        total, jobs: sum and number of their jobs' experiences, shape [agents].
    """

    score: IntArray
    total: FloatArray
    jobs: IntArray


class WaitMemory(NamedTuple):
    """Probing agents.

    Attributes:
        known: the few resources that each agent uses, shape [agents, M].
        chance: of being looked at, shape [agents, M].
        mean_wait, last_wait: met there, ticks, shape [agents, M].
        heard: tick of the last news, shape [agents, M].
        busy: tick until which the agent's own last job there will run, where it was told of it
            when it submitted, shape [agents, M].
        news: how often it heard, shape [agents, M].
        oldest, newest: job there of which the agent has not heard, or NO_JOB, shape [agents, M].
    """

    known: IntArray
    chance: FloatArray
    mean_wait: FloatArray
    last_wait: FloatArray
    heard: FloatArray
    busy: FloatArray
    news: IntArray
    oldest: IntArray
    newest: IntArray


def score_memory(agents: int, resources: int) -> ScoreMemory:
    """Agents who have no preference yet."""
    return ScoreMemory(
        score=np.zeros((agents, resources), dtype=np.int64),
        total=np.zeros(agents),
        jobs=np.zeros(agents, dtype=np.int64),
    )


def wait_memory(agents: int, places: int) -> WaitMemory:
    """Room for agents; each begins by `forget_waits`."""
    return WaitMemory(
        known=np.zeros((agents, places), dtype=np.int64),
        chance=np.zeros((agents, places)),
        mean_wait=np.zeros((agents, places)),
        last_wait=np.zeros((agents, places)),
        heard=np.zeros((agents, places)),
        busy=np.zeros((agents, places)),
        news=np.zeros((agents, places), dtype=np.int64),
        oldest=np.full((agents, places), NO_JOB),
        newest=np.full((agents, places), NO_JOB),
    )


@compiled
def forget_scores(memory: ScoreMemory, agent: int) -> None:
    """A new agent takes the place of another."""
    if len(memory.jobs) > 0:
        memory.score[agent] = 0
        memory.total[agent] = 0.0
        memory.jobs[agent] = 0


@compiled_inline
def learn_score(
    memory: ScoreMemory, agent: int, resource: int, wait: float, run_time: float, size: float
) -> None:
    """Reward a resource for a job (2005, section 2.3)."""
    met = experience(wait, run_time, size)
    memory.score[agent, resource] += reward(met, memory.total[agent], memory.jobs[agent])
    memory.total[agent] += met
    memory.jobs[agent] += 1


@compiled
def forget_waits(
    memory: WaitMemory, agent: int, capacity: FloatArray, rng: np.random.Generator
) -> None:
    """A new agent, who knows resources drawn in proportion to capacity, or all, and no waits.

    Where it knows all, it looks at them in proportion to capacity; drawn ones it looks at alike,
    since the draw was in proportion already.
    """
    if len(memory.known) == 0:
        return
    places = memory.known.shape[1]
    if places < len(capacity):
        _draw_known(memory.known[agent], np.cumsum(capacity), rng)
        memory.chance[agent] = 1.0
    else:
        memory.known[agent] = np.arange(places)
        memory.chance[agent] = capacity
    memory.mean_wait[agent] = 0.0
    memory.last_wait[agent] = 0.0
    memory.heard[agent] = 0.0
    memory.busy[agent] = 0.0
    memory.news[agent] = 0
    memory.oldest[agent] = NO_JOB
    memory.newest[agent] = NO_JOB


@compiled
def _draw_known(known: IntArray, cumulative: FloatArray, rng: np.random.Generator) -> None:
    """Fill with different resources; each is drawn in proportion to its capacity."""
    drawn = 0
    while drawn < len(known):
        at = rng.random() * cumulative[-1]
        resource = min(np.searchsorted(cumulative, at, side="right"), len(cumulative) - 1)
        if not (known[:drawn] == resource).any():
            known[drawn] = resource
            drawn += 1


@compiled_inline
def choose_place(
    memory: WaitMemory, grid: Grid, job: int, probes: ProbeSettings, rng: np.random.Generator
) -> int:
    """Place of the probed resource with the shortest expected response."""
    agent, now = grid.agent[job], float(grid.tick[job])
    best, shortest = 0, np.inf
    for place in drawn_places(memory.chance[agent], probes.probes, rng):
        wait = expected_wait(
            memory.mean_wait[agent, place],
            memory.last_wait[agent, place],
            now - memory.heard[agent, place],
            probes.recent,
            probes.fading,
            _known_wait(memory, grid, agent, place, now),
        )
        response = wait + grid.size[job] / grid.capacity[memory.known[agent, place]]
        if response < shortest:
            best, shortest = place, response
    return best


@compiled_inline
def _known_wait(memory: WaitMemory, grid: Grid, agent: int, place: int, now: float) -> float:
    """What the agent's own last job there tells of the wait for certain."""
    oldest = memory.oldest[agent, place]
    if oldest == NO_JOB:
        return max(memory.busy[agent, place] - now, 0.0)
    capacity = grid.capacity[memory.known[agent, place]]
    return waited_so_far(now - grid.tick[oldest], grid.size[oldest], capacity)


@compiled_inline
def note_sent(memory: WaitMemory, agent: int, place: int, job: int, later: IntArray) -> None:
    """Remember a job of which nothing was heard; `later` links jobs of one place, shape [n]."""
    if memory.oldest[agent, place] == NO_JOB:
        memory.oldest[agent, place] = job
    else:
        later[memory.newest[agent, place]] = job
    memory.newest[agent, place] = job


@compiled_inline
def note_completed(memory: WaitMemory, agent: int, place: int, later: IntArray) -> None:
    """Forget the oldest one: first come first served, so it completes first."""
    oldest = memory.oldest[agent, place]
    if oldest != NO_JOB:
        memory.oldest[agent, place] = later[oldest]


@compiled_inline
def place_of(memory: WaitMemory, agent: int, resource: int) -> int:
    """Place of a resource that the agent uses; NO_JOB where it does not."""
    for place in range(memory.known.shape[1]):
        if memory.known[agent, place] == resource:
            return place
    return NO_JOB


@compiled_inline
def learn_wait(
    memory: WaitMemory, agent: int, place: int, wait: float, now: float, weight: float
) -> None:
    """Take notice of a wait."""
    news = memory.news[agent, place]
    mean = learned_wait(memory.mean_wait[agent, place], news, wait, weight)
    memory.mean_wait[agent, place] = mean
    memory.last_wait[agent, place] = wait
    memory.heard[agent, place] = now
    memory.news[agent, place] = news + 1
