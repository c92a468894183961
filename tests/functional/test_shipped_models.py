"""Every model that comes with the package can be used as it is, and warns of nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import starts_under
from slurm_rl_plugin.learning.manifest import file_checksum, write_card
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL, SHIPPED_MODELS
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.services.hook import load_policy, model_path
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.bench.default_model import write_default
from tests.reference.loads import random_workload, snapshot_of
from tests.reference.readable_simulator import Moment
from tests.unit.hook.queues import QueueInMemory, cycle_over, pending_jobs

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


def test_the_default_model_is_what_its_program_writes(tmp_path: Path) -> None:
    write_default(tmp_path / "default.onnx")
    for name in ("default.onnx", "default.json", "default.md"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", [each for each in SHIPPED_MODELS if each != SHIPPED_MODEL])
def test_a_card_warns_as_one_written_today(name: str, tmp_path: Path) -> None:
    committed = model_path(name).with_suffix(".md")
    anew = tmp_path / committed.name
    manifest = json.loads(committed.with_suffix(".json").read_text())
    if "heldout" in manifest:  # written before the manifest said whether it beats the best rule
        manifest["heldout"].setdefault("beats_best_rule", True)
    write_card(anew, manifest)
    (_, told), (_, wanted) = (
        path.read_text().split("## When not to use it\n", 1) for path in (committed, anew)
    )
    assert told == wanted


@EVERY
def test_an_unchanged_queue_is_hardly_written_again(name: str, tmp_path: Path) -> None:
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
    if name in (SHIPPED_MODEL, "q-network", "responsive-reserve"):  # ages move scores
        assert max(writes[1:]) < 12
    else:
        assert sum(writes[1:]) == 0


def some_queue() -> QueueSnapshot:
    """37 jobs that wait behind three that run."""
    workload = random_workload(4, jobs=40, parallel=True)
    now = float(workload.submit[-1])
    start = [now - 10.0] * 3 + [float("nan")] * 37
    return snapshot_of(workload, Moment(now, list(range(3, 40)), [0, 1, 2], start), 40)


@EVERY
def test_it_scores_a_queue_and_remembers(name: str) -> None:
    policy = load_policy(name).policy
    snapshot = some_queue()
    first = policy.decide(snapshot)
    second = policy.decide(snapshot, first.memory)
    assert np.isfinite(second.scores).all()
    assert len(np.unique(second.scores)) > 5
    assert second.reserve is None or 0 <= second.reserve <= 40
    assert policy.holds == (name == "responsive-reserve")
    assert (policy.memory_size > 0) == (name == "non-markovian")


def test_shares_move_the_scores_of_the_default_model_by_points_a_doubling() -> None:
    """A job's score falls by the points times how many doublings its account is above its share."""
    policy = replace(load_policy("default").policy, goals=Goals(shares=5.0))
    snapshot = some_queue()
    even = replace(snapshot, usage=snapshot.shares.copy())
    used = even.usage.copy()
    used[0] *= 4.0
    moved = policy.decide(replace(even, usage=used)).scores - policy.decide(even).scores
    of_first = snapshot.pending.jobs.account == 0
    assert of_first.any()
    assert not of_first.all()
    np.testing.assert_allclose(moved[of_first], -10.0, atol=1e-4)
    np.testing.assert_allclose(moved[~of_first], 0.0, atol=1e-4)


@pytest.mark.parametrize("name", ["reactive-grids", "non-markovian"])
@pytest.mark.parametrize("backfilling", ["none", "easy"])
def test_a_model_of_class_medians_is_simulated_with_them_as_it_runs_live(
    name: str, backfilling: str
) -> None:
    rng = np.random.default_rng(3)
    log = egee_log(rng, processors=5, jobs=150, load=0.9)
    prepared = prepare_log(replace(log, time_limit=log.run_time * rng.uniform(1.0, 20.0, 150)))
    settings = SimulationSettings(capacity=5, backfilling=backfilling)
    workload = prepared.workload(RequestedLimit())
    candidate = candidate_of(name)
    found = starts_under(candidate, prepared, workload, settings)
    live = simulate_policy(prepared, workload, load_policy(name).policy, settings).start
    np.testing.assert_array_equal(found, live)
    by_limits = replace(candidate, policy=None, estimates=None)
    assert (starts_under(by_limits, prepared, workload, settings) != live).any()


TOP = Path(__file__).parents[2]
#: Under continuous integration onnxruntime is silent by itself.
QUIET = ("CI", "TF_BUILD", "GITHUB_ACTIONS", "JENKINS_URL", "BUILD_ID")
LOAD = "from slurm_rl_plugin.services.hook import load_policy; load_policy('default')"


@pytest.mark.parametrize("already", [{}, {"ORT_DISABLE_TELEMETRY": "0"}], ids=["unset", "off"])
def test_loading_a_model_leaves_nothing_behind(tmp_path: Path, already: dict[str, str]) -> None:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in QUIET and not key.startswith("ORT_")
    }
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**kept, **home, **already},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert list(tmp_path.rglob("*")) == []
