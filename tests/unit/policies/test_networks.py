"""Networks: digests, metadata, and what each feature does to a score."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.policies.q_network import ModelCard, feature_effects, load_q_network
from tests.functional.small_network import small_network
from tests.unit.hook.queues import pending_jobs, snapshot_of


def test_the_same_numbers_have_the_same_digest() -> None:
    one, other = small_network(), small_network()
    assert one is not other
    assert one.digest == other.digest
    assert len(one.digest) == 16


@pytest.mark.parametrize(
    "name", ["linear", "bias", "output", "queue_weights", "job_weights", "job_mean", "queue_scale"]
)
def test_one_number_makes_another_digest(name: str) -> None:
    network = small_network()
    changed = getattr(network, name).copy()
    changed.ravel()[-1] += 1e-9
    assert replace(network, **{name: changed}).digest != network.digest


def test_what_is_no_array_counts_too() -> None:
    network = small_network()
    assert replace(network, output_bias=network.output_bias + 1.0).digest != network.digest
    assert replace(network, activation="sigmoid").digest != network.digest
    holds = replace(network, reserve_weights=np.zeros_like(network.queue_mean))
    assert len({network.digest, holds.digest, replace(holds, reserve_bias=1.0).digest}) == 3


def test_values_that_change_places_are_seen() -> None:
    network = small_network()
    first = replace(network, queue_mean=network.queue_mean + 1.0)
    second = replace(network, queue_scale=network.queue_scale + 1.0)
    assert first.digest != second.digest


def test_a_network_looks_at_the_past_where_a_weight_of_history_counts() -> None:
    network = small_network()
    assert not network.looks_at_past
    for name in ("linear", "job_weights"):
        weights = getattr(network, name).copy()
        weights[-1] = 1e-9
        assert replace(network, **{name: weights}).looks_at_past
        weights[-1], weights[-len(SITE.history_jobs) - 1] = 0.0, 1.0  # the last one of no history
        assert not replace(network, **{name: weights}).looks_at_past


PATH = Path("model.onnx")
DEEP = "[" * 200_000
HUGE = "1" + "0" * 400
NO_WEIGHTS = ["", "[", "[1]", "null", '"x"', '{"wait": "much"}', '{"wait": null}', DEEP]


@pytest.mark.parametrize("text", [*NO_WEIGHTS, f'{{"wait": {HUGE}}}'])
def test_weights_that_are_no_numbers_are_as_good_as_none(text: str) -> None:
    card = ModelCard(path=PATH, sha256="", metadata={"reward_weights": text})
    assert card.reward_weights == {}


def test_weights_are_read() -> None:
    told = json.dumps({"wait": 1, "fairness": 0.5})
    card = ModelCard(path=PATH, sha256="", metadata={"reward_weights": told})
    assert card.reward_weights == {"wait": 1.0, "fairness": 0.5}
    assert ModelCard(path=PATH, sha256="").reward_weights == {}


@pytest.mark.parametrize("hidden_counts", [0.0, 1.0])
def test_effects_are_differences_of_scores(tmp_path: Path, hidden_counts: float) -> None:
    network = small_network()
    network.output[:] *= hidden_counts
    export_network(network, tmp_path / "model.onnx", {"estimates": "requested"})
    policy = load_q_network(tmp_path / "model.onnx")
    pending = pending_jobs([1, 1, 1])
    pending.jobs.time_limit[:] = [60.0, 3600.0, 86400.0]
    pending.jobs.interactive[0] = True
    snapshot = snapshot_of(pending)
    effects = {each.name: each for each in feature_effects(policy, snapshot, None, 2)}
    assert effects["interactive"].effect == 0.0  # the median already
    limit = effects["log_time_limit"]
    assert limit.value == pytest.approx(np.log(86_400))
    assert limit.median == pytest.approx(np.log(3600))
    column = policy.schema.jobs.index("log_time_limit")
    alone = network.linear[column] * (limit.value - limit.median) / network.job_scale[column]
    if hidden_counts:
        assert limit.effect != pytest.approx(alone, rel=1e-3)
    else:
        assert limit.effect == pytest.approx(alone, rel=1e-3)
    sizes = [abs(each.effect) for each in feature_effects(policy, snapshot, None, 2)]
    assert sizes == sorted(sizes, reverse=True)
