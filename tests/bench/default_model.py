"""Writes the shipped model `default` with its manifest and card.

It is the order that a policy search starts with. Its weights were chosen on continuous runs of the
first 60 % of three logs (docs/order.md), not by a search in windows that begin on an empty machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slurm_rl_plugin.learning.manifest import file_checksum, write_manifest
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.learning.policy_search import SITE_ORDER, STARTS, unsearched_network
from slurm_rl_plugin.whole_file import write_whole

#: The release that made it first. Another text would be another digest: its memory would be lost.
_MADE_WITH = "0.1.0"
_COMMAND = "python -m tests.bench.default_model"
_CARD = """# Model card: default

Made by `{command}` with slurm_rl_plugin {version}.

* Its scores are linear: {count} weights, {weights} ([order](../docs/order.md)).
* They were chosen by hand on continuous runs of the first 60 % of SDSC-SP2, CTC-SP2 and HPC2N.
* It is not a Q-network: nothing was learned from rewards. [q-network](q-network.md) is one.
* Feature schema: {name} version {schema_version}, digest `{digest}`.
* Run times are predicted from users' past runs, live; the file has none of them
  ([features](../docs/research/features.md)).
* sha256 of the file: `{sha256}`.

What it does on the last 40 % of these logs: [measured](../docs/research/order-measured.md).

## When not to use it

Where no job may wait longer than under first come, first served: what the order may cost a
job is bounded by the points of a long wait, and is not nothing. Where
accounting or user names are not available: it orders by users' past runs. Compare
it first with `slurm-rl evaluate --protocol heldout` on your own log, and train on that log.
"""


def write_default(path: Path) -> None:
    """Writes the model at `path`, its manifest and its card."""
    network, weights = unsearched_network(SITE_ORDER), STARTS[SITE_ORDER.start]
    reward = asdict(SITE_ORDER.weights)
    entries = {
        "algorithm": "policy-search",
        "reward_weights": json.dumps(reward),
        "training_log_checksum": "",
        "seed": str(SITE_ORDER.seed),
        "package_version": _MADE_WITH,
        "estimates": "requested",
    }
    export_network(network, path, entries)
    schema = network.schema
    manifest: dict[str, Any] = {
        "command": _COMMAND,
        "version": _MADE_WITH,
        "algorithm": "policy-search",
        "weights": dict(weights),
        "reward_weights": reward,
        "estimates": ["requested"],
        "schema": {"name": schema.name, "version": schema.version, "digest": schema.digest},
        "sha256": file_checksum(path),
    }
    write_manifest(path.with_suffix(".json"), manifest)
    card = _CARD.format(
        command=_COMMAND,
        version=_MADE_WITH,
        count=len(weights),
        weights=", ".join(f"`{name}` {value:g}" for name, value in weights.items()),
        name=schema.name,
        schema_version=schema.version,
        digest=schema.digest[:16],
        sha256=manifest["sha256"],
    )
    write_whole(path.with_suffix(".md"), card)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write it where it ships, or elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("policy_models/default.onnx"))
    write_default(parser.parse_args(arguments).output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
