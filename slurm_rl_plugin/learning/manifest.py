"""The manifest beside a model, and the card that a person reads: what it was made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.whole_file import write_whole


def file_checksum(path: Path) -> str:
    """sha256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
        "The first 60 % of each log trained, the rest chose among the steps of the training; the",
        "table below is on that rest. It was shown no other data.",
        "",
        "## Measured on the validation part",
        "",
        "Objective = weighted time utility, responsiveness and fairness less the tail term; mean",
        "over loads.",
        "",
        *_objective_table(manifest["validation"]),
        "",
        "## When not to use it",
        "",
        "On a machine whose jobs are mostly parallel, or where most jobs are alike: compare it",
        "first with `slurm-rl evaluate` on your own log, and train on that log if a rule wins.",
        *_cautions(manifest),
    ]


def _cautions(manifest: Mapping[str, Any]) -> list[str]:
    lines = []
    if manifest["schema"]["name"] != "site":
        lines += [
            "",
            "It sees little more than the papers' networks: four accounts and the run time. It is",
            "there to be compared with them; a cluster wants a model of the `site` schema.",
        ]
    if manifest["settings"].get("hold"):
        lines += [
            "",
            "It also says how many processors to keep free of batch work. `evaluate` obeys. The",
            "hook reports it (`slurm_rl_reserve_processors`), orders the queue and limits nothing.",
        ]
    return lines


def _objective_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| policy | objective |", "| --- | --- |"]
    return lines + [f"| {row['policy']} | {row['objective']:.4f} |" for row in rows]
