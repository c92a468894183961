"""Effects of features on a score, against a network whose weights are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.policies.feature_effects import feature_effects
from slurm_rl_plugin.policies.q_network import load_q_network
from tests.functional.small_network import small_network
from tests.unit.hook.queues import pending_jobs, snapshot_of


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
