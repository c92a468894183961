"""What every training algorithm must do: `slurm-rl train --algorithm` promises the same of all."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import StartedJobs
from slurm_rl_plugin.domain.goals import AS_TRAINED
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.columns import feature_columns
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_history import ARRIVAL_MEMORY, recent_arrivals
from slurm_rl_plugin.learning.algorithms import (
    ALGORITHMS,
    PRESETS,
    Settings,
    schema_of,
    settings_of,
    steps_of,
    train_policy,
)
from slurm_rl_plugin.learning.onnx_file import export_model, import_model
from slurm_rl_plugin.learning.training_load import TrainedPolicy, TrainingLoad
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.fakes.power_cut import Interrupted, stop_at
from tests.functional.typed import rows_of
from tests.reference.loads import random_workload, snapshot_of
from tests.reference.readable_simulator import Moment

#: Every algorithm, and fitted Q for the other schema: what is trained -> preset.
KINDS = {**dict.fromkeys(ALGORITHMS), "fitted-q slowdown": "slowdown"}
SMALL = {
    "policy-search": {"hidden": "2", "generations": "3", "population": "4", "validate_every": "1"},
    "sarsa": {"hidden": "3", "sweeps": "3", "pretraining_sweeps": "1"},
    "fitted-q": {"hidden": "3", "iterations": "3", "passes": "2"},
    "echo-state": {"iterations": "3"},
    "site-utility": {"hidden": "3", "rounds": "3", "states": "4", "horizon": "1800", "passes": "2"},
    "fitted-q slowdown": {"iterations": "3", "passes": "2", "batch": "1"},
}
EVERY = pytest.mark.parametrize("name", list(ALGORITHMS))
EVERY_KIND = pytest.mark.parametrize("name", list(KINDS))


def small_settings(name: str) -> Settings:
    """Of one of KINDS."""
    return settings_of(name.split(maxsplit=1)[0], SMALL[name], preset=KINDS[name])


def load_of(seed: int) -> TrainingLoad:
    log = prepare_log(mmn_log(np.random.default_rng(seed), processors=6, jobs=250))
    return TrainingLoad.of(log, None, SimulationSettings(capacity=6))


TRAINING, VALIDATION = [load_of(1), load_of(2)], [load_of(3)]


def trained(name: str, **more: object) -> TrainedPolicy:
    return train_policy(TRAINING, VALIDATION, small_settings(name), **more)  # type: ignore[arg-type]


def content_of(policy: TrainedPolicy, folder: Path) -> bytes:
    export_model(policy.network, folder / "model.onnx", {})
    return (folder / "model.onnx").read_bytes()


@EVERY_KIND
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    name: str, tmp_path: Path
) -> None:
    first, second = trained(name), trained(name)
    assert content_of(first, tmp_path) == content_of(second, tmp_path)
    assert first.curve == second.curve
    settings = replace(small_settings(name), seed=77)
    assert train_policy(TRAINING, VALIDATION, settings).curve != first.curve


@EVERY_KIND
def test_an_interrupted_training_goes_on_to_the_same_result(name: str, tmp_path: Path) -> None:
    whole = trained(name)
    checkpoint = tmp_path / "checkpoint"

    def stop(after: int, **more: object) -> None:
        with pytest.raises(Interrupted):
            trained(name, checkpoint=checkpoint, progress=stop_at(after), **more)

    stop(1, load_key="b")
    stop(2, load_key="a")
    assert len(checkpoint.read_text().splitlines()) == 1 + 2
    stop(1, load_key="b")  # steps of other loads are not taken up
    assert len(checkpoint.read_text().splitlines()) == 1 + 1
    stop(2, load_key="a")
    for _ in range(2):  # the second time no step is left to do
        resumed = trained(name, checkpoint=checkpoint, load_key="a")
        assert resumed.curve == whole.curve
        assert content_of(resumed, tmp_path) == content_of(whole, tmp_path)


@EVERY_KIND
def test_progress_tells_every_step_and_the_best_objective_so_far(name: str) -> None:
    told: list[tuple[int, float]] = []
    policy = trained(name, progress=lambda step, value: told.append((step, value)))
    steps = steps_of(small_settings(name))
    assert [step for step, _ in told] == list(range(1, steps + 1))
    assert told[-1][1] == policy.validation_objective
    assert all(one <= other for (_, one), (_, other) in pairwise(told))
    assert policy.validation_objective == max(validation for _, _, validation in policy.curve)
    assert policy.simulated_jobs > 0


@EVERY_KIND
def test_onnxruntime_scores_as_the_trainers_network(name: str, tmp_path: Path) -> None:
    network = trained(name).network
    assert network.schema == schema_of(small_settings(name))
    path = tmp_path / "model.onnx"
    export_model(network, path, {"estimates": "requested"})
    policy = load_q_network(path)
    workload = random_workload(4, jobs=60, parallel=False)
    now = float(workload.submit[-1])
    start = [now - 10.0] * 3 + [float("nan")] * 57
    memory, longest = None, 0.0
    for first in (3, 4, 5):  # the memory of each decision is part of the next
        snapshot = snapshot_of(workload, Moment(now, list(range(first, 60)), [0, 1, 2], start), 40)
        before = None if memory is None else memory[ARRIVAL_MEMORY + 1 :]
        decision = policy.decide(snapshot, memory)
        past = PastRuns().after(snapshot)
        longest = max(longest, float(snapshot.accrued_wait.max()))
        waiting, running = snapshot.pending.jobs, snapshot.running.jobs
        estimates = policy.estimates
        queue, jobs = feature_columns(
            network.schema,
            snapshot,
            estimates.estimate(waiting.time_limit, waiting.interactive),
            estimates.estimate(running.time_limit, running.interactive),
            recent_arrivals(snapshot, None if memory is None else memory[:ARRIVAL_MEMORY])[1:],
            past,
            AS_TRAINED.resolved(snapshot.shares),
            longest,
        )
        if isinstance(network, EchoStateNetwork):
            size = len(network.empty_memory())  # behind it the queue's features of the decision
            state = network.empty_memory() if before is None else before[:size]
            scores, _ = network.scores(queue, jobs, state)
            np.testing.assert_allclose(
                decision.memory[ARRIVAL_MEMORY + 1 :], [*state, *queue], atol=1e-5
            )  # type: ignore[index]
        else:
            scores = network.scores(queue, jobs)
        scale = max(float(np.abs(scores).max()), 1.0)
        np.testing.assert_allclose(decision.scores, scores, rtol=0, atol=1e-5 * scale)
        memory = decision.memory
    assert type(import_model(path)) is type(network)


def test_cycles_in_which_nothing_moves_do_not_drive_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export_model(trained("echo-state").network, path, {"estimates": "requested"})
    policy = load_q_network(path)
    workload = random_workload(4, jobs=60, parallel=False)
    now = float(workload.submit[-1])
    start = [now - 10.0] * 3 + [float("nan")] * 57
    moment = Moment(now, list(range(3, 60)), [0, 1, 2], start)
    free = policy.decide(snapshot_of(workload, moment, 40)).memory
    assert free is not None
    full = snapshot_of(workload, moment, 3)
    held = policy.decide(full, free).memory
    assert held is not None
    behind = slice(ARRIVAL_MEMORY, ARRIVAL_MEMORY + policy.memory_size)
    np.testing.assert_array_equal(held[behind], free[behind])
    jobs = full.running.jobs
    started = replace(full, started=StartedJobs(jobs=jobs, start=full.running.start))
    moved = policy.decide(started, free).memory
    assert not np.array_equal(moved[behind], free[behind])


@EVERY
def test_settings_are_checked_with_one_sentence(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} has no setting 'nonsense': give one of"):
        settings_of(name, {"nonsense": "1"})
    with pytest.raises(ConfigurationError, match="is 'many': give a number"):
        settings_of(name, {"hidden": "many"})
    for preset in PRESETS:
        if preset not in ALGORITHMS[name].presets:
            with pytest.raises(ConfigurationError, match=f"{name} has no preset {preset}"):
                settings_of(name, {}, preset=preset)
        else:
            assert settings_of(name, {}, preset=preset) != settings_of(name, {})


@rows_of("settings of train")
def test_wrong_settings_are_refused_in_their_words(words: str, said: str) -> None:
    name, *changes = words.split()
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        settings_of(name, dict(each.split("=") for each in changes))
