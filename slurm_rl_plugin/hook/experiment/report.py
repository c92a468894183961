"""What a cycle's report says of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE

#: In words of a metric: no experiment, whose block it is, or ours but left to the site.
EXPERIMENT_PHASES = ("none", "site", "ours", "left_to_site")
#: What is known of a goal.
EXPERIMENT_WORDS = (BETTER, WORSE, INCONCLUSIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSeen:
    """What has been found of one goal.

    Attributes:
        goal: name.
        ratio: cost of ours over the site's.
        low: end of its interval.
        high: the other.
        word: one of EXPERIMENT_WORDS.
    """

    goal: str
    ratio: float
    low: float
    high: float
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentReport:
    """An experiment as a cycle saw it.

    Attributes:
        phase: one of EXPERIMENT_PHASES.
        state: how it stands; "" of none.
        goals: what has been found so far.
        pairs: of blocks that are over.
    """

    phase: str = "none"
    state: str = ""
    goals: tuple[GoalSeen, ...] = ()
    pairs: int = 0


def goals_seen(document: Mapping[str, Any] | None) -> tuple[tuple[GoalSeen, ...], int]:
    """What the findings of an experiment say, and of how many pairs; nothing where they are odd."""
    try:
        if document is None:
            return (), 0
        rows = tuple(
            GoalSeen(
                goal=str(each["goal"]),
                ratio=_number(each["ratio"]),
                low=_number(each["low"]),
                high=_number(each["high"]),
                word=each["word"] if each["word"] in EXPERIMENT_WORDS else EXPERIMENT_WORDS[-1],
            )
            for each in document["goals"]
        )
        return rows, int(document["pairs"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return (), 0


def _number(value: object) -> float:
    return float("nan") if value is None else float(str(value))
