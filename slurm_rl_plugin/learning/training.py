"""Training from logs to a model file: loads, algorithm, export, manifest and card."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.learning import algorithms
from slurm_rl_plugin.learning.checkpoint import digest_of, forget_checkpoint
from slurm_rl_plugin.learning.evaluation.paired import estimates_of, medians_of
from slurm_rl_plugin.learning.heldout_training import (
    SEARCHED_PART,
    RuleComparison,
    compare_with_rules,
    heldout_entry,
    heldout_loads,
    shipped_rule,
)
from slurm_rl_plugin.learning.manifest import file_checksum, write_card, write_manifest
from slurm_rl_plugin.learning.onnx_file import export_model
from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.learning.site_utility import class_medians, site_utility_entries
from slurm_rl_plugin.learning.training_load import (
    TRAINING_FRACTION,
    WARM_UP,
    Progress,
    TrainedPolicy,
    TrainingLoad,
    TrainingLoads,
    mean_objective,
    rule_objective,
    split_stretches,
    training_part,
)
from slurm_rl_plugin.measure.intervals import BLOCK_JOBS, FEWEST_BLOCKS
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, HOUR, MINUTE

#: A part needs as many jobs and days as a replay needs for an interval.
_JOBS, _DAYS = FEWEST_BLOCKS * BLOCK_JOBS, FEWEST_BLOCKS


def parts_too_small(logs: Sequence[PreparedLog], *, heldout: bool) -> str | None:
    """A sentence if a part is too small to compare orders; otherwise None.

    A generated log, which records no start, is counted in jobs alone, since its hours do not
    differ.
    """
    searched = TRAINING_FRACTION * SEARCHED_PART
    parts = {"training": searched if heldout else TRAINING_FRACTION}
    parts["validation"] = (TRAINING_FRACTION if heldout else 1.0) - parts["training"]
    first = {"training": 0.0, "validation": parts["training"]}
    small = []
    for name, fraction in parts.items():
        jobs, seconds = _size(logs, first[name], first[name] + fraction)
        if jobs < _JOBS or seconds < _DAYS * DAY:
            span = "" if math.isinf(seconds) else f" in {_span(seconds)}"
            small.append(f"the {name} part ({jobs:,} jobs{span})")
    if not small:
        return None
    least = min(parts.values())
    verb = "is" if len(small) == 1 else "are"
    return (
        f"{' and '.join(small)} {verb} too small to compare orders: neighbouring "
        f"jobs wait in the same queue, so it takes {FEWEST_BLOCKS} blocks of a day and "
        f"{BLOCK_JOBS} jobs in each part, about {math.ceil(_JOBS / least):,} jobs of "
        f"{math.ceil(_DAYS / least)} days in all; train on a longer log before you trust these "
        "figures or the model."
    )


def _size(logs: Sequence[PreparedLog], begin: float, end: float) -> tuple[int, float]:
    """Jobs and seconds of submission between two fractions of every log, in total."""
    jobs, seconds = 0, 0.0
    for prepared in logs:
        count = len(prepared.log)
        first, last = int(count * begin), int(count * end)
        jobs += last - first
        if np.isnan(prepared.log.start).all():
            seconds = math.inf
        elif last > first:
            seconds += float(prepared.log.submit[last - 1] - prepared.log.submit[first])
    return jobs, seconds


def _span(seconds: float) -> str:
    for unit, name in ((DAY, "days"), (HOUR, "hours")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / MINUTE:.0f} minutes"


#: Rules that the card compares a trained policy with.
COMPARED_RULES = ("fifo", "sjf", "interactive-first", "min-run-wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Logs, algorithm and settings of a training."""

    logs: Sequence[PreparedLog]
    sources: Sequence[dict[str, Any]]  #: of each log, for the manifest
    estimates: Sequence[str]  #: kinds of run-time estimates; each log is used with each of them
    backfilling: str  #: of the simulated batch system
    runs: int  #: through the first 60 % of each log, to train on; see `split_stretches`
    algorithm: str  #: one of ALGORITHMS
    settings: algorithms.Settings  #: of that algorithm
    command: str  #: for the manifest
    seeds: int = 1  #: trainings that differ by their seed; the one that validates best is kept
    heldout: bool = False  #: leave the last 40 % of each log untouched (`heldout_training`)
    #: The site's job-class rules; None for the default ones.
    classifier: JobClassifier | None = None
    start: QNetwork | None = None  #: a network to start the search from
    #: How the simulated batch system keeps a reserve; None keeps processors free.
    class_limit: ClassLimit | None = None
    #: Goals that the model will run with: they order the simulated queue too, so that no goal
    #: counts twice; None for those of the default model.
    goals: Goals | None = None

    @property
    def steps(self) -> int:
        """Steps of the trainings of all seeds."""
        return self.seeds * algorithms.steps_of(self.settings)


