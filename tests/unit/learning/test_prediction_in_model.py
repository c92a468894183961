"""A network's run-time prediction crosses to the head node in its model, or is refused."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    PREDICTION_ENTRY,
    RunTimePrediction,
)
from slurm_rl_plugin.learning.export.network import export_network, import_network
from tests.functional.small_network import small_network


def a_network():
    weights = np.random.default_rng(1).normal(size=(PREDICTED, KNOWN_FACTS))
    return replace(small_network(), prediction=RunTimePrediction(weights=weights))


def test_a_prediction_comes_back_from_the_file_of_its_network(tmp_path):
    export_network(a_network(), tmp_path / "model.onnx", {})
    read = import_network(tmp_path / "model.onnx").prediction
    assert read.weights.tolist() == a_network().prediction.weights.tolist()
    export_network(small_network(), tmp_path / "model.onnx", {})
    assert import_network(tmp_path / "model.onnx").prediction is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "[[1, 2], [3]]", "null", '"x"', str([[0.0] * 24] * 4), "nan"]
)
def test_a_file_with_another_table_is_refused(tmp_path, text):
    export_network(small_network(), tmp_path / "model.onnx", {PREDICTION_ENTRY: text})
    with pytest.raises(ModelSchemaMismatch, match=r"no table of 4 x 23 numbers: retrain it"):
        import_network(tmp_path / "model.onnx")


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    weights = a_network().prediction.weights.tolist()
    weights[1][2] = float("nan")
    entries = {PREDICTION_ENTRY: str(weights).replace("nan", "NaN")}
    export_network(small_network(), tmp_path / "model.onnx", entries)
    with pytest.raises(ModelSchemaMismatch, match="no table"):
        import_network(tmp_path / "model.onnx")
