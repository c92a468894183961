"""The manifest of a model, and its card for people: how it was trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment

from slurm_rl_plugin.whole_file import read_whole, write_whole


def file_checksum(path: Path) -> str:
    """sha256 of a file, hexadecimal."""
    return hashlib.sha256(read_whole(path)).hexdigest()


def write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest as JSON."""
    write_whole(path, json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def write_card(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write the model card, Markdown, from `model_card.md`."""
    template = read_whole(Path(__file__).with_name("model_card.md")).decode()
    card = Environment(trim_blocks=True, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - Markdown
    weights = json.dumps(manifest["reward_weights"])
    words = {**manifest, "name": path.stem, "weights": weights}
    write_whole(path, card.from_string(template).render(words))
