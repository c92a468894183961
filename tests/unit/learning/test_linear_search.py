"""A search of the linear term, in batches, over a network that looks at past runs."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning import policy_search
from slurm_rl_plugin.learning.algorithms import train_policy
from slurm_rl_plugin.learning.policy_search import (
    RESERVE_NUMBERS,
    PolicySearchSettings,
    initial_parameters,
    searched_places,
    unsearched_network,
)
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.network import parameter_count
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.utility.reward import RewardWeights

#: What a request and its wait tell, without what goals alone set and without the class of a job.
REQUEST = {"log_size", "log_time_limit", "log_age", "overdue"}
FLAT = RewardWeights(tail=0.0, slowdown=10.0)
LINEAR = PolicySearchSettings(
    hidden=1,
    generations=3,
    population=5,
    validate_every=1,
    searched="linear",
    start="site",
    history=True,
    weights=FLAT,
    batch=2,
)


def load(seed):
    """Users who mostly do the same again, so that past runs tell something."""
    rng = np.random.default_rng(seed)
    log = mmn_log(rng, processors=5, jobs=150, load=0.99)
    user = rng.integers(0, 4, 150)
    run_time = log.run_time * np.array([0.01, 0.1, 1.0, 3.0])[user]
    log = replace(log, user=user, users=tuple("abcd"), run_time=np.maximum(run_time, 1.0))
    log = replace(log, time_limit=np.full(150, 36000.0))
    return TrainingLoad.of(prepare_log(log), None, SimulationSettings(capacity=5))


TRAINING, VALIDATION = [load(seed) for seed in (1, 2, 3, 4)], [load(5)]


def search(settings=LINEAR, **more):
    return train_policy(TRAINING, VALIDATION, settings, **more)


@cache
def found():
    return search()


@pytest.fixture
def hill(monkeypatch):
    """Instead of simulating: the higher, the nearer all searched weights are to one half."""

    def height(network, loads, weights, threads=1):
        parts = [network.linear, network.job_weights.ravel(), network.output]
        return -float(np.square(np.concatenate(parts) - 0.5).sum())

    monkeypatch.setattr(policy_search, "mean_objective", height)


@pytest.mark.parametrize(
    ("more", "searched"),
    [
        ({}, {*REQUEST, *SITE.history_jobs}),
        ({"weights": RewardWeights()}, {*REQUEST, *SITE.history_jobs}),
        ({"history": False, "start": "sjf"}, REQUEST),
    ],
    ids=["history", "tail", "no history"],
)
@pytest.mark.parametrize("hold", [False, True])
def test_a_linear_search_leaves_what_goals_set_and_the_class_of_a_job(more, searched, hold, hill):
    settings = replace(LINEAR, hold=hold, generations=9, **more)
    places = searched_places(settings)
    scores = parameter_count(SITE, 1)
    names = [SITE.jobs[place - scores] for place in places if place < scores]
    assert set(names) == searched
    assert len(names) == len(searched)
    assert (places < scores + hold * RESERVE_NUMBERS).all()
    assert (places >= scores).sum() == hold * RESERVE_NUMBERS
    network = search(settings).network
    start = initial_parameters(settings)[scores - len(SITE.jobs) : scores]
    changed = [
        name for name, changed in zip(SITE.jobs, network.linear != start, strict=True) if changed
    ]
    assert set(changed) == searched
    assert not network.output.any()
    assert not network.job_weights.any()
    assert not network.queue_weights.any()


@pytest.mark.parametrize("feature", ["log_age", "overdue"])
def test_waiting_never_counts_against_a_job(feature):
    settings = replace(LINEAR, step=3.0, generations=2)
    seen = []

    def watched(network, loads, weights, threads=1):
        seen.append(network.linear[SITE.jobs.index(feature)])
        return -seen[-1]  # the less the better: pushes against the bound

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_search, "mean_objective", watched)
        search(settings)
    assert len(seen) == 2 + 2 * 5 + 2
    assert min(seen) >= 0.0
    assert max(seen) > 0.5


def drawn_loads(settings, **more):
    """Which training loads each candidate of each generation met."""
    numbers = {id(load): number for number, load in enumerate(TRAINING)}
    met = []

    def watched(network, loads, weights, threads=1):
        if loads is not VALIDATION:
            met.append(tuple(numbers[id(load)] for load in loads))
        return float(network.linear.sum())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_search, "mean_objective", watched)
        search(settings, **more)
    return [set(met[1 + 5 * each : 6 + 5 * each]) for each in range(settings.generations)]


def test_all_candidates_of_a_generation_meet_the_same_loads_drawn_by_the_seed():
    many = replace(LINEAR, generations=12)
    batches = drawn_loads(many)
    assert [len(each) for each in batches] == [1] * 12
    chosen = [each for (each,) in batches]
    assert {len(set(each)) for each in chosen} == {2}
    assert {number for each in chosen for number in each} == {0, 1, 2, 3}
    assert drawn_loads(many) == batches
    assert drawn_loads(replace(many, seed=2)) != batches
    for enough in (0, 4, 9):
        assert drawn_loads(replace(LINEAR, batch=enough)) == [{(0, 1, 2, 3)}] * 3


def test_a_search_begins_where_it_is_told():
    settings = replace(LINEAR, generations=1, validate_every=9)
    start = unsearched_network(settings)
    start.linear[SITE.jobs.index("share_doublings")] = 0.25
    found = search(settings, start=start).network
    assert found.linear[SITE.jobs.index("share_doublings")] == 0.25
