"""`slurm-rl evaluate --resample`: the same policies on many logs made of weeks of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.tables import print_table
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RunTimeEstimate
from slurm_rl_plugin.learning.evaluation.paired import Candidate, evaluate
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.resampling import resample_prepared, resampled_ratio
from slurm_rl_plugin.units import FloatArray

#: What is compared: column of the printed table and key of the document.
FIGURES = {
    "WAIT": "mean_wait",
    "BSLD": "mean_bounded_slowdown",
    "I-WAIT": "interactive_mean_wait",
}


def compare_on_resampled_logs(
    candidates: Sequence[Candidate],
    prepared: PreparedLog,
    estimates: RunTimeEstimate | None,
    settings: SimulationSettings,
    *,
    samples: int,
    seed: int,
    drop: tuple[int, int] = (0, 0),
) -> dict[str, Any]:
    """The `resampled` part of `evaluate --json`: ratios to the first policy, on the same logs.

    Args:
        candidates: the policies; the first is what the others are compared with.
        prepared: the log whose weeks are drawn.
        estimates: as for the log itself.
        settings: the batch system.
        samples: how many logs to make, at least 2.
        seed: of the draws.
        drop: how many first and last jobs of each log are not counted.

    Raises:
        ConfigurationError: fewer than two policies, a log too short to resample, or no job left
            to count.
    """
    if len(candidates) < 2:
        raise ConfigurationError("--resample compares policies: give --policy twice at least.")
    rng = np.random.default_rng(seed)
    figures = np.empty((len(candidates), len(FIGURES), samples))
    with progress_bar("resampling", samples, "mean_wait") as progress:
        for sample in range(samples):
            drawn = resample_prepared(prepared, rng)
            if sum(drop) >= len(drawn.log):
                raise ConfigurationError(
                    f"--drop {drop[0]},{drop[1]} leaves none of the {len(drawn.log)} jobs of a "
                    "resampled log to count."
                )
            for place, candidate in enumerate(candidates):
                entry = evaluate(candidate, drawn, estimates, settings, drop=drop)
                figures[place, :, sample] = _figures(entry)
            progress(sample + 1, float(figures[-1, 0, sample]))
    return {
        "samples": samples,
        "seed": seed,
        "ratio_to_first_policy": {
            candidate.name: {
                key: _ratio(figures[place, row], figures[0, row])
                for row, key in enumerate(FIGURES.values())
            }
            for place, candidate in enumerate(candidates)
        },
    }


def _figures(entry: dict[str, Any]) -> list[float]:
    """In the order of FIGURES; NaN where a log holds no interactive job."""
    interactive = entry["classes"]["interactive"]["mean_wait"]
    values = [entry["mean_wait"], entry["mean_bounded_slowdown"], interactive]
    return [np.nan if value is None else float(value) for value in values]


def _ratio(numerators: FloatArray, denominators: FloatArray) -> dict[str, Any]:
    """Null over the logs that have the figure, where the first policy has it nowhere above 0."""
    known = np.isfinite(numerators) & np.isfinite(denominators)
    if known.sum() < 2 or not denominators[known].any():
        return {"mean": None, "ci95": None}
    ratio = resampled_ratio(numerators[known], denominators[known])
    return {"mean": ratio.mean, "ci95": list(ratio.ci95)}


def print_resampled(resampled: dict[str, Any]) -> None:
    """One row a policy: ratios to the first one, each with its interval."""
    ratios = resampled["ratio_to_first_policy"]
    first = next(iter(ratios))
    print(f"\nratios to {first} on {resampled['samples']} logs of resampled weeks (95 % interval):")
    header = ["POLICY", *(each for name in FIGURES for each in (name, "(95 %)"))]
    rows = []
    for policy, entry in ratios.items():
        row: list[Any] = [policy]
        for key in FIGURES.values():
            interval = entry[key]["ci95"]
            row += [
                entry[key]["mean"],
                None if interval is None else "{:.3f}-{:.3f}".format(*interval),
            ]
        rows.append(row)
    print_table(header, rows)
