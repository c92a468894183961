"""Networks are told apart by every number that they hold, and know whether they need a past."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from tests.functional.small_network import small_network


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
