"""What all agents of a simulated grid know, as arrays, and how a new agent begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers import agent_rules
from slurm_rl_plugin.simulator.compilation import compiled, compiled_copy
from slurm_rl_plugin.units import FloatArray, IntArray

experience = compiled_copy(agent_rules.experience)
reward = compiled_copy(agent_rules.reward)
best_score = compiled_copy(agent_rules.best_score)
drawn_places = compiled_copy(agent_rules.drawn_places)
expected_response = compiled_copy(agent_rules.expected_response)
learned_wait = compiled_copy(agent_rules.learned_wait)


class ScoreMemory(NamedTuple):
    """Agents of the paper.

    Attributes:
        score: of each resource, shape [agents, R].
        total, count: sum and number of their jobs' experiences, shape [agents].
    """

    score: IntArray
    total: FloatArray
    count: IntArray


class WaitMemory(NamedTuple):
    """Probing agents.

    Attributes:
        known: the few resources that each agent uses, shape [agents, M].
        chance: of being looked at, shape [agents, M].
        mean_wait: met there, ticks, shape [agents, M].
        heard: tick of the last news, shape [agents, M].
        count: of news, shape [agents, M].
    """

    known: IntArray
    chance: FloatArray
    mean_wait: FloatArray
    heard: FloatArray
    count: IntArray


def score_memory(agents: int, resources: int) -> ScoreMemory:
    """Agents who have no preference yet."""
    return ScoreMemory(
        score=np.zeros((agents, resources), dtype=np.int64),
        total=np.zeros(agents),
        count=np.zeros(agents, dtype=np.int64),
    )


def wait_memory(agents: int, places: int) -> WaitMemory:
    """Room for agents; each begins by `forget_waits`."""
    return WaitMemory(
        known=np.zeros((agents, places), dtype=np.int64),
        chance=np.zeros((agents, places)),
        mean_wait=np.zeros((agents, places)),
        heard=np.zeros((agents, places)),
        count=np.zeros((agents, places), dtype=np.int64),
    )


@compiled
def forget_scores(memory: ScoreMemory, agent: int) -> None:
    """A new agent takes the place of another."""
    if len(memory.count) > 0:
        memory.score[agent] = 0
        memory.total[agent] = 0.0
        memory.count[agent] = 0


@compiled
def learn_score(
    memory: ScoreMemory, agent: int, resource: int, wait: float, run_time: float, size: float
) -> None:
    """Reward a resource for a job (2005, section 2.3)."""
    met = experience(wait, run_time, size)
    memory.score[agent, resource] += reward(met, memory.total[agent], memory.count[agent])
    memory.total[agent] += met
    memory.count[agent] += 1


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
    memory.heard[agent] = 0.0
    memory.count[agent] = 0


@compiled
def _draw_known(
    known: IntArray, cumulative: FloatArray, rng: np.random.Generator
) -> None:
    """Fill with different resources; each is drawn in proportion to its capacity."""
    drawn = 0
    while drawn < len(known):
        at = rng.random() * cumulative[-1]
        resource = min(np.searchsorted(cumulative, at, side="right"), len(cumulative) - 1)
        if not (known[:drawn] == resource).any():
            known[drawn] = resource
            drawn += 1


@compiled
def choose_place(
    memory: WaitMemory,
    agent: int,
    size: float,
    now: float,
    capacity: FloatArray,
    probes: int,
    fading: float,
    rng: np.random.Generator,
) -> int:
    """Place of the probed resource with the shortest expected response."""
    best, shortest = 0, np.inf
    for place in drawn_places(memory.chance[agent], probes, rng):
        response = expected_response(
            memory.mean_wait[agent, place],
            now - memory.heard[agent, place],
            fading,
            size,
            capacity[memory.known[agent, place]],
        )
        if response < shortest:
            best, shortest = place, response
    return best


@compiled
def learn_wait(
    memory: WaitMemory, agent: int, resource: int, wait: float, now: float, weight: float
) -> None:
    """Take notice of a wait at a resource; of one that the agent does not use nothing is kept."""
    for place in range(memory.known.shape[1]):
        if memory.known[agent, place] == resource:
            count = memory.count[agent, place]
            mean = learned_wait(memory.mean_wait[agent, place], count, wait, weight)
            memory.mean_wait[agent, place] = mean
            memory.heard[agent, place] = now
            memory.count[agent, place] = count + 1
