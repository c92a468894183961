"""A grid of many agents, tick by tick (2005, sections 2 and 3).

In a tick agents are replaced, learn from completed jobs, and submit jobs one after the other; the
load is recorded; then each resource works. A wait is the work in the queue over the capacity, so an
agent can learn it at once, as in the paper, or when the job completes.

The agents' knowledge is in structured arrays: compiled code reads a field of a row without counting
references, which would take most of the time with an array for each attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.brokers.agents import rules as agent_rules
from slurm_rl_plugin.brokers.agents.grid import Grid, GridSettings, optimal_split
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_copy, compiled_inline
from slurm_rl_plugin.units import FloatArray, IntArray

experience = compiled_copy(agent_rules.experience)
reward = compiled_copy(agent_rules.reward)
best_score = compiled_copy(agent_rules.best_score)
in_random_order = compiled_copy(agent_rules.in_random_order)
waited_so_far = compiled_copy(agent_rules.waited_so_far)
expected_wait = compiled_copy(agent_rules.expected_wait)
learned_wait = compiled_copy(agent_rules.learned_wait)

#: Of a probing agent: known resources, and weight, recent and fading time of `rules`, in ticks.
#: Chosen on grids of 240 agents and 60 resources (capacities 5-500, jobs 8-800).
KNOWN, WEIGHT, RECENT, FADING = 4, 0.03, 3.0, 300.0
#: The number of no job.
NO_JOB = -1
#: Sum and number of the experiences of a paper's agent.
TALLY = np.dtype([("total", np.float64), ("jobs", np.int64)])
#: A resource of a probing agent, and the agent's knowledge of it.
PLACE = np.dtype(
    [
        ("resource", np.int64),
        ("capacity", np.float64),
        # waits, ticks
        ("mean_wait", np.float64),
        ("last_wait", np.float64),
        # tick of the last news, and the number of news
        ("heard", np.float64),
        ("news", np.int64),
        # end of the agent's own last job, if known at once, tick
        ("busy", np.float64),
        # the agent's jobs without news, or NO_JOB
        ("oldest", np.int64),
        ("newest", np.int64),
    ]
)
#: Rows of a structured array.
Rows = NDArray[np.void]


class AgentMemory(NamedTuple):
    """The agents' knowledge; without rows for agents of another rule."""

    scores: IntArray  #: of each resource, for the paper's agents, shape [agents, R]
    tallies: Rows  #: of TALLY, for the paper's agents, shape [agents]
    places: Rows  #: of PLACE, for probing agents, shape [agents, KNOWN]


@compiled
def forget(memory: AgentMemory, agent: int, capacity: FloatArray, rng: np.random.Generator) -> None:
    """Replace an agent by a new one without knowledge."""
    if len(memory.scores) > 0:
        memory.scores[agent] = 0
        memory.tallies[agent].total = 0.0
        memory.tallies[agent].jobs = 0
    if len(memory.places) > 0:
        _forget_places(memory.places[agent], capacity, rng)


@compiled
def _forget_places(places: Rows, capacity: FloatArray, rng: np.random.Generator) -> None:
    """Draw resources in proportion to capacity, or take all of few, without waits."""
    cumulative = np.cumsum(capacity)
    for number in range(len(places)):
        place = places[number]
        drawn = len(places) < len(capacity)
        resource = _drawn_other(places[:number], cumulative, rng) if drawn else number
        place.resource, place.capacity = resource, capacity[resource]
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
    """Number of the place of a resource; NO_JOB without one."""
    found = NO_JOB
    for number in range(len(places)):
        if places[number].resource == resource:
            found = number
    return found


@compiled_inline
def choose_place(places: Rows, jobs: Rows, job: int, rng: np.random.Generator) -> int:
    """The known resource of an agent with the shortest expected response, any of equal ones."""
    now, size = float(jobs[job].tick), jobs[job].size
    best, shortest = 0, np.inf
    for number in in_random_order(len(places), rng):
        place = places[number]
        known = max(place.busy - now, 0.0)
        if place.oldest != NO_JOB:
            open_job = jobs[place.oldest]
            known = waited_so_far(now - open_job.tick, open_job.size, place.capacity)
        wait = expected_wait(
            place.mean_wait,
            place.last_wait,
            now - place.heard,
            RECENT,
            FADING,
            known,
        )
        response = wait + size / place.capacity
        if response < shortest:
            best, shortest = place.resource, response
    return best


@compiled_inline
def note_sent(places: Rows, jobs: Rows, job: int) -> None:
    """Add a job without news; `later` links the jobs of one place."""
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
    """Remove the oldest job, which completes first under first come, first served."""
    number = place_of(places, resource)
    if number != NO_JOB and places[number].oldest != NO_JOB:
        places[number].oldest = jobs[places[number].oldest].later


