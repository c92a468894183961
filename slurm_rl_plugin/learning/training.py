"""Training from logs to a model file: loads, algorithm, export, manifest and card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.run_prediction import RunTimePrediction
from slurm_rl_plugin.learning.algorithms import Settings, schema_of, steps_of, train_policy
from slurm_rl_plugin.learning.evaluation import estimates_of
from slurm_rl_plugin.learning.heldout_training import (
    RuleComparison,
    compare_with_rules,
    heldout_entry,
    heldout_loads,
    shipped_rule,
)
from slurm_rl_plugin.learning.load_windows import split_windows, training_part
from slurm_rl_plugin.learning.manifest import file_checksum, write_card, write_manifest
from slurm_rl_plugin.learning.model_export import export_model
from slurm_rl_plugin.learning.rule_networks import rule_network
from slurm_rl_plugin.learning.site_utility import ALGORITHM as SITE_UTILITY
from slurm_rl_plugin.learning.site_utility import site_utility_entries
from slurm_rl_plugin.learning.site_utility_training import class_medians
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoad, rule_objective
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.class_limit import ClassLimit
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
        seeds: trainings that differ by their seed alone; the best on the validation loads is kept.
        heldout: leave the last 40 % of each log untouched (`learning.heldout_training`).
        classifier: job-class rules of held-out training; None for the default ones.
        start: a network to start the search from.
        class_limit: how the simulated batch system keeps a reserve; None keeps processors free.
    """

    logs: Sequence[PreparedLog]
    sources: Sequence[dict[str, Any]]
    estimates: Sequence[str]
    backfilling: str
    windows: int
    algorithm: str
    settings: Settings
    command: str
    seeds: int = 1
    heldout: bool = False
    classifier: JobClassifier | None = None
    start: QNetwork | None = None
    class_limit: ClassLimit | None = None

    @property
    def steps(self) -> int:
        """Steps of all trainings."""
        return self.seeds * steps_of(self.algorithm, self.settings)


def train_model(
    plan: TrainingPlan, output: Path, *, progress: Progress | None = None
) -> tuple[TrainedPolicy, dict[str, Any]]:
    """Train, and write OUTPUT with a manifest (.json) and a card (.md) beside it.

    An interrupted training leaves OUTPUT.checkpoint; the same command goes on from there.

    Returns:
        The policy and its manifest.
    """
    loads = _heldout_loads(plan) if plan.heldout else _loads(plan)
    trained, by_seed = _best_of_seeds(plan, loads, output, progress)
    comparisons = _comparisons(plan, trained) if plan.heldout else {}
    shipped = shipped_rule(comparisons.values())
    if shipped is not None:
        trained = replace(trained, network=rule_network(shipped))
    manifest = _manifest(plan, trained, loads.validation)
    manifest["seeds"] = by_seed
    if plan.heldout:
        manifest["heldout"] = heldout_entry(comparisons, shipped)
    export_model(
        trained.network,
        output,
        {
            "algorithm": plan.algorithm,
            "reward_weights": json.dumps(asdict(plan.settings.weights)),
            "training_log_checksum": _digest(list(plan.sources)),
            "seed": str(plan.settings.seed),
            "package_version": __version__,
            **_estimate_metadata(plan, loads.training),
        },
    )
    manifest["sha256"] = file_checksum(output)
    write_manifest(output.with_suffix(".json"), manifest)
    write_card(output.with_suffix(".md"), manifest)
    return trained, manifest


