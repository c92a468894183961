"""Trains a candidate of the site's own accounting, in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from slurm_rl_plugin.cli.assembly.batch_system import chosen_batch_system
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK

#: Weeks before now by which a candidate is compared: of the last 40 %, which its training leaves
#: untouched (--protocol heldout), of 10 weeks at least.
KEPT_WEEKS = 4


def trained_candidate(
    configuration: Configuration, options: argparse.Namespace, present: Path, now: float
) -> Path:
    """Train one, beside the model in service.

    Args:
        configuration: of the site.
        options: of `renew`: weeks, steps, and the files of the configuration.
        present: the model in service.
        now: seconds since the epoch.

    Returns:
        Its file.

    Raises:
        ConfigurationError: there is nothing to train on, or the training failed.
    """
    candidate = present.with_name(f"{present.stem}-candidate.onnx")
    words = [*_jobs(configuration, options.weeks, now), "-o", str(candidate)]
    words += ["--protocol", "heldout", "--preset", "slowdown"]
    if options.config is not None:
        words += ["--config", str(options.config)]
    if options.steps is not None:
        words += ["--steps", str(options.steps)]
    command = [sys.executable, "-m", "slurm_rl_plugin.cli.entry", "train", *words]
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if done.returncode != 0:
        raise ConfigurationError(
            "no candidate could be trained, for the reason above: `slurm-rl train "
            f"{' '.join(words)}` ended with {done.returncode}; the model in service stays."
        )
    return candidate


def _jobs(configuration: Configuration, weeks: int, now: float) -> list[str]:
    """Which jobs to train on, as words of `train`."""
    path = configuration.sections.forecast.log
    if path:
        return [path]
    kind = chosen_batch_system(configuration).kind
    if kind.name != "slurm":
        raise ConfigurationError(
            f"{kind.title} is not asked for the accounting to train on: give [forecast] log."
        )
    since = datetime.fromtimestamp(now - weeks * WEEK).replace(microsecond=0)
    return ["--from", "slurm", "--since", since.isoformat()]
