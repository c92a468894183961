"""Agents that learn where to send jobs: rules, the compiled grid, the optimal split."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.brokers.agents import rules as agent_rules
from slurm_rl_plugin.brokers.agents.grid import Grid, GridSettings, draw_grid, optimal_split
from slurm_rl_plugin.brokers.agents.rules import (
    best_score,
    expected_wait,
    experience,
    in_random_order,
    learned_wait,
    reward,
    waited_so_far,
)
from slurm_rl_plugin.brokers.agents.simulation import (
    FADING,
    KNOWN,
    LEAST_LOADED,
    LEAST_LOADED_IN_TURN,
    PAPER,
    PROBING,
    RECENT,
    RULES,
    WEIGHT,
    AgentRule,
    run_grid,
)
from slurm_rl_plugin.units import FloatArray

SCORES = np.array([2, 5, -1, 5, 5])
#: mean 10, last wait 40, recent 5, fading 100.
WAITS = (10.0, 40.0)


@pytest.mark.parametrize(
    ("rule", "arguments", "value"),
    [
        # Tw + (Texc / J) = 7 + 50 / 200; (Tw + Texc) / J would be 0.285
        (experience, (7.0, 50.0, 200.0), 7.25),
        (reward, (3.0, 0.0, 0), 0),  # the first job has nothing to compare with
        (reward, (3.0, 10.0, 2), 1),  # better than 5
        (reward, (9.0, 10.0, 2), -1),
        (reward, (5.9, 10.2, 2), 0),  # integer parts are compared: 5 and 5
        (reward, (4.9, 10.2, 2), 1),
        # the highest score wins, and chance breaks ties evenly
        *(
            (best_score, (SCORES, chance), place)
            for chance, place in ((0.0, 1), (0.3, 1), (0.34, 3), (0.6, 3), (0.67, 4), (0.999, 4))
        ),
        (best_score, (np.array([0, 1, 0]), 0.9), 1),
        # the mean is plain first, then weighted
        (learned_wait, (0.0, 0, 4.0, 0.25), 4.0),
        (learned_wait, (6.0, 2, 0.0, 0.25), 4.0),
        (learned_wait, (4.0, 99, 12.0, 0.25), 6.0),
        # the last wait falls back to the mean, which fades; what is certain comes first
        (expected_wait, (*WAITS, 0.0, 5.0, 100.0, 0.0), 40.0),
        (expected_wait, (*WAITS, 5.0, 5.0, 100.0, 0.0), 10.0 * math.exp(-0.05) + 30.0 / math.e),
        (expected_wait, (*WAITS, 100.0, 5.0, 100.0, 0.0), 10.0 / math.e),
        (expected_wait, (*WAITS, 100.0, 5.0, 100.0, 20.0), 20.0),
        (expected_wait, (*WAITS, 0.0, 5.0, 100.0, 20.0), 40.0),
        # a job that has not completed has waited what it cannot have run
        (waited_so_far, (30.0, 100.0, 10.0), 20.0),
        (waited_so_far, (5.0, 100.0, 10.0), 0.0),
    ],
)
def test_rules(rule: Callable[..., float], arguments: tuple[Any, ...], value: float) -> None:
    assert rule(*arguments) == pytest.approx(value)


def test_every_order_is_as_likely() -> None:
    rng = np.random.default_rng(1)
    orders = [tuple(in_random_order(3, rng).tolist()) for _ in range(6000)]
    counts = {each: orders.count(each) for each in permutations(range(3))}
    assert sum(counts.values()) == 6000
    assert list(counts.values()) == pytest.approx([1000] * 6, abs=4 * math.sqrt(1000))


GRIDS = st.builds(
    GridSettings,
    agents=st.integers(1, 6),
    resources=st.integers(1, 7),
    ticks=st.integers(1, 40),
    rate=st.floats(0.05, 0.9),
    capacity=st.just((10.0, 200.0)),
    job_size=st.just((10.0, 400.0)),
    leaving=st.sampled_from([0.0, 0.1]),
)
RULE = st.builds(
    AgentRule,
    name=st.sampled_from(RULES),
    noise=st.sampled_from([0.0, 0.2]),
    at_completion=st.booleans(),
)


@settings(deadline=None, max_examples=60)
@given(size=GRIDS, rule=RULE, seed=st.integers(0, 10**6))
def test_load_is_the_work_in_the_system_and_none_is_lost(
    size: GridSettings, rule: AgentRule, seed: int
) -> None:
    grid = draw_grid(size, seed)
    run = run_grid(size, grid, rule, seed)
    backlog, done = np.zeros(size.resources), 0.0
    for tick in range(size.ticks):
        for job in np.flatnonzero(grid.tick == tick):
            chosen = run.resource[job]
            assert run.wait[job] == backlog[chosen] / grid.capacity[chosen]
            backlog[chosen] += grid.size[job]
        assert run.load[tick] == pytest.approx((backlog / grid.capacity).mean())
        worked = np.minimum(backlog, grid.capacity)
        backlog, done = backlog - worked, done + worked.sum()
    assert run.backlog == pytest.approx(backlog, abs=1e-9)
    assert done + run.backlog.sum() == pytest.approx(grid.size.sum())
    assert run.response == pytest.approx(run.wait + grid.size / grid.capacity[run.resource])


class ReadableAgents:
    """Readable agents, which learn of a job only when they may know it."""

    def __init__(self, size: GridSettings, grid: Grid, rule: AgentRule, seed: int) -> None:
        self.grid, self.rule = grid, rule
        self.known = min(KNOWN, size.resources)
        self.rng = np.random.default_rng([seed, 1])
        self.born = dict.fromkeys(range(size.agents), 0)
        self.places = {}
        if rule.name == PROBING:
            self.places = {agent: self.draw_places() for agent in range(size.agents)}
        self.met = defaultdict(list)  # agent -> what its jobs met, in order of news
        self.scores = defaultdict(lambda: np.zeros(size.resources, dtype=np.int64))
        self.news = defaultdict(list)  # agent, resource -> (tick, wait)
        self.mean = defaultdict(float)
        self.open = defaultdict(list)  # agent, resource -> jobs without news
        self.busy = defaultdict(float)

    def draw_places(self) -> list[int]:
        if self.known == len(self.grid.capacity):
            return list(range(self.known))
        cumulative, places = np.cumsum(self.grid.capacity), []
        while len(places) < self.known:
            at = self.rng.random() * cumulative[-1]
            place = int(np.searchsorted(cumulative, at, side="right"))
            if place not in places:
                places.append(place)
        return places

    def replace(self, agent: int, tick: int) -> None:
        self.born[agent] = tick
        self.met.pop(agent, None)
        self.scores.pop(agent, None)
        for memory in (self.news, self.mean, self.open, self.busy):
            for key in [each for each in memory if each[0] == agent]:
                del memory[key]
        if self.rule.name == PROBING:
            self.places[agent] = self.draw_places()

    def choose(self, job: int) -> int:
        agent, resources = int(self.grid.agent[job]), len(self.grid.capacity)
        if self.rule.noise > 0.0 and self.rng.random() < self.rule.noise:
            return int(self.rng.random() * resources)
        if self.rule.name == PAPER:
            return agent_rules.best_score(self.scores[agent], self.rng.random())
        places = self.places[agent]
        drawn = [places[each] for each in agent_rules.in_random_order(self.known, self.rng)]
        return min(drawn, key=lambda resource: self.expected(job, resource))

    def expected(self, job: int, resource: int) -> float:
        agent, now = int(self.grid.agent[job]), float(self.grid.tick[job])
        key, capacity = (agent, resource), self.grid.capacity[resource]
        heard, last = self.news[key][-1] if self.news[key] else (0.0, 0.0)
        known = max(self.busy[key] - now, 0.0)
        if self.open[key]:
            first = self.open[key][0]
            age = now - self.grid.tick[first]
            known = agent_rules.waited_so_far(age, self.grid.size[first], capacity)
        mean = self.mean[key]
        wait = agent_rules.expected_wait(mean, last, now - heard, RECENT, FADING, known)
        return wait + self.grid.size[job] / capacity

    def sent(self, job: int, resource: int) -> None:
        self.open[int(self.grid.agent[job]), resource].append(job)

    def told(self, job: int, resource: int, wait: float, tick: int) -> None:
        agent = int(self.grid.agent[job])
        if self.grid.tick[job] < self.born[agent]:
            return
        key, run_time = (agent, resource), self.grid.size[job] / self.grid.capacity[resource]
        if job in self.open[key]:
            self.open[key].remove(job)
        else:
            self.busy[key] = tick + wait + run_time
        met = agent_rules.experience(wait, run_time, self.grid.size[job])
        earlier = self.met[agent]
        gained = agent_rules.reward(met, sum(earlier), len(earlier))
        self.scores[agent][resource] += gained
        earlier.append(met)
        count = len(self.news[key])
        self.mean[key] = agent_rules.learned_wait(self.mean[key], count, wait, WEIGHT)
        self.news[key].append((float(tick), wait))


def readable_choices(size: GridSettings, grid: Grid, rule: AgentRule, seed: int) -> list[int]:
    """Each tick an agent learns only of jobs that had completed by then."""
    agents = ReadableAgents(size, grid, rule, seed)
    backlog, untold, chosen = np.zeros(size.resources), [], []
    for tick in range(size.ticks):
        for leaver in grid.leaver[grid.leaver_tick == tick]:
            agents.replace(int(leaver), tick)
        for entry in [each for each in untold if each[0] <= tick]:
            untold.remove(entry)
            agents.told(*entry[1:], tick)
        for job in np.flatnonzero(grid.tick == tick):
            resource = int(agents.choose(job))
            wait = backlog[resource] / grid.capacity[resource]
            backlog[resource] += grid.size[job]
            chosen.append(resource)
            if rule.at_completion:
                agents.sent(job, resource)
                completion = tick + backlog[resource] / grid.capacity[resource]
                untold.append((math.ceil(completion), job, resource, wait))
                untold.sort(key=lambda each: each[:2])
            else:
                agents.told(job, resource, wait, tick)
        backlog = np.maximum(backlog - grid.capacity, 0.0)
    return chosen


@settings(deadline=None, max_examples=60)
@given(
    size=GRIDS,
    rule=RULE.filter(lambda rule: rule.name in (PAPER, PROBING)),
    seed=st.integers(0, 10**6),
)
def test_agents_choose_as_readable_ones_who_hear_only_of_completed_jobs(
    size: GridSettings, rule: AgentRule, seed: int
) -> None:
    grid = draw_grid(size, seed)
    run = run_grid(size, grid, rule, seed)
    assert run.resource.tolist() == readable_choices(size, grid, rule, seed)


def test_least_loaded_sees_the_tick_before_and_in_turn_every_job() -> None:
    size = GridSettings(agents=40, resources=40, ticks=1, rate=0.99, capacity=(10.0, 20.0))
    grid = draw_grid(size, 1)
    in_turn = run_grid(size, grid, AgentRule(name=LEAST_LOADED_IN_TURN), 1)
    assert len(set(in_turn.resource.tolist())) == len(grid.tick)  # an empty one is left for each
    snapshot = run_grid(size, grid, AgentRule(name=LEAST_LOADED), 1)
    assert len(set(snapshot.resource.tolist())) < len(grid.tick)  # all seemed empty


CAPACITIES = st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=12).map(np.array)


@given(capacity=CAPACITIES, load=st.floats(0.05, 0.95), k=st.floats(1.0, 4.0))
def test_one_more_unit_of_work_costs_the_same_wherever_there_is_any(
    capacity: FloatArray, load: float, k: float
) -> None:
    """The derivative of the mean response of Pollaczek-Khinchine, which the optimum equals."""
    work = load * capacity.sum()
    split = optimal_split(capacity, work, k)
    assert split.sum() == pytest.approx(1.0)
    busy = split * work / capacity
    cost = (1.0 + k / 2.0 * busy * (2.0 - busy) / (1.0 - busy) ** 2) / capacity
    used = split > 0.0
    assert cost[used] == pytest.approx(cost[used].max(), rel=1e-6)
    assert (cost[~used] >= cost[used].max() * (1.0 - 1e-6)).all()


def test_a_slow_resource_is_left_out_and_too_much_work_is_split_in_proportion() -> None:
    split = optimal_split(np.array([1.0, 1000.0, 1000.0]), 100.0, 1.3)
    assert split == pytest.approx([0.0, 0.5, 0.5])
    assert optimal_split(np.array([1.0, 3.0]), 4.0, 1.3).tolist() == [0.25, 0.75]
