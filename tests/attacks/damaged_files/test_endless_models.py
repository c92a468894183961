"""A model is tried out in a child, bounded in time and memory, before a process loads it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from slurm_rl_plugin.errors import PolicyError
from slurm_rl_plugin.services import model_trial
from slurm_rl_plugin.services.hook import load_policy, model_path


def shipped() -> onnx.ModelProto:
    return onnx.load(model_path("default"))


def with_score(model: onnx.ModelProto, *nodes: onnx.NodeProto) -> onnx.ModelProto:
    """The model with these nodes between its score, `real`, and a description."""
    (last,) = [node for node in model.graph.node if "score" in node.output]
    last.output[list(last.output).index("score")] = "real"
    model.graph.node.extend(nodes)
    return model


def endless() -> onnx.ModelProto:
    """A loop of 2^62 rounds."""
    rounds = [
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("Add", ["sum", "one"], ["more"]),
    ]
    scalars = [("i", TensorProto.INT64), ("go", TensorProto.BOOL), ("sum", TensorProto.FLOAT)]
    body = helper.make_graph(
        rounds,
        "round",
        [helper.make_tensor_value_info(name, kind, []) for name, kind in scalars],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("more", TensorProto.FLOAT, []),
        ],
        [numpy_helper.from_array(np.float32(1), "one")],
    )
    model = with_score(
        shipped(),
        helper.make_node("Loop", ["rounds", "always", "nothing"], ["sums"], body=body),
        helper.make_node("Add", ["real", "sums"], ["score"]),
    )
    model.graph.initializer.extend(
        [
            numpy_helper.from_array(np.array(2**62), "rounds"),
            numpy_helper.from_array(np.array(True), "always"),
            numpy_helper.from_array(np.float32(0), "nothing"),
        ]
    )
    return model


def huge(elements: int) -> onnx.ModelProto:
    """A tensor with this many numbers of four bytes."""
    model = with_score(
        shipped(),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        helper.make_node("Add", ["real", "sum"], ["score"]),
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([elements]), "shape"))
    return model


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model_trial, "_tried", {})

    def loaded(model: onnx.ModelProto) -> None:
        onnx.save(model, tmp_path / "model.onnx")
        load_policy(str(tmp_path / "model.onnx"))

    return loaded


def test_a_model_without_an_end_is_refused_in_time_and_once(load, monkeypatch):
    monkeypatch.setattr(model_trial, "SECONDS", 6.0)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(PolicyError, match="gave no decision on 10 jobs within 6 s") as caught:
            load(endless())
        assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 12.0


@pytest.mark.parametrize("elements", [10**10, 4 * 10**8])
def test_a_model_that_wants_gigabytes_is_refused(load, elements):
    with pytest.raises(PolicyError, match=r"failed on 10 jobs|cannot be read as ONNX"):
        load(huge(elements))


def test_a_sound_model_is_tried_once_wherever_python_would_look(load, monkeypatch, tmp_path):
    (tmp_path / "slurm_rl_plugin").mkdir()
    (tmp_path / "slurm_rl_plugin" / "__init__.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)  # the child looks for its code neither here
    load(shipped())
    monkeypatch.setattr(model_trial, "_run", lambda path: pytest.fail(f"{path} again"))
    load(shipped())