#: A job, its resource, and its links in two lists (NO_JOB ends them): jobs with news in the same
#: tick, and jobs that one agent sent to one resource.
JOB = np.dtype(
    [
        ("tick", np.int64),
        ("agent", np.int64),
        ("size", np.float64),
        ("resource", np.int64),
        ("wait", np.float64),
        ("following", np.int64),
        ("later", np.int64),
    ]
)
#: A resource: work a tick, work in its queue, and the ticks that the queue takes.
RESOURCE = np.dtype([("capacity", np.float64), ("backlog", np.float64), ("load", np.float64)])
#: A tick: mean load, first and last job with news in it.
TICK = np.dtype([("load", np.float64), ("first", np.int64), ("last", np.int64)])


class GridState(NamedTuple):
    """The jobs and resources of a grid while it is simulated."""

    jobs: Rows  #: of JOB, shape [n]
    resources: Rows  #: of RESOURCE, shape [R]
    ticks: Rows  #: of TICK, shape [ticks]
    born: IntArray  #: tick in which an agent began, shape [agents]
    split: FloatArray  #: probability of the resources up to each in the optimal split, shape [R]


def begin(settings: GridSettings, grid: Grid) -> GridState:
    """Jobs before their submission, and idle resources."""
    jobs = np.zeros(len(grid.tick), dtype=JOB)
    for name in ("tick", "agent", "size"):
        jobs[name] = getattr(grid, name)
    jobs["following"] = jobs["later"] = NO_JOB
    resources = np.zeros(settings.resources, dtype=RESOURCE)
    resources["capacity"] = grid.capacity
    ticks = np.zeros(settings.ticks, dtype=TICK)
    ticks["first"] = ticks["last"] = NO_JOB
    split = optimal_split(grid.capacity, settings.work_rate, settings.size_variability)
    return GridState(
        jobs=jobs,
        resources=resources,
        ticks=ticks,
        born=np.zeros(settings.agents, dtype=np.int64),
        split=np.cumsum(split),
    )


@compiled_inline
def join_queue(sent: Any, to: Any, chosen: int) -> float:
    """A job enters the queue of a resource; its run time there."""
    sent.resource, sent.wait = chosen, to.load
    to.backlog += sent.size
    to.load = to.backlog / to.capacity
    return sent.size / to.capacity


@compiled
def work(resources: Rows) -> float:
    """A tick of work; the mean load before it."""
    total = 0.0
    for each in range(len(resources)):
        resource = resources[each]
        total += resource.load
        resource.backlog = max(resource.backlog - resource.capacity, 0.0)
        resource.load = resource.backlog / resource.capacity
    return total / len(resources)


@compiled
def least_loaded(resources: Rows, least: IntArray) -> int:
    """The number of resources with the least load, which are filled into `least`."""
    lowest, equal = np.inf, 0
    for each in range(len(resources)):
        load = resources[each].load
        if load < lowest:
            lowest, equal = load, 0
        if load == lowest:
            least[equal] = each
            equal += 1
    return equal


@compiled_inline
def hear_later(jobs: Rows, ticks: Rows, job: int, completion: float) -> None:
    """Put a job into the list of the first tick after its completion, if any."""
    # news come in the next tick at the earliest
    number = int(np.ceil(completion))
    if number < len(ticks):
        tick = ticks[number]
        if tick.first == NO_JOB:
            tick.first = job
        else:
            jobs[tick.last].following = job
        tick.last = job


RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN = "random", "least loaded", "least loaded in turn"
OPTIMAL_SPLIT, PAPER, PROBING = "optimal split", "paper's agents", "probing agents"
RULES = (RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN, OPTIMAL_SPLIT, PAPER, PROBING)
_RANDOM, _LEAST_LOADED, _IN_TURN, _SPLIT, _PAPER, _PROBING = range(len(RULES))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRule:
    """The rule of the agents of a grid, and when they learn."""

    name: str  #: one of RULES
    noise: float = 0.0  #: probability of a random choice instead (2005, section 3.2)
    at_completion: bool = False  #: whether they learn when a job completes, not at submission


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRun:
    """Results of a grid under a rule."""

    #: Queued work / capacity, mean over the resources after a tick's submissions, shape [ticks].
    load: FloatArray
    resource: IntArray  #: of each job, shape [n]
    wait: FloatArray  #: ticks from submission to start, shape [n]
    response: FloatArray  #: ticks from submission to completion, shape [n]
    backlog: FloatArray  #: work left at the end, shape [R]


class _Compiled(NamedTuple):
    """An `AgentRule` for compiled code."""

    rule: int
    noise: float
    at_completion: bool


def run_grid(settings: GridSettings, grid: Grid, rule: AgentRule, seed: int) -> GridRun:
    """Simulate a grid tick by tick: agents submit jobs, resources work, agents learn."""
    compiled_rule = _Compiled(RULES.index(rule.name), rule.noise, rule.at_completion)
    state = begin(settings, grid)
    scoring, probing = (settings.agents if rule.name == each else 0 for each in (PAPER, PROBING))
    memory = AgentMemory(
        scores=np.zeros((scoring, settings.resources), dtype=np.int64),
        tallies=np.zeros(scoring, dtype=TALLY),
        places=np.zeros((probing, min(KNOWN, settings.resources)), dtype=PLACE),
    )
    _run(grid, compiled_rule, memory, np.random.default_rng([seed, 1]), state)
    resource, wait = state.jobs["resource"].copy(), state.jobs["wait"].copy()
    return GridRun(
        load=state.ticks["load"].copy(),
        resource=resource,
        wait=wait,
        response=wait + grid.size / grid.capacity[resource],
        backlog=state.resources["backlog"].copy(),
    )


