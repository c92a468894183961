"""`slurm-rl show-config`: the configuration in force, as TOML with each key's meaning."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.tables import print_json
from slurm_rl_plugin.configuration import DEFAULT_PATH, KEYS, Configuration, read_configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"default {DEFAULT_PATH}")
    parser.add_argument("--defaults", action="store_true", help="print the defaults instead")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Print it."""
    path = None if options.defaults else options.config or DEFAULT_PATH
    configuration = read_configuration(path)
    if options.json:
        print_json({**configuration.values, "shares": _shares(configuration)})
    else:
        print("\n".join(_lines(configuration)))
    return 0


def _shares(configuration: Configuration) -> dict[str, Any]:
    return dict(configuration.shares) if configuration.shares else {"from": "slurm"}


def _lines(configuration: Configuration) -> list[str]:
    lines: list[str] = []
    for section, keys in KEYS.items():
        lines.append(f"[{section}]")
        for key, definition in keys.items():
            value = json.dumps(configuration.values[section][key])  # TOML and JSON agree on these
            choices = f" ({' or '.join(definition.choices)})" if definition.choices else ""
            lines.append(f"{key} = {value}  # {definition.meaning}{choices}")
        lines.append("")
    lines.append("[shares]")
    for account, share in _shares(configuration).items():
        lines.append(f"{json.dumps(account)} = {json.dumps(share)}")
    lines.append("")
    lines.extend(f"# job class: {rule}" for rule in configuration.classifier.rules)
    return lines
