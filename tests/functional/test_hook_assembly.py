"""Accounting is asked only for a model that learns from runs, and for as long as configured."""

import pytest

from slurm_rl_plugin.cli.hook_assembly import build_cycle, load_policy
from slurm_rl_plugin.configuration import parse_configuration
from slurm_rl_plugin.features.run_prediction import PREDICTION_ENTRY, RunTimePrediction
from slurm_rl_plugin.learning.onnx_export import export_network
from tests.functional.small_network import small_network


@pytest.mark.parametrize(
    ("predicts", "days", "asked"), [(True, 30.0, 30.0), (True, 0, 0.0), (False, 30.0, 0.0)]
)
def test_days_of_history(tmp_path, predicts, days, asked):
    path = tmp_path / "model.onnx"
    metadata = {PREDICTION_ENTRY: RunTimePrediction.untrained().to_json()} if predicts else {}
    export_network(small_network(), path, metadata)
    configuration = parse_configuration(
        {
            "hook": {"state_file": str(tmp_path / "state.json"), "audit_file": ""},
            "batch_system": {"history_days": days},
        },
        "test",
    )
    loaded = load_policy(str(path))
    assert loaded.learns_from_runs == predicts
    assert build_cycle(configuration, loaded).batch_system._history_days == asked


def test_a_rule_asks_for_no_history():
    assert not load_policy("sjf").learns_from_runs
