"""What a network that may hold processors is to reach, and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_rl_plugin.papers.reactive_grids_2008.tables import FIFO, SJF
from slurm_rl_plugin.papers.responsive_reserve.compared_figures import (
    BATCH_TO_SJF,
    FAIRNESS_LOST,
    INTERACTIVE_GAIN,
    LONGEST_TO_FIFO,
    WAIT_TO_FIFO,
    WAIT_TO_SJF,
)
from slurm_rl_plugin.papers.study.verdicts import Goal

INTERACTIVE_FIRST = "interactive first"
GREEDY, HOLD, TAIL_SAFE = "SARSA", "hold", "tail-safe"
GREEDY_EST, HOLD_EST = "greedy EST", "hold EST"


def _synthetic(
    gain: str, greedy: str, hold: str, wait: str, greedy_est: str, hold_est: str, tail: str
) -> Sequence[Goal]:
    return (
        Goal(GREEDY, WAIT_TO_SJF, "1.05", least=False),
        Goal(GREEDY, INTERACTIVE_GAIN, gain),
        Goal(GREEDY, "J", greedy),
        Goal(HOLD, "J", hold),
        Goal(HOLD, "interactive mean wait", wait, least=False),
        Goal(HOLD, "interactive within 120 s", ".96"),
        Goal(HOLD, WAIT_TO_FIFO, "1", least=False),
        Goal(GREEDY_EST, "J", greedy_est),
        Goal(HOLD_EST, "J", hold_est),
        Goal(TAIL_SAFE, LONGEST_TO_FIFO, "4", least=False),
        Goal(TAIL_SAFE, "J", tail),
    )


#: Fraction of interactive jobs in the 2008 load -> goals.
SYNTHETIC_GOALS: Mapping[float, Sequence[Goal]] = {
    0.2: _synthetic("25", ".955", ".975", "15", ".955", ".965", ".945"),
    0.4: _synthetic("20", ".962", ".976", "10", ".962", ".970", ".955"),
    0.5: _synthetic("18", ".963", ".976", "10", ".964", ".971", ".960"),
}


def _segment(oracle: str, estimated: str) -> Sequence[Goal]:
    return (
        Goal(HOLD, "interactive within 120 s", ".96"),
        Goal(HOLD, "R", oracle),
        Goal(HOLD, BATCH_TO_SJF, "1.15", least=False),
        Goal(HOLD, FAIRNESS_LOST, "-.01"),
        Goal(HOLD_EST, "R", estimated),
        Goal(HOLD_EST, BATCH_TO_SJF, "1.15", least=False),
        Goal(HOLD_EST, FAIRNESS_LOST, "-.01"),
    )


#: Segment of LPC-EGEE -> goals.
SEGMENT_GOALS: Mapping[int, Sequence[Goal]] = {
    14: _segment(".94", ".94"),
    17: _segment(".89", ".84"),
    18: _segment(".98", ".97"),
    19: _segment(".91", ".89"),
}
#: What a table shows of every policy on the 2008 load, and on a segment.
SYNTHETIC_COLUMNS = (
    *("J", "interactive mean wait", "interactive within 120 s"),
    *(WAIT_TO_FIFO, LONGEST_TO_FIFO),
)
SEGMENT_COLUMNS = ("R", "interactive within 120 s", BATCH_TO_SJF, FAIRNESS_LOST)
BASELINES = (FIFO, SJF)
