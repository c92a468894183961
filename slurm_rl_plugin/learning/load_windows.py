"""Cuts logs into training and validation loads: the past trains, the later part chooses."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.log_workload import PreparedLog, select_prepared

#: The first part of each log trains, the rest validates (definitions: time split).
TRAINING_FRACTION = 0.6
#: Jobs of one window: long enough for a queue to build up and to drain.
WINDOW_JOBS = 6000


def training_part(prepared: PreparedLog) -> PreparedLog:
    """The first 60 % of a log, from which everything that training knows is taken."""
    border = int(len(prepared.log) * TRAINING_FRACTION)
    return select_prepared(prepared, np.arange(border))


def split_windows(
    prepared: PreparedLog, most: int, rng: np.random.Generator
) -> tuple[list[PreparedLog], list[PreparedLog]]:
    """Training windows from the first 60 % of a log, validation windows from the rest.

    Args:
        prepared: the log.
        most: windows of either kind at most; where the log has more, they are drawn by `rng`.
        rng: source of randomness.

    Raises:
        ConfigurationError: the log is too short to be split.
    """
    jobs = len(prepared.log)
    border = int(jobs * TRAINING_FRACTION)
    if border < 1 or jobs - border < 1:
        raise ConfigurationError(f"a log of {jobs} jobs is too short to train and validate on.")
    return (
        _windows(prepared, 0, border, most, rng),
        _windows(prepared, border, jobs, most, rng),
    )


def _windows(
    prepared: PreparedLog, first: int, last: int, most: int, rng: np.random.Generator
) -> list[PreparedLog]:
    count = max((last - first) // WINDOW_JOBS, 1)
    edges = np.linspace(first, last, count + 1).astype(np.int64)
    chosen = np.sort(rng.choice(count, size=min(count, most), replace=False))
    return [select_prepared(prepared, np.arange(edges[each], edges[each + 1])) for each in chosen]
