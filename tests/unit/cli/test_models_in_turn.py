"""The model of a turn is loaded and decides, where its file is the one that was declared."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.batch_systems.port import BatchSystem
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.services.daemon import LoadedFiles
from slurm_rl_plugin.services.hook import load_policy
from tests.unit.hook.queues import QueueInMemory, ScorePolicy, cycle_over, pending_jobs

MODEL = Path("policy_models/default.onnx").resolve()
SHA256 = hashlib.sha256(MODEL.read_bytes()).hexdigest()


@dataclass
class TellingQueue(QueueInMemory):
    """Notes how many days of past runs were asked for."""

    told: list[float] = field(default_factory=list)

    def go_on_from(self, earlier: BatchSystem) -> None:
        raise AssertionError(f"no reload here, and {earlier} is asked to hand over")

    def tell_past(self, days: float) -> None:
        self.told.append(days)


@dataclass
class Scene:
    files: LoadedFiles
    cycle: Cycle
    queue: TellingQueue
    registry: CollectorRegistry

    def served(self) -> set[str]:
        """Names of the models that the metric describes."""
        samples = [each for family in self.registry.collect() for each in family.samples]
        return {each.labels["name"] for each in samples if each.name == "slurm_rl_model_info"}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "site.toml").write_text('[policy]\nmodel = "sjf"\n[shares]\nphysics = 1\n')
    loaded, registry = load_policy("sjf"), CollectorRegistry()
    configuration = read_configuration(tmp_path / "site.toml")
    queue = TellingQueue(pending_jobs([3, 2, 1]))
    files = LoadedFiles(
        read=lambda: configuration,
        started=configuration,
        metrics=CycleMetrics(registry, loaded.labels, 1),
        loaded=loaded,
    )
    cycle = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    return Scene(files, cycle, queue, registry)


def test_a_candidate_decides_and_then_the_configured_model_again(scene: Scene) -> None:
    for _ in range(2):  # what decides already is not loaded again
        assert scene.files.bring_in(scene.cycle, str(MODEL), SHA256)
        assert (scene.cycle.policy.name, scene.cycle.model_sha256) == ("default", SHA256)
        assert scene.served() == {"default"}
        assert scene.queue.told == [30.0]
    policy = scene.cycle.policy
    assert isinstance(policy, QNetworkPolicy)
    assert policy.goals == Goals(shares=POINTS_A_DOUBLING)  # the site gives shares of its own
    assert scene.files.bring_in(scene.cycle, "", "")
    assert (scene.cycle.policy.name, scene.cycle.model_sha256) == ("sjf", "")
    assert scene.served() == {"sjf"}
    assert scene.queue.told == [30.0]  # a rule learns from no runs


def test_another_file_than_the_declared_one_decides_nothing(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = scene.cycle.policy
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    for model, sha256 in ((MODEL, "another"), (broken, SHA256), (tmp_path / "none.onnx", SHA256)):
        assert not scene.files.bring_in(scene.cycle, str(model), sha256)
    assert caplog.text.count("model=refused") == 3
    assert (scene.cycle.policy, scene.cycle.candidate) == (before, "")
    assert scene.served() == {"sjf"}