@compiled
def _run(
    grid: Grid, rule: _Compiled, memory: AgentMemory, rng: np.random.Generator, state: GridState
) -> None:
    """Simulate all ticks: replace leavers, deliver news, submit jobs, work."""
    for agent in range(len(memory.places)):
        forget(memory, agent, grid.capacity, rng)
    least = np.empty(len(state.resources), dtype=np.int64)
    job = leaver = 0
    for tick in range(len(state.ticks)):
        leaver = _replace_leavers(grid, memory, state, leaver, tick, rng)
        _hear(rule, memory, state, tick)
        job = _submit(rule, memory, state, least, job, tick, rng)
        state.ticks[tick].load = work(state.resources)


@compiled
def _replace_leavers(
    grid: Grid,
    memory: AgentMemory,
    state: GridState,
    leaver: int,
    tick: int,
    rng: np.random.Generator,
) -> int:
    """Replace the agents that leave in this tick; the number of the next leaver."""
    while leaver < len(grid.leaver) and grid.leaver_tick[leaver] == tick:
        agent = grid.leaver[leaver]
        state.born[agent] = tick
        forget(memory, agent, grid.capacity, rng)
        leaver += 1
    return leaver


@compiled
def _hear(rule: _Compiled, memory: AgentMemory, state: GridState, tick: int) -> None:
    """Agents learn from their own jobs that completed since the last tick."""
    jobs, resources, born = state.jobs, state.resources, state.born
    scores, tallies, places = memory.scores, memory.tallies, memory.places
    heard = state.ticks[tick].first
    while heard != NO_JOB:
        job = jobs[heard]
        if job.tick >= born[job.agent]:
            if rule.rule == _PROBING:
                note_completed(places[job.agent], jobs, job.resource)
            run_time = job.size / resources[job.resource].capacity
            _learn(rule, scores, tallies, places, job, run_time, tick)
        heard = job.following


@compiled
def _submit(
    rule: _Compiled,
    memory: AgentMemory,
    state: GridState,
    least: IntArray,
    job: int,
    tick: int,
    rng: np.random.Generator,
) -> int:
    """The submissions of a tick, one after the other; the number of the next job."""
    jobs, resources, ticks, split = state.jobs, state.resources, state.ticks, state.split
    scores, tallies, places = memory.scores, memory.tallies, memory.places
    equal = least_loaded(resources, least) if rule.rule == _LEAST_LOADED else 0
    while job < len(jobs) and jobs[job].tick == tick:
        sent = jobs[job]
        agent = sent.agent
        # few arrays are passed on, since counting their references costs as much as the work
        if rule.rule == _RANDOM or (rule.noise > 0.0 and rng.random() < rule.noise):
            chosen = int(rng.random() * len(resources))
        elif rule.rule == _PAPER:
            chosen = best_score(scores[agent], rng.random())
        elif rule.rule == _PROBING:
            chosen = choose_place(places[agent], jobs, job, rng)
        else:
            chosen = _choose_knowing(rule, resources, split, least, equal, rng)
        run_time = join_queue(sent, resources[chosen], chosen)
        if not rule.at_completion:
            _learn(rule, scores, tallies, places, sent, run_time, tick)
        else:
            hear_later(jobs, ticks, job, tick + resources[chosen].load)
            if rule.rule == _PROBING:
                note_sent(places[agent], jobs, job)
        job += 1
    return job


@compiled_inline
def _choose_knowing(
    rule: _Compiled,
    resources: Rows,
    split: FloatArray,
    least: IntArray,
    equal: int,
    rng: np.random.Generator,
) -> int:
    """The resource of a job by a rule that knows all capacities, or all loads."""
    if rule.rule == _SPLIT:
        return min(int(np.searchsorted(split, rng.random(), side="right")), len(split) - 1)
    if rule.rule == _IN_TURN:
        equal = least_loaded(resources, least)
    return least[int(rng.random() * equal)]


@compiled_inline
def _learn(
    rule: _Compiled,
    scores: IntArray,
    tallies: Rows,
    places: Rows,
    job: Any,
    run_time: float,
    tick: int,
) -> None:
    """An agent learns from its job."""
    agent = job.agent
    if rule.rule == _PAPER:
        met = experience(job.wait, run_time, job.size)
        tally = tallies[agent]  # reward a resource for the experience of a job (2005, 2.3)
        scores[agent][job.resource] += reward(met, tally.total, tally.jobs)
        tally.total += met
        tally.jobs += 1
    elif rule.rule == _PROBING:
        number = place_of(places[agent], job.resource)
        if number != NO_JOB:  # noise may send a job to a resource that the agent does not know
            place = places[agent, number]
            place.mean_wait = learned_wait(place.mean_wait, place.news, job.wait, WEIGHT)
            place.last_wait, place.heard = job.wait, float(tick)
            place.news += 1
            if not rule.at_completion:
                place.busy = tick + job.wait + run_time
