"""Reasons to step back that need no certainty: what no experiment may do to a cluster.

They are asked after each block, long before pairs can be sure. None of them says that ours is
worse; each says that a person has to look before it goes on.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, Declaration, TurnBlock
from slurm_rl_plugin.units import HOUR, FloatArray
from slurm_rl_plugin.what_if.switchback.costs import GOALS
from slurm_rl_plugin.what_if.switchback.replayed_blocks import BlockCosts

#: Blocks before replays are believed, what they must say that ours costs more, and by how many
#: standard errors over the blocks.
_FEWEST_BLOCKS, _REPLAYED_HARM, _ERRORS = 3, 1.05, 1.2
#: What a replay of all the time since the begin must say where the blocks do not agree, and for how
#: many days there is one.
_SURE_HARM, _EARLY_DAYS = 1.4, 2
#: Seconds by which times of blocks may differ from whole days.
_ROUNDING = 1.0
#: Its own blocks gainsay it where they cost less than replays of the site's order, by this log.
_GAINSAID = -0.05
#: What is watched so beside the goal that decides.
_WATCHED = "wait"
#: The least part of its blocks that each order must have been in force.
LEAST_HELD = 0.8


def early_stretches(declared: Declaration) -> tuple[TurnBlock, ...]:
    """The times from the begin to the end of each block of the first days.

    Within a block little of a harm shows: it begins with the queue that it met. Had an order been
    in force all the time, its harm would have added up.
    """
    until = declared.begin + _EARLY_DAYS * declared.day + _ROUNDING
    early = [block for block in declared.blocks if block.end <= until]
    return tuple(replace(block, begin=declared.begin) for block in early)


def first_tripped(
    declared: Declaration,
    found: BlockCosts,
    since_begin: BlockCosts,
    floors: FloatArray,
    held: float = 1.0,
    misdelivered: float = 0.0,
) -> tuple[int, str] | None:
    """After how many blocks a guard tripped first, and its sentence; None for never.

    All blocks are asked after, also those that a late look has passed over; arguments are those of
    `tripped`, and `held` and `misdelivered` are of the last of them.
    """
    for blocks in range(1, len(found) + 1):
        now = (held, misdelivered) if blocks == len(found) else (1.0, 0.0)
        first = found.first(blocks), since_begin.first(blocks)
        sentence = tripped(declared, *first, floors, *now)
        if sentence is not None:
            return blocks, sentence
    return None


def tripped(
    declared: Declaration,
    found: BlockCosts,
    since_begin: BlockCosts,
    floors: FloatArray,
    held: float = 1.0,
    misdelivered: float = 0.0,
) -> str | None:
    """The first guard that trips after the last of some blocks, one sentence; None for none.

    Args:
        declared: the experiment.
        found: costs of its first blocks, which are over.
        since_begin: costs of those of `early_stretches` that are over.
        floors: see `findings.findings`.
        held: part of the time of the last blocks in which the order was in force whose turn it
            was.
        misdelivered: see `turns.misdelivered_since_begin`.
    """
    return (
        _longest_wait(declared, found)
        or _replays(declared, found, since_begin, floors, declared.goal)
        or _replays(declared, found, since_begin, floors, _WATCHED)
        or _not_in_force(held)
        or _misdelivers(declared, misdelivered)
    )


def _longest_wait(declared: Declaration, found: BlockCosts) -> str | None:
    place, bound = list(GOALS).index("longest_wait"), declared.longest_wait / HOUR
    measured, by_site = found.measured[:, place], found.by_site[:, place]
    ours = np.array([block.arm == OURS for block in declared.blocks[: len(found)]], dtype=np.bool_)
    # what would have waited too long under the site's order, too, is not ours to answer for
    beyond = ours & (measured > bound) & (by_site <= bound)
    if not beyond.any():
        return None
    hours = float(measured[beyond].max())
    return f"a job has waited for {hours:.0f} hours, beyond the bound of {bound:.0f}."


def _replays(
    declared: Declaration,
    found: BlockCosts,
    since_begin: BlockCosts,
    floors: FloatArray,
    goal: str,
) -> str | None:
    """Replays of the real queues say that ours costs more, and its blocks do not gainsay them."""
    if len(found) < _FEWEST_BLOCKS:
        return None
    place, harm = list(GOALS).index(goal), max(_REPLAYED_HARM, declared.harm)
    measured, by_site, by_ours = (
        each[:, place] + floors[place] for each in (found.measured, found.by_site, found.by_ours)
    )
    ours = [block.arm == OURS for block in declared.blocks[: len(found)]]
    really = np.log(measured[ours] / by_site[ours])
    if len(really) == 0 or really.mean() <= _GAINSAID:
        return None
    logs, ratio = np.log(by_ours / by_site), float(by_ours.sum() / by_site.sum())
    agree = logs.mean() >= _ERRORS * logs.std(ddof=1) / math.sqrt(len(logs)) and ratio >= harm
    whole, of_what = ratio, f"{len(found)} blocks"
    if len(since_begin) == len(found):
        replayed = (since_begin.by_site[-1, place], since_begin.by_ours[-1, place]) + floors[place]
        whole, of_what = float(replayed[1] / replayed[0]), "all the time since the begin"
        agree = (agree and whole >= harm) or whole >= max(_SURE_HARM, declared.harm)
    if not agree:
        return None
    return (
        f"replays of {of_what} say that {declared.on_trial} costs {whole - 1.0:+.0%} in "
        f"{goal}, and in its own blocks it cost {math.expm1(float(really.mean())):+.0%}."
    )


def _not_in_force(held: float) -> str | None:
    if held >= LEAST_HELD:
        return None
    return (
        f"an order was in force in {held:.0%} of its last blocks only: cycles fail, or something "
        "else stops it."
    )


def _misdelivers(declared: Declaration, misdelivered: float) -> str | None:
    if misdelivered <= declared.misdelivered:
        return None
    return (
        f"{misdelivered:.0%} of the last fortnight's service went to the wrong account, beyond the "
        f"bound of {declared.misdelivered:.0%}."
    )
