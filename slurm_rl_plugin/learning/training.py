"""Training from logs to a model file: loads, algorithm, export, manifest and card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin import __version__
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.algorithms import Settings, schema_of, train_policy
from slurm_rl_plugin.learning.evaluation import estimates_of
from slurm_rl_plugin.learning.load_windows import split_windows, training_part
from slurm_rl_plugin.learning.manifest import file_checksum, write_card, write_manifest
from slurm_rl_plugin.learning.model_export import export_model
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoad, rule_objective
from slurm_rl_plugin.simulator.log_workload import PreparedLog
from slurm_rl_plugin.simulator.simulation import SimulationSettings

#: What a trained policy is compared with in its card.
COMPARED_RULES = ("fifo", "sjf", "interactive-first", "min-run-wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """What to train on and how.

    Attributes:
        logs: prepared logs.
        sources: of each log, for the manifest.
        estimates: kinds of run-time estimates; each log is trained on under each of them.
        backfilling: of the simulated batch system.
        windows: most windows taken from either part of each log.
        algorithm: one of ALGORITHMS.
        settings: of that algorithm.
        command: for the manifest.
    """

    logs: Sequence[PreparedLog]
    sources: Sequence[dict[str, Any]]
    estimates: Sequence[str]
    backfilling: str
    windows: int
    algorithm: str
    settings: Settings
    command: str


def train_model(
    plan: TrainingPlan, output: Path, *, progress: Progress | None = None
) -> tuple[TrainedPolicy, dict[str, Any]]:
    """Train, and write OUTPUT with a manifest (.json) and a card (.md) beside it.

    An interrupted training leaves OUTPUT.checkpoint; the same command goes on from there.

    Returns:
        The policy and its manifest.
    """
    training, validation = _loads(plan)
    trained = train_policy(
        training,
        validation,
        plan.settings,
        checkpoint=output.with_name(output.name + ".checkpoint"),
        load_key=_load_key(plan),
        progress=progress,
    )
    manifest = _manifest(plan, trained, validation)
    export_model(
        trained.network,
        output,
        {
            "algorithm": plan.algorithm,
            "reward_weights": json.dumps(asdict(plan.settings.weights)),
            "training_log_checksum": _digest(list(plan.sources)),
            "seed": str(plan.settings.seed),
            "package_version": __version__,
            **_estimate_metadata(plan),
        },
    )
    manifest["sha256"] = file_checksum(output)
    write_manifest(output.with_suffix(".json"), manifest)
    write_card(output.with_suffix(".md"), manifest)
    return trained, manifest


def _load_key(plan: TrainingPlan) -> str:
    """Names everything that shapes the loads, the features they are seen through included."""
    shares = [[list(each.accounts), each.shares.tolist()] for each in plan.logs]
    loads = [list(plan.sources), shares, list(plan.estimates), plan.backfilling, plan.windows]
    return _digest([loads, schema_of(plan.settings).digest])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _loads(plan: TrainingPlan) -> tuple[list[TrainingLoad], list[TrainingLoad]]:
    rng = np.random.default_rng(plan.settings.seed)
    parts: tuple[list[TrainingLoad], list[TrainingLoad]] = ([], [])
    for prepared in plan.logs:
        settings = SimulationSettings(capacity=prepared.capacity, backfilling=plan.backfilling)
        windows = split_windows(prepared, plan.windows, rng)
        for kind in plan.estimates:
            # medians come from the training part alone, as they would at a site
            estimates = estimates_of(kind, training_part(prepared))
            for part, chosen in zip(parts, windows, strict=True):
                part.extend(TrainingLoad.of(each, estimates, settings) for each in chosen)
    return parts


def _estimate_metadata(plan: TrainingPlan) -> dict[str, str]:
    """Which estimates the head node should use; the oracle is replaced by requested limits."""
    if list(plan.estimates) != ["class-median"]:
        return {"estimates": "requested"}
    known = [training_part(each) for each in plan.logs]
    run_time = np.concatenate([each.log.run_time for each in known])
    interactive = np.concatenate([each.interactive for each in known])
    medians = ClassMedian.of(run_time, interactive)
    return {
        "estimates": "class-median",
        "class_medians": json.dumps(
            {"interactive": medians.interactive_median, "batch": medians.batch_median}
        ),
    }


def _manifest(
    plan: TrainingPlan, trained: TrainedPolicy, validation: Sequence[TrainingLoad]
) -> dict[str, Any]:
    weights, schema = plan.settings.weights, trained.network.schema
    table = [
        {"policy": rule, "objective": rule_objective(rule, validation, weights)}
        for rule in COMPARED_RULES
    ]
    table.append({"policy": "this model", "objective": trained.validation_objective})
    return {
        "command": plan.command,
        "version": __version__,
        "algorithm": plan.algorithm,
        "seed": plan.settings.seed,
        "settings": {**asdict(plan.settings), "weights": None},
        "reward_weights": asdict(weights),
        "sources": list(plan.sources),
        "estimates": list(plan.estimates),
        "backfilling": plan.backfilling,
        "schema": {"name": schema.name, "version": schema.version, "digest": schema.digest},
        "simulated_jobs": trained.simulated_jobs,
        "curve": [list(point) for point in trained.curve],
        "validation": table,
    }
