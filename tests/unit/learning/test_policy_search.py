"""The search of a network or its linear term: where it begins, its bounds, and going on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.site import RESERVE_FEATURES, SITE
from slurm_rl_plugin.learning import policy_search
from slurm_rl_plugin.learning.algorithms import settings_of, train_policy
from slurm_rl_plugin.learning.policy_search import (
    FEATURE_GROUPS,
    RESERVE_NUMBERS,
    PolicySearchSettings,
    initial_parameters,
    search_bounds,
    searched_places,
    unsearched_network,
)
from slurm_rl_plugin.learning.training_load import (
    TrainingLoad,
    drawn_loads,
    mean_objective,
    rule_objective,
)
from slurm_rl_plugin.policies.network import fixed_scaler, network_from_parameters, parameter_count
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.utility.reward import RewardWeights

SETTINGS = PolicySearchSettings(hidden=2, generations=6, population=6, validate_every=2, seed=5)


def load(seed, jobs=250):
    log = mmn_log(np.random.default_rng(seed), processors=5, jobs=jobs, load=0.99)
    return TrainingLoad.of(prepare_log(log), None, SimulationSettings(capacity=5))


TRAINING, VALIDATION = [load(1), load(2)], [load(3)]


def test_the_search_improves_on_shortest_job_first_where_it_started():
    initial = rule_objective("sjf", TRAINING, SETTINGS.weights)
    found = train_policy(TRAINING, TRAINING, SETTINGS)
    assert found.validation_objective > initial
    assert found.validation_objective == mean_objective(found.network, TRAINING, SETTINGS.weights)
    assert found.curve[0] == (0, initial, initial)


HOLDING = PolicySearchSettings(
    hidden=2, hold=True, searched="reserve", start="sjf", generations=2, population=4
)


def test_a_search_of_the_reserve_leaves_the_order_alone():
    found = train_policy(TRAINING, VALIDATION, HOLDING).network
    order = train_policy(TRAINING, VALIDATION, replace(HOLDING, generations=1)).network
    assert found.linear.tolist() == order.linear.tolist()
    assert found.linear[SITE.jobs.index("interactive")] == 2.0
    assert not found.output.any()
    assert found.reserve_weights is not None
    seen = {name for name, weight in zip(SITE.queue, found.reserve_weights, strict=True) if weight}
    assert seen <= set(RESERVE_FEATURES)


@pytest.mark.parametrize("searched", ["network", "linear"])
@pytest.mark.parametrize("group", sorted(FEATURE_GROUPS))
def test_features_left_out_weigh_nothing_and_are_not_searched(group, searched):
    settings = PolicySearchSettings(
        searched=searched, start="site", history=True, without=group, hidden=2
    )
    parameters = initial_parameters(settings)
    parameters[searched_places(settings)] = np.random.default_rng(1).normal(size=1)
    found = network_from_parameters(SITE, parameters, hidden=2, scaler=fixed_scaler(SITE))
    for name in SITE.jobs:
        place = SITE.jobs.index(name)
        seen = bool(found.linear[place]) or bool(found.job_weights[place].any())
        if name in FEATURE_GROUPS[group]:
            assert not seen
        elif searched == "network":
            assert seen


def test_several_groups_can_be_left_out():
    both = settings_of("policy-search", {"history": "true", "without": "request,alike"})
    left_out = {*FEATURE_GROUPS["request"], *FEATURE_GROUPS["alike"]}
    assert both.unseen == {*left_out, "interactive_points", "share_points"}


#: Features of a request and its wait, without those of goals and the class of a job.
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


TRAINING_LINEAR, VALIDATION_LINEAR = [load(seed) for seed in (1, 2, 3, 4)], [load(5)]


def search_linear(settings=LINEAR, **more):
    return train_policy(TRAINING_LINEAR, VALIDATION_LINEAR, settings, **more)


@pytest.mark.parametrize(
    ("more", "searched"),
    [
        ({}, {*REQUEST, *SITE.history_jobs}),
        ({"history": False, "start": "sjf"}, REQUEST),
    ],
    ids=["history", "no history"],
)
@pytest.mark.parametrize("hold", [False, True])
def test_a_linear_search_leaves_what_goals_set_and_the_class_of_a_job(more, searched, hold):
    places = searched_places(replace(LINEAR, hold=hold, **more))
    scores = parameter_count(SITE, 1)
    names = [SITE.jobs[place - scores] for place in places if place < scores]
    assert sorted(names) == sorted(searched)
    assert places[len(names) :].tolist() == list(range(scores, scores + hold * RESERVE_NUMBERS))


@pytest.mark.parametrize("feature", ["log_age", "overdue"])
def test_waiting_never_counts_against_a_job(feature):
    settings = replace(LINEAR, step=3.0, generations=2)
    seen = []

    def watched(network, loads, weights, together=False):
        seen.append(network.linear[SITE.jobs.index(feature)])
        return -seen[-1]  # the less the better: pushes against the bound

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_search, "mean_objective", watched)
        search_linear(settings)
    for other in ("network", "reserve"):
        assert search_bounds(PolicySearchSettings(searched=other, hold=True)) is None
    assert len(seen) == 2 + 2 * 5 + 2
    assert min(seen) >= 0.0
    assert max(seen) > 0.5


def test_the_loads_of_a_generation_are_drawn_by_the_seed():
    def batches(batch, seed=1):
        return [list(drawn_loads(range(4), batch, seed, step)) for step in range(12)]

    two = batches(2)
    assert {len({*each}) for each in two} == {2}
    assert {place for each in two for place in each} == {0, 1, 2, 3}
    assert batches(2) == two != batches(2, seed=2)
    for enough in (0, 4, 9):
        assert batches(enough) == [[0, 1, 2, 3]] * 12


def test_a_search_begins_where_it_is_told():
    settings = replace(LINEAR, generations=1, validate_every=9)
    start = unsearched_network(settings)
    start.linear[SITE.jobs.index("share_doublings")] = 0.25
    found = search_linear(settings, start=start).network
    assert found.linear[SITE.jobs.index("share_doublings")] == 0.25
