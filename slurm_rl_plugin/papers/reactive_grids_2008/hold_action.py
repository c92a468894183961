"""The action that both papers lack: leave a processor idle although a batch job waits.

Their schedulers are greedy (2008, section III.B): whoever must start some waiting job whenever a
machine is free cannot keep one free for the next interactive job. SJF that holds one or two
processors back from batch work shows what the greedy model leaves out, and what it costs.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_rl_plugin.papers.reactive_grids_2008.tables import BASELINES, RL
from slurm_rl_plugin.papers.study.claims import GOAL, Cell, Claim, measure
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.papers.study.verdicts import as_bound, as_gain, bounded

_HOLDING = ("SJF oracle, 1 held", "SJF oracle, 2 held")
_BESIDE = (RL, *BASELINES)


def claims_of_holding(interactive: float, trial: PairedTrial) -> Iterator[Claim]:
    """What holding processors gives over the learned greedy policy, and its price for batch jobs.

    Goals of ours: the paper knows no such action.

    Args:
        interactive: p of the load.
        trial: with RL and both policies that hold.
    """
    group = f"Hold action, p = {interactive}"
    for policy in _HOLDING:
        column = "interactive within 120 s"
        yield bounded(
            Cell(group, policy, column),
            measure(trial.figure(policy, column)),
            "0.9",
            least=True,
            source=GOAL,
            baselines=trial.means(column, _BESIDE),
        )
        gain = measure(trial.figure(policy, "J") - trial.figure(RL, "J"))
        yield Claim(
            cell=Cell(group, f"{policy} - {RL}", "J"),
            measured=gain,
            source=GOAL,
            baselines=trial.means("J", _BESIDE),
            judged=as_gain(gain),
        )
        column, remark = "batch mean wait", "batch jobs pay for the idle processors"
        price = trial.ratio_of_means(column, policy, RL)
        yield Claim(
            cell=Cell(group, f"{policy} / {RL}", column),
            measured=price,
            source=GOAL,
            baselines=trial.means(column, _BESIDE),
            judged=as_bound(price, 1.0, least=False, remark=remark),
        )
