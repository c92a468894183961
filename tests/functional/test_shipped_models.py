"""Every model that comes with the package can be used as it is, and its papers are in order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.cli.assembly.hook import load_policy, model_path
from slurm_rl_plugin.learning.export.manifest import file_checksum, write_card
from slurm_rl_plugin.learning.export.model import import_model
from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.policies.protected_policy import ProtectedPolicy, scorer_of
from slurm_rl_plugin.policies.registry import SHIPPED_MODELS
from tests.reference.loads import random_workload, snapshot_of
from tests.reference.readable_simulator import Moment
from tests.unit.hook.queues import QueueInMemory, pending_jobs
from tests.unit.hook.test_cycle import cycle_over

EVERY = pytest.mark.parametrize("name", SHIPPED_MODELS)
FOLDER = Path(__file__).parents[2] / "policy_models"


def test_the_folder_holds_the_named_models_and_no_other() -> None:
    assert {path.stem for path in FOLDER.glob("*.onnx")} == set(SHIPPED_MODELS)


@EVERY
def test_manifest_and_card_belong_to_the_file(name: str) -> None:
    path = model_path(name)
    assert path == FOLDER / f"{name}.onnx"
    manifest = json.loads(path.with_suffix(".json").read_text())
    assert manifest["sha256"] == file_checksum(path)
    assert manifest["sha256"] in path.with_suffix(".md").read_text()
    assert manifest["schema"]["digest"] == import_model(path).schema.digest


@EVERY
def test_a_card_warns_as_one_written_today(name: str, tmp_path: Path) -> None:
    committed = model_path(name).with_suffix(".md")
    anew = tmp_path / committed.name
    manifest = json.loads(committed.with_suffix(".json").read_text())
    if "heldout" in manifest:  # written before the manifest told whether it beats the best rule
        manifest["heldout"].setdefault("beats_best_rule", True)
    write_card(anew, manifest)
    (_, told), (_, wanted) = (
        path.read_text().split("## When not to use it\n", 1) for path in (committed, anew)
    )
    assert told == wanted


@EVERY
def test_an_unchanged_queue_is_written_once(name: str, tmp_path: Path) -> None:
    """All jobs wait for another reason than processors, as of a partition that is DOWN."""
    rng = np.random.default_rng(1)
    pending = pending_jobs(list(range(60, 0, -1)))
    jobs = replace(
        pending.jobs,
        time_limit=rng.uniform(500.0, 3600.0, 60),
        interactive=rng.random(60) < 0.5,
    )
    queue = QueueInMemory(replace(pending, jobs=jobs))
    cycle, writes = cycle_over(queue, load_policy(name).policy, tmp_path), []
    for _ in range(20):
        writes.append(cycle.run().writes)
        queue.now += 5.0
    assert writes[0] > 10
    assert sum(writes[1:]) == 0


@EVERY
def test_it_scores_a_queue_and_remembers(name: str) -> None:
    policy = load_policy(name).policy
    workload = random_workload(4, jobs=40, parallel=True)
    now = float(workload.submit[-1])
    start = [now - 10.0] * 3 + [float("nan")] * 37
    snapshot = snapshot_of(workload, Moment(now, list(range(3, 40)), [0, 1, 2], start), 40)
    first = policy.decide(snapshot)
    second = policy.decide(snapshot, first.memory)
    assert np.isfinite(second.scores).all()
    assert len(np.unique(second.scores)) > 5
    assert 0 <= second.reserve <= 40
    assert isinstance(policy, ProtectedPolicy) == (name == "default")
    policy, _ = scorer_of(policy, None)
    assert policy.holds == (name == "responsive-reserve")
    assert (policy.memory_size > 0) == (name == "non-markovian")


def test_shares_move_no_score_of_the_default_model_as_the_documents_say() -> None:
    policy = load_policy("default").policy
    workload = random_workload(4, jobs=40, parallel=True)
    now = float(workload.submit[-1])
    start = [now - 10.0] * 3 + [float("nan")] * 37
    snapshot = snapshot_of(workload, Moment(now, list(range(3, 40)), [0, 1, 2], start), 40)
    turned = replace(snapshot, shares=snapshot.shares[::-1])
    assert not np.array_equal(snapshot.shares, turned.shares)
    scores, others = policy.decide(snapshot).scores, policy.decide(turned).scores
    np.testing.assert_array_equal(scores, others)
    weights = import_network(model_path("default")).linear
    assert (
        f"a linear score of {np.count_nonzero(weights)} weights"
        in (FOLDER.parent / "docs" / "faq.md").read_text()
    )