def train_model(
    plan: TrainingPlan, output: Path, *, progress: Progress | None = None
) -> tuple[TrainedPolicy, dict[str, Any]]:
    """Train, and write OUTPUT with a manifest (.json) and a card (.md) next to it.

    An interrupted training leaves OUTPUT.checkpoint; the same command continues from it. `progress`
    counts the steps of all trainings.
    """
    loads = loads_of(plan)
    policies, checkpoints = _train_all(plan, loads, output, progress)
    trained = _best_of_seeds(policies)
    seeds = range(plan.settings.seed, plan.settings.seed + plan.seeds)
    by_seed = {
        str(seed): each.validation_objective for seed, each in zip(seeds, policies, strict=True)
    }
    comparisons = _comparisons(plan, trained) if plan.heldout else {}
    shipped = shipped_rule(comparisons.values())
    if shipped is not None:
        network = rule_network(shipped)
        objective = mean_objective(network, loads.validation, plan.settings.weights)
        trained = replace(trained, network=network, validation_objective=objective)
    manifest = _manifest(plan, trained, loads.validation)
    manifest["seeds"] = by_seed
    if plan.heldout:
        manifest["heldout"] = heldout_entry(comparisons, shipped)
    sources = json.dumps(list(plan.sources), sort_keys=True, default=np.ndarray.tolist)
    export_model(
        trained.network,
        output,
        {
            "algorithm": plan.algorithm,
            "reward_weights": json.dumps(asdict(plan.settings.weights)),
            "training_log_checksum": hashlib.sha256(sources.encode()).hexdigest(),
            "seed": str(plan.settings.seed),
            "package_version": __version__,
            **{name: json.dumps(own, sort_keys=True) for name, own in _own_classes(plan).items()},
            **_estimate_metadata(plan, loads.training),
        },
    )
    manifest["sha256"] = file_checksum(output)
    write_manifest(output.with_suffix(".json"), manifest)
    write_card(output.with_suffix(".md"), manifest)
    for checkpoint in checkpoints:
        forget_checkpoint(checkpoint)
    return trained, manifest


def _load_key(plan: TrainingPlan) -> str:
    """A digest of everything that shapes the loads and their features.

    It covers the prepared logs, since options and the machine change them. The plan's seed draws
    the jobs that the runs of all its trainings leave out.
    """
    limit = None if plan.class_limit is None else plan.class_limit.entry()
    drawn = (plan.runs, plan.settings.seed, plan.heldout, str(plan.classifier))
    system = (plan.estimates, plan.backfilling, limit)
    schema = algorithms.schema_of(plan.settings).digest
    return digest_of(plan.sources, plan.logs, drawn, system, plan.start, schema, plan.goals)


def _train_all(
    plan: TrainingPlan, loads: TrainingLoads, output: Path, progress: Progress | None
) -> tuple[list[TrainedPolicy], list[Path]]:
    """Train each seed; policies and checkpoints. Steps in a checkpoint are not repeated."""
    policies: list[TrainedPolicy] = []
    checkpoints: list[Path] = []

    def shown(step: int, value: float) -> None:
        if progress is not None:
            progress(len(policies) * algorithms.steps_of(plan.settings) + step, value)

    key = _load_key(plan)
    for turn in range(plan.seeds):
        settings = replace(plan.settings, seed=plan.settings.seed + turn)
        seed = f".{settings.seed}" if plan.seeds > 1 else ""
        checkpoints.append(output.with_name(f"{output.name}.checkpoint{seed}"))
        policies.append(
            algorithms.train_policy(
                *(loads.training, loads.validation, settings),
                checkpoint=checkpoints[-1],
                load_key=key,
                progress=shown,
                start=plan.start,
            )
        )
    return policies, checkpoints


