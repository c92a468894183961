"""The manifest of a model, and its card for people: how it was trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.whole_file import read_whole, write_whole


def file_checksum(path: Path) -> str:
    """sha256 of a file, hexadecimal."""
    return hashlib.sha256(read_whole(path)).hexdigest()


def write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest as JSON."""
    write_whole(path, json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def write_card(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write the model card, Markdown."""
    write_whole(path, "\n".join(_card_lines(path.stem, manifest)) + "\n")


def _card_lines(name: str, manifest: Mapping[str, Any]) -> list[str]:
    sources = [
        f"| `{source['log']}` | {source['jobs']} | {source['processors']} "
        f"| {source['sha256'][:16] or 'generated'} |"
        for source in manifest["sources"]
    ]
    too_small = manifest.get("too_small")  # the log was too short for the table to mean anything
    return [
        f"# Model card: {name}",
        "",
        f"Made by `{manifest['command']}` with slurm_rl_plugin {manifest['version']}.",
        "",
        f"* Algorithm: {manifest['algorithm']}, seed {manifest['seed']}, "
        f"{manifest['simulated_jobs']:,} simulated jobs.",
        f"* Feature schema: {manifest['schema']['name']} version {manifest['schema']['version']}, "
        f"digest `{manifest['schema']['digest'][:16]}`.",
        f"* Run-time estimates in training: {', '.join(manifest['estimates'])}.",
        f"* Reward weights: {json.dumps(manifest['reward_weights'])}.",
        f"* sha256 of the file: `{manifest['sha256']}`.",
        "",
        "## Trained on",
        "",
        "| log | jobs | processors | sha256 |",
        "| --- | --- | --- | --- |",
        *sources,
        "",
        *(_PLAIN_SPLIT if "heldout" not in manifest else _HELDOUT_SPLIT),
        "",
        "## Measured on the validation part",
        "",
        _MEASURES.get(manifest["algorithm"], _OBJECTIVE),
        "",
        "| policy | objective |",
        "| --- | --- |",
        *(f"| {row['policy']} | {row['objective']:.4f} |" for row in manifest["validation"]),
        *([] if too_small is None else ["", f"**Not to be trusted**: {too_small}"]),
        *_comparison(manifest.get("heldout")),
        "",
        "## When not to use it",
        "",
        *_warning(manifest),
        *_cautions(manifest),
    ]


_PLAIN_SPLIT = (
    "The first 60 % of each log were for training, the rest chose among the steps of the training;",
    "the table below is on that rest. No other data was used.",
)
_HELDOUT_SPLIT = (
    "Of the first 60 % of each log three quarters were for training; the last quarter chose among",
    "steps and seeds, and the table below is on that quarter. The last 40 % of each log, and any",
    "other log, were not used.",
)
_PLAIN_WARNING = (
    "On a machine whose jobs are mostly parallel, or where most jobs are similar: compare it",
    "first with `slurm-rl evaluate` on your own log, and train on that log if a rule wins.",
)
_SITE_UTILITY_WARNING = (
    "It orders no queue: its scores are the utility of one more job for the site, for `[offer]",
    "utility_model`. If its correlation is hardly above that of the share deficit, or the load",
    "has changed: the earliest start then serves brokers as well. Train it again.",
)
_OBJECTIVE = "Objective as the reward weights say; mean over loads."
#: What is validated, where that is not the objective.
_MEASURES = {
    "site-utility": "Correlation of the gain that is expected of one more job with the gain that "
    "the simulation gave.",
}
_HELDOUT_WARNING = (
    "Where no job may wait longer than under first come, first served: what the order may cost a",
    "job is bounded by the points of a long wait, and is not nothing. Where",
    "accounting or user names are not available: it orders by users' past runs. Compare",
    "it first with `slurm-rl evaluate --protocol heldout` on your own log, and train on that log.",
)


def _warning(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    if manifest["algorithm"] == "site-utility":
        return _SITE_UTILITY_WARNING
    return _PLAIN_WARNING if "heldout" not in manifest else _HELDOUT_WARNING


def _comparison(heldout: Mapping[str, Any] | None) -> list[str]:
    """Comparison with the best rule of each log on the validation part."""
    if heldout is None:
        return []
    lines = [
        "",
        "| log | best rule of its first 60 % | slowdown over that rule's, validation part |",
    ]
    lines.append("| --- | --- | --- |")
    for log, ratio in heldout["validation_ratio"].items():
        lines.append(f"| `{log}` | {heldout['best_heuristic'][log]} | {ratio:.3f} |")
    if heldout["shipped"] == "network" and not heldout["beats_best_rule"]:
        lines += ["", "It does not beat the best rule, but the best that a network can represent."]
    elif heldout["shipped"] != "network":
        lines += ["", f"No training won: this model is the rule {heldout['shipped']}."]
    return lines


def _cautions(manifest: Mapping[str, Any]) -> list[str]:
    lines = []
    if manifest["schema"]["name"] != "site":
        lines += [
            "",
            "Like the papers' networks it sees four accounts and the run time, and little more. It",
            "is for comparison with them; a cluster needs a model of the `site` schema.",
        ]
    if manifest["settings"].get("hold"):
        lines += [
            "",
            "It also gives the number of processors to keep free of batch work. `evaluate` keeps",
            "them free. The hook does so if `[reserve]` is set (docs/reserve.md); otherwise it",
            "only reports them (`slurm_rl_reserve_processors`).",
        ]
    return lines
