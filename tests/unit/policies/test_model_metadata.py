"""What a model's metadata hold in place of numbers: the model goes without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_rl_plugin.policies.q_network import ModelCard

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
