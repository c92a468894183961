"""The search repeats itself, goes on after an interruption, and finds something."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import RESERVE_FEATURES, SITE
from slurm_rl_plugin.learning.policy_search import (
    INITIAL_RESERVE,
    RESERVE_STEP,
    PolicySearchSettings,
    initial_parameters,
    search_policy,
)
from slurm_rl_plugin.learning.training_load import (
    TrainingLoad,
    mean_objective,
    rule_objective,
)
from slurm_rl_plugin.policies.network import fixed_scaler, network_from_parameters
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.utility.reward import RewardWeights

SETTINGS = PolicySearchSettings(hidden=2, generations=6, population=6, validate_every=2, seed=5)


def load(seed, jobs=250):
    log = mmn_log(np.random.default_rng(seed), processors=5, jobs=jobs, load=0.99)
    return TrainingLoad.of(prepare_log(log), None, SimulationSettings(capacity=5))


TRAINING, VALIDATION = [load(1), load(2)], [load(3)]


def search(**more):
    settings = replace(SETTINGS, **more.pop("settings", {}))
    return search_policy(TRAINING, VALIDATION, settings, **more)


def weights(trained):
    network = trained.network
    arrays = (network.queue_weights, network.job_weights, network.bias, network.output)
    return b"".join(array.tobytes() for array in (*arrays, network.linear))


@cache
def uninterrupted():
    return search()


class Interrupted(Exception):
    """Stands for a power cut."""


def stop_at(last):
    def progress(generation, _best):
        if generation == last:
            raise Interrupted

    return progress


def spoil(checkpoint):
    """Make the kept objectives such that taking them up shows in the result."""
    key, *kept = checkpoint.read_text().splitlines()
    kept = [json.dumps(json.loads(line)[::-1]) for line in kept]
    checkpoint.write_text("\n".join([key, *kept]) + "\n")


def test_a_resumed_search_takes_up_what_was_kept_instead_of_simulating_again(tmp_path):
    checkpoint = tmp_path / "kept"
    with pytest.raises(Interrupted):
        search(checkpoint=checkpoint, progress=stop_at(3))
    spoil(checkpoint)
    assert weights(search(checkpoint=checkpoint)) != weights(uninterrupted())


@pytest.mark.parametrize(
    "other",
    [
        {"settings": {"step": 0.4}},
        {"settings": {"seed": 6}},
        {"settings": {"weights": RewardWeights(tail=0.03)}},
        {"load_key": "other loads"},
    ],
    ids=["step", "seed", "weights", "loads"],
)
def test_a_checkpoint_of_another_search_is_not_taken_up(tmp_path, other):
    checkpoint = tmp_path / "kept"
    with pytest.raises(Interrupted):
        search(checkpoint=checkpoint, progress=stop_at(3), **other)
    spoil(checkpoint)
    assert weights(search(checkpoint=checkpoint)) == weights(uninterrupted())


@pytest.mark.parametrize("cut", [1, 30], ids=["newline", "half a line"])
def test_a_checkpoint_cut_off_in_its_last_line_is_taken_up_before_it(tmp_path, cut):
    checkpoint = tmp_path / "kept"
    with pytest.raises(Interrupted):
        search(checkpoint=checkpoint, progress=stop_at(3))
    checkpoint.write_bytes(checkpoint.read_bytes()[:-cut])
    assert weights(search(checkpoint=checkpoint)) == weights(uninterrupted())


@pytest.mark.parametrize("content", [b"", b"\n", b"\x00\xff\n", b'{"settings"', b"[]\n[1, 2]\n"])
def test_a_file_that_is_no_checkpoint_is_started_afresh(tmp_path, content):
    checkpoint = tmp_path / "kept"
    checkpoint.write_bytes(content)
    assert weights(search(checkpoint=checkpoint)) == weights(uninterrupted())


def initial_network(hidden):
    return network_from_parameters(
        SITE,
        initial_parameters(PolicySearchSettings(hidden=hidden)),
        hidden=hidden,
        scaler=fixed_scaler(SITE),
    )


def test_the_search_starts_as_shortest_job_first():
    initial = mean_objective(initial_network(2), VALIDATION, SETTINGS.weights)
    assert initial == rule_objective("sjf", VALIDATION, SETTINGS.weights)


def test_the_search_improves_on_where_it_started():
    initial = mean_objective(initial_network(2), TRAINING, SETTINGS.weights)
    found = search_policy(TRAINING, TRAINING, SETTINGS)
    assert found.validation_objective > initial
    assert found.validation_objective == mean_objective(found.network, TRAINING, SETTINGS.weights)
    assert found.curve[0] == (0, initial, initial)


HOLDING = PolicySearchSettings(
    hidden=2, hold=True, searched="reserve", start="sjf", generations=2, population=4
)


def test_a_search_of_the_reserve_leaves_the_order_alone():
    found = search_policy(TRAINING, VALIDATION, HOLDING).network
    order = search_policy(TRAINING, VALIDATION, replace(HOLDING, generations=1)).network
    assert found.linear.tolist() == order.linear.tolist()
    assert found.linear[SITE.jobs.index("interactive")] == 2.0
    assert not found.output.any()
    assert found.reserve_weights is not None
    seen = {name for name, weight in zip(SITE.queue, found.reserve_weights, strict=True) if weight}
    assert seen <= set(RESERVE_FEATURES)


def test_a_search_that_may_hold_starts_with_two_processors_held():
    parameters = initial_parameters(HOLDING)
    assert parameters[-1] * RESERVE_STEP == INITIAL_RESERVE == 2.0
    settings = SimulationSettings(capacity=TRAINING[0].settings.capacity, reserve=2)
    network = search_policy(TRAINING, TRAINING, replace(HOLDING, generations=1)).network
    held = replace(network, reserve_weights=np.zeros(len(SITE.queue)), reserve_bias=2.0)
    greedy = replace(network, reserve_weights=None, reserve_bias=0.0)
    load = TRAINING[0]
    asked = simulate_network(load.workload, held, load.settings).start
    assert asked.tolist() == simulate_network(load.workload, greedy, settings).start.tolist()


@pytest.mark.parametrize(
    "wrong", [{"start": "longest"}, {"searched": "reserve"}], ids=["order", "reserve without hold"]
)
def test_settings_that_make_no_search_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=r"start is 'longest'|give --hold as well"):
        PolicySearchSettings(**wrong)