def _load_key(plan: TrainingPlan) -> str:
    """Names everything that shapes the loads, the features they are seen through included."""
    shares = [[list(each.accounts), each.shares.tolist()] for each in plan.logs]
    loads: list[Any] = [list(plan.sources), shares, list(plan.estimates), plan.backfilling]
    loads += [plan.windows, plan.heldout, str(plan.classifier)]
    if plan.start is not None:
        loads.append(plan.start.linear.tolist())
    if plan.class_limit is not None:
        loads.append(asdict(plan.class_limit))
    return _digest([loads, schema_of(plan.settings).digest])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _best_of_seeds(
    plan: TrainingPlan, loads: _Loads, output: Path, progress: Progress | None
) -> tuple[TrainedPolicy, dict[str, float]]:
    """The policy that validates best, and the validation objective of each seed."""
    found: dict[int, TrainedPolicy] = {}
    steps = steps_of(plan.algorithm, plan.settings)
    for turn in range(plan.seeds):
        settings = replace(plan.settings, seed=plan.settings.seed + turn)
        ending = f".{settings.seed}" if plan.seeds > 1 else ""
        found[settings.seed] = train_policy(
            loads.training,
            loads.validation,
            settings,
            checkpoint=output.with_name(f"{output.name}.checkpoint{ending}"),
            load_key=_load_key(plan),
            progress=_shifted(progress, turn * steps),
            prediction=loads.prediction,
            start=plan.start,
        )
    best = max(found, key=lambda seed: found[seed].validation_objective)
    simulated = sum(each.simulated_jobs for each in found.values())
    values = {str(seed): each.validation_objective for seed, each in found.items()}
    return replace(found[best], simulated_jobs=simulated), values


def _shifted(progress: Progress | None, before: int) -> Progress | None:
    if progress is None:
        return None
    return lambda step, value: progress(before + step, value)


class _Loads(NamedTuple):
    training: list[TrainingLoad]
    validation: list[TrainingLoad]
    prediction: RunTimePrediction | None


def _heldout_loads(plan: TrainingPlan) -> _Loads:
    loads = heldout_loads(plan.logs, plan.settings.seed, classifier=plan.classifier)
    return _Loads(loads.training, loads.validation, loads.prediction)


def _comparisons(plan: TrainingPlan, trained: TrainedPolicy) -> dict[str, RuleComparison]:
    """The network beside the best rule of each log.

    Raises:
        ConfigurationError: an echo state network, which the protocol does not know.
    """
    if not isinstance(trained.network, QNetwork):
        raise ConfigurationError("--protocol heldout does not take echo-state: choose another.")
    return {
        str(source["log"]): compare_with_rules(trained.network, prepared, plan.classifier)
        for source, prepared in zip(plan.sources, plan.logs, strict=True)
    }


def _loads(plan: TrainingPlan) -> _Loads:
    rng = np.random.default_rng(plan.settings.seed)
    parts = _Loads([], [], None)
    for prepared in plan.logs:
        settings = SimulationSettings(
            capacity=prepared.capacity,
            backfilling=plan.backfilling,
            class_limit=plan.class_limit,
        )
        windows = split_windows(prepared, plan.windows, rng)
        for kind in plan.estimates:
            # medians come from the training part alone, as they would at a site
            estimates = estimates_of(kind, training_part(prepared))
            for part, chosen in zip((parts.training, parts.validation), windows, strict=True):
                part.extend(TrainingLoad.of(each, estimates, settings) for each in chosen)
    return parts


def _estimate_metadata(plan: TrainingPlan, loads: Sequence[TrainingLoad]) -> dict[str, str]:
    """Which estimates the head node should use; the oracle is replaced by requested limits."""
    if plan.algorithm == SITE_UTILITY:
        return site_utility_entries(class_medians(loads))
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
    compared = trained.compared or [
        (rule, rule_objective(rule, validation, weights)) for rule in COMPARED_RULES
    ]
    table = [{"policy": name, "objective": value} for name, value in compared]
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
        **({} if plan.class_limit is None else {"class_limit": asdict(plan.class_limit)}),
        "schema": {"name": schema.name, "version": schema.version, "digest": schema.digest},
        "simulated_jobs": trained.simulated_jobs,
        "curve": [list(point) for point in trained.curve],
        "validation": table,
    }
