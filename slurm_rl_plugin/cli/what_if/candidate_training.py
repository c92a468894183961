"""Trains a candidate of the site's own accounting, in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import datetime
from glob import escape
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.cli.assembly.batch_system import chosen_batch_system
from slurm_rl_plugin.configuration import DEFAULT_PATH, Configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK

#: Weeks before now that a candidate is not trained on, by which it is compared.
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
    for old in present.parent.glob(f"{escape(present.stem)}-candidate-*"):
        old.unlink(missing_ok=True)  # no experiment is declared, so nobody needs it
    moment = datetime.fromtimestamp(now).strftime("%Y-%m-%d-%H%M%S")
    candidate = present.with_name(f"{present.stem}-candidate-{moment}.onnx")
    words = [*_jobs(configuration, options.weeks, now), "-o", str(candidate)]
    words += ["--protocol", "heldout", "--preset", "slowdown"]
    config = options.config or DEFAULT_PATH
    if config.exists():  # its classes and shares
        words += ["--config", str(config)]
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
    """Which jobs to train on, as words of `train`: those before the last KEPT_WEEKS."""
    path, until = configuration.sections.forecast.log, now - KEPT_WEEKS * WEEK
    if path:
        submit = read_log(Path(path))[0].submit
        first, last = np.searchsorted(submit, (until - weeks * WEEK, until)).tolist()
        return [f"{path}@jobs={first}:{last}"]
    kind = chosen_batch_system(configuration).kind
    if kind.name != "slurm":
        raise ConfigurationError(
            f"{kind.title} is not asked for the accounting to train on: give [forecast] log."
        )
    since, end = (
        datetime.fromtimestamp(each).replace(microsecond=0).isoformat()
        for each in (until - weeks * WEEK, until)
    )
    return ["--from", "slurm", "--since", since, "--until", end]