def _best_of_seeds(trained: Sequence[TrainedPolicy]) -> TrainedPolicy:
    """The policy that validates best; on a tie the first."""
    best = max(trained, key=lambda each: each.validation_objective)
    return replace(best, simulated_jobs=sum(each.simulated_jobs for each in trained))


def _comparisons(plan: TrainingPlan, trained: TrainedPolicy) -> dict[str, RuleComparison]:
    assert isinstance(trained.network, QNetwork)
    return {
        name: compare_with_rules(trained.network, prepared, plan.classifier)
        for name, prepared in zip(_names(plan.sources), plan.logs, strict=True)
    }


def _names(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the logs; files with the same name are numbered."""
    names = [str(source["log"]) for source in sources]
    before = [names[:place].count(name) for place, name in enumerate(names)]
    return [f"{name} ({n + 1})" if n else name for name, n in zip(names, before, strict=True)]


def loads_of(plan: TrainingPlan) -> TrainingLoads:
    """The loads of a training."""
    if plan.heldout:
        return heldout_loads(plan.logs, classifier=plan.classifier, goals=plan.goals)
    rng = np.random.default_rng(plan.settings.seed)
    parts = TrainingLoads([], [])
    for prepared in plan.logs:
        settings = SimulationSettings(
            capacity=prepared.capacity,
            half_life=math.inf,  # F counts all service
            backfilling=plan.backfilling,
            class_limit=plan.class_limit,
            goals=AS_TRAINED if plan.goals is None else prepared.goals(plan.goals),
        )
        stretches = split_stretches(prepared, plan.runs, rng)
        for kind in plan.estimates:
            # medians come from the training part alone, as at a site
            estimates = estimates_of(kind, training_part(prepared))
            for part, chosen in zip(parts, stretches, strict=True):
                for each in chosen:
                    filling = int(WARM_UP * len(each.log))  # does not count
                    part.append(TrainingLoad.of(each, estimates, settings, (filling, 0)))
    return parts


def _estimate_metadata(plan: TrainingPlan, loads: Sequence[TrainingLoad]) -> dict[str, str]:
    """The estimates for the head node; requested limits replace the oracle."""
    if not algorithms.ALGORITHMS[plan.algorithm].orders:
        return site_utility_entries(class_medians(loads))
    if list(plan.estimates) != ["class-median"]:
        return {"estimates": "requested"}
    return medians_of(*(training_part(each) for each in plan.logs)).entries


def _manifest(
    plan: TrainingPlan, trained: TrainedPolicy, validation: Sequence[TrainingLoad]
) -> dict[str, Any]:
    weights, schema = plan.settings.weights, trained.network.schema
    compared = trained.compared or [
        (rule, rule_objective(rule, validation, weights)) for rule in COMPARED_RULES
    ]
    table = [{"policy": name, "objective": value} for name, value in compared]
    table.append({"policy": "this model", "objective": trained.validation_objective})
    warning = parts_too_small(plan.logs, heldout=plan.heldout)
    return {
        "command": plan.command,
        "version": __version__,
        "algorithm": plan.algorithm,
        "seed": plan.settings.seed,
        "settings": {**asdict(plan.settings), "weights": None},
        "reward_weights": asdict(weights),
        **_own_classes(plan),
        "sources": list(plan.sources),
        "estimates": list(plan.estimates),
        "backfilling": plan.backfilling,
        **({} if plan.class_limit is None else {"class_limit": plan.class_limit.entry()}),
        "schema": {"name": schema.name, "version": schema.version, "digest": schema.digest},
        "simulated_jobs": trained.simulated_jobs,
        "curve": [list(point) for point in trained.curve],
        "validation": table,
        **({} if warning is None else {"too_small": warning}),
    }


def _own_classes(plan: TrainingPlan) -> dict[str, Any]:
    """The site's own classes, with their time utility; no entry without any."""
    own = {} if plan.classifier is None else plan.classifier.own
    return {"utility_classes": own} if own else {}
