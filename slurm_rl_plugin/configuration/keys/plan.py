"""Keys of what the scheduler is told to plan with: [plan]."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.configuration.keys.key import key


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSection:
    """Whether the scheduler plans with foretold run times."""

    estimates: bool = key(
        default=False,
        meaning="tell the scheduler run times of candidates for backfilling",
        note="Slurm's TimeMin under `time_min_as_soft_limit`, OpenPBS's soft_walltime. No time "
        "limit is changed; `slurm-rl check` says whether it is sound here. None are given under a "
        "model whose training gained nothing by them.",
    )
    insist: bool = key(
        default=False,
        meaning="give them all the same where the model's training gained nothing by them",
        note="Without `estimates` it says nothing.",
    )
