"""What all agents of a simulated grid know, and how a new agent begins.

Rows of structured arrays: compiled code reads a field of a row without counting references, which
would take most of the time where each attribute were an array of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.brokers.agents import rules as agent_rules
from slurm_rl_plugin.brokers.agents.rules import ProbeSettings
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_copy, compiled_inline
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
#: An agent of the paper: sum and number of its jobs' experiences.
TALLY = np.dtype([("total", np.float64), ("jobs", np.int64)])
#: One of the few resources that a probing agent uses, and what it knows of it.
PLACE = np.dtype(
    [
        ("resource", np.int64),
        ("capacity", np.float64),
        # met there, ticks
        ("mean_wait", np.float64),
        ("last_wait", np.float64),
        # tick of the last news, and how often there was any
        ("heard", np.float64),
        ("news", np.int64),
        # tick until which the agent's own last job there will run, where it was told of it at once
        ("busy", np.float64),
        # jobs there of which the agent has not heard, or NO_JOB
        ("oldest", np.int64),
        ("newest", np.int64),
    ]
)
#: Rows of a structured array.
Rows = NDArray[np.void]


class AgentMemory(NamedTuple):
    """What the agents know by their rule; without rows where the rule is another."""

    scores: IntArray  #: of each resource, by the paper's agents, shape [agents, R]
    tallies: Rows  #: of TALLY, by the paper's agents, shape [agents]
    places: Rows  #: of PLACE, by probing agents, shape [agents, M]
    chances: FloatArray  #: of each place to be looked at, by probing agents, shape [agents, M]


def agent_memory(scoring: int, probing: int, resources: int, places: int) -> AgentMemory:
    """Empty memories for so many agents; probing ones begin by `forget`."""
    return AgentMemory(
        scores=np.zeros((scoring, resources), dtype=np.int64),
        tallies=np.zeros(scoring, dtype=TALLY),
        places=np.zeros((probing, places), dtype=PLACE),
        chances=np.zeros((probing, places)),
    )


@compiled
def forget(memory: AgentMemory, agent: int, capacity: FloatArray, rng: np.random.Generator) -> None:
    """A new agent, who knows nothing, takes the place of another."""
    if len(memory.scores) > 0:
        memory.scores[agent] = 0
        memory.tallies[agent].total = 0.0
        memory.tallies[agent].jobs = 0
    if len(memory.places) > 0:
        _forget_places(memory.places[agent], memory.chances[agent], capacity, rng)


@compiled
def _forget_places(
    places: Rows, chances: FloatArray, capacity: FloatArray, rng: np.random.Generator
) -> None:
    """Resources drawn in proportion to capacity, or all, and no waits.

    Where an agent knows all, it looks at them in proportion to capacity; drawn ones it looks at
    alike, since the draw was in proportion already.
    """
    cumulative = np.cumsum(capacity)
    for number in range(len(places)):
        place = places[number]
        drawn = len(places) < len(capacity)
        resource = _drawn_other(places[:number], cumulative, rng) if drawn else number
        place.resource, place.capacity = resource, capacity[resource]
        chances[number] = 1.0 if drawn else capacity[resource]
        place.mean_wait = place.last_wait = place.heard = place.busy = 0.0
        place.news = 0
        place.oldest = place.newest = NO_JOB


@compiled
def _drawn_other(places: Rows, cumulative: FloatArray, rng: np.random.Generator) -> int:
    """A resource that is not among the places, in proportion to its capacity."""
    while True:
        at = rng.random() * cumulative[-1]
        resource = min(np.searchsorted(cumulative, at, side="right"), len(cumulative) - 1)
        if place_of(places, resource) == NO_JOB:
            return resource


@compiled_inline
def place_of(places: Rows, resource: int) -> int:
    """Number of the place of a resource; NO_JOB where it is not among them."""
    found = NO_JOB
    for number in range(len(places)):
        if places[number].resource == resource:
            found = number
    return found


@compiled_inline
def learn_score(scores: IntArray, tally: Any, resource: int, met: float) -> None:
    """Reward a resource for what a job met there (2005, section 2.3)."""
    scores[resource] += reward(met, tally.total, tally.jobs)
    tally.total += met
    tally.jobs += 1


@compiled_inline
def choose_place(
    places: Rows,
    chances: FloatArray,
    jobs: Rows,
    job: int,
    probes: ProbeSettings,
    rng: np.random.Generator,
) -> int:
    """The probed resource of an agent with the shortest expected response."""
    now, size = float(jobs[job].tick), jobs[job].size
    best, shortest = 0, np.inf
    for number in drawn_places(chances, probes.probes, rng):
        place = places[number]
        known = max(place.busy - now, 0.0)
        if place.oldest != NO_JOB:
            open_job = jobs[place.oldest]
            known = waited_so_far(now - open_job.tick, open_job.size, place.capacity)
        wait = expected_wait(
            place.mean_wait,
            place.last_wait,
            now - place.heard,
            probes.recent,
            probes.fading,
            known,
        )
        response = wait + size / place.capacity
        if response < shortest:
            best, shortest = place.resource, response
    return best


@compiled_inline
def note_sent(places: Rows, jobs: Rows, job: int) -> None:
    """Remember a job of which nothing was heard; `later` links the jobs of one place."""
    number = place_of(places, jobs[job].resource)
    if number != NO_JOB:
        place = places[number]
        if place.oldest == NO_JOB:
            place.oldest = job
        else:
            jobs[place.newest].later = job
        place.newest = job


@compiled_inline
def note_completed(places: Rows, jobs: Rows, resource: int) -> None:
    """Forget the oldest one there: first come first served, so it completes first."""
    number = place_of(places, resource)
    if number != NO_JOB and places[number].oldest != NO_JOB:
        places[number].oldest = jobs[places[number].oldest].later


@compiled_inline
def learn_wait(place: Any, wait: float, now: float, weight: float) -> None:
    """Take notice of a wait."""
    place.mean_wait = learned_wait(place.mean_wait, place.news, wait, weight)
    place.last_wait, place.heard = wait, now
    place.news += 1
