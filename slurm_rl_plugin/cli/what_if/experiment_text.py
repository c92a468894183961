"""An experiment in words: how it stands, whose turn it is, what has been found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_rl_plugin.cli.tables import print_table, printable, slurm_time, span_text
from slurm_rl_plugin.domain.switchback import OURS, Declaration
from slurm_rl_plugin.hook.experiment.files import RUNNING, ExperimentStanding


def experiment_document(
    declared: Declaration,
    standing: ExperimentStanding,
    found: Mapping[str, Any] | None,
    held: float,
    now: float,
) -> dict[str, Any]:
    """What `status` and `report` tell.

    Args:
        declared: the experiment.
        standing: how it stands.
        found: what was found so far; None for nothing.
        held: part of the time of blocks in which the order was in force whose turn it was.
        now: seconds since the epoch.
    """
    block = declared.block_at(now)
    return {
        "state": standing.state,
        "reason": standing.reason,
        "since": standing.at,
        "looked": standing.looked,
        "begin": declared.begin,
        "end": declared.end,
        "goal": declared.goal,
        "harm": declared.harm,
        "longest_wait": declared.longest_wait,
        "misdelivered": declared.misdelivered,
        "policy": declared.policy,
        "on_trial": declared.on_trial,
        "against": declared.against,
        "candidate": declared.candidate or None,
        "blocks": len(declared.blocks),
        "blocks_over": declared.closed(now),
        "turn": "" if block is None or standing.state != RUNNING else block.arm,
        "turn_ends": None if block is None else block.end,
        "held": held,
        "found": found,
    }


def print_experiment(document: Mapping[str, Any]) -> None:
    """The same for people."""
    for line in _lines(document):
        print(printable(line))
    found = document["found"]
    if not found or not found["pairs"]:
        print("No pair of blocks is over yet, so nothing is known of what it is worth.")
        return
    on_trial, against = document["on_trial"], document["against"]
    print(f"\nAfter {found['pairs']} pairs of blocks, cost of {on_trial} over {against}:")
    print_table(
        ["GOAL", "RATIO", "INTERVAL", "FINDING", "SITE", "OURS"],
        [
            [
                f"{each['goal']}{' *' if each['decides'] else ''}",
                each["ratio"],
                _interval(each),
                each["word"],
                each["site"],
                each["ours"],
            ]
            for each in found["goals"]
        ],
    )
    print("* decides. Less is better; the interval is right however often one looks.")


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    against = document["against"]
    yield f"The experiment is {document['state']}: {document['policy']} against {against}."
    if document["reason"]:
        yield f"  {document['reason']}"
        yield f"  In force is {against}; `slurm-rl experiment stop` says how to go on."
    first, last = slurm_time(document["begin"]), slurm_time(document["end"])
    yield (
        f"  {document['blocks_over']} of {document['blocks']} blocks are over, {first} to {last}; "
        f"each order was in force in {document['held']:.0%} of its own at least."
    )
    if document["state"] == RUNNING and document["turn"]:
        left = max(document["turn_ends"] - _now(), 0.0)
        whose = document["on_trial"] if document["turn"] == OURS else against
        yield f"  It is the turn of {whose}, for {span_text(left)} more."


def _now() -> float:
    return time.time()  # noqa: TID251 - what is printed is of now


def _interval(row: Mapping[str, Any]) -> str:
    high = row["high"]
    return f"{row['low']:.2f} .. {'-' if high is None else f'{high:.2f}'}"
