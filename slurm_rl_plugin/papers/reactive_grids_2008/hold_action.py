"""The action that both papers lack: leave a processor idle although a batch job waits.

Their schedulers are greedy (2008, section III.B): whoever must start some waiting job whenever a
machine is free cannot keep one free for the next interactive job. SJF that holds one or two
processors back from batch work shows what the greedy model leaves out, and what it costs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slurm_rl_plugin.papers.reactive_grids_2008.tables import BASELINES, RL
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Claim,
    Judgement,
    Measurement,
    Printed,
    measure,
    ratio_of_means,
)
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.papers.study.verdicts import as_bound, as_gain

_HOLDING = ("SJF oracle, 1 held", "SJF oracle, 2 held")
_GOOD_PART = 0.9


def claims_of_holding(interactive: float, trial: PairedTrial) -> Iterator[Claim]:
    """What holding processors gives over the learned greedy policy, and its price for batch jobs.

    Args:
        interactive: p of the load.
        trial: with RL and both policies that hold.
    """
    group = f"Hold action, p = {interactive}"
    for policy in _HOLDING:
        column = "interactive within 120 s"
        within = measure(trial.figure(policy, column))
        yield _claim(
            group,
            trial,
            policy,
            column,
            within,
            as_bound(within, _GOOD_PART, least=True),
            Printed.of("0.9"),
        )
        gain = measure(trial.figure(policy, "J") - trial.figure(RL, "J"))
        yield _claim(group, trial, f"{policy} - {RL}", "J", gain, as_gain(gain))
        column = "batch mean wait"
        pair = np.stack([trial.figure(each, column) for each in (policy, RL)])
        price = measure(pair, ratio_of_means)
        yield _claim(
            group,
            trial,
            f"{policy} / {RL}",
            column,
            price,
            as_bound(price, 1.0, least=False, remark="batch jobs pay for the idle processors"),
        )


def _claim(
    group: str,
    trial: PairedTrial,
    policy: str,
    column: str,
    measured: Measurement,
    judged: Judgement,
    printed: Printed | None = None,
) -> Claim:
    return Claim(
        cell=Cell(group, policy, column),
        measured=measured,
        printed=printed,
        baselines=trial.means(column, (RL, *BASELINES)),
        judged=judged,
    )
