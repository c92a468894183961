"""What the held-out study measures, and what is to be reached on each log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_rl_plugin.papers.study.verdicts import Goal

WITHOUT, TUNED, HOLDING = "trained without the log", "fine-tuned", "fine-tuned, holding"
FITTED = "fitted Q, without the log"
UNSEARCHED, TAIL_SAFE = "live WSPT, nothing searched", "fine-tuned, tail-safe"
TO_BEST, TO_MULTIFACTOR = "slowdown / best rule's", "slowdown / multifactor's"
SHORT_GAIN = "short jobs within 120 s less multifactor's (points)"
LONGEST = "longest wait / multifactor's"
MISDELIVERED = "service to the wrong account (misdelivered)"


def _goals(without: str, tuned: str, to_multifactor: str) -> Sequence[Goal]:
    return (
        Goal(WITHOUT, TO_BEST, without, least=False),
        Goal(TUNED, TO_BEST, tuned, least=False),
        Goal(HOLDING, TO_BEST, tuned, least=False),
        Goal(TUNED, TO_MULTIFACTOR, to_multifactor, least=False),
        Goal(TAIL_SAFE, LONGEST, "1.1", least=False),
    )


#: Log -> goals; a log that is not named here has none.
GOALS: Mapping[str, Sequence[Goal]] = {
    "SDSC-SP2": (*_goals("1.00", ".90", ".70"), Goal(HOLDING, SHORT_GAIN, "10")),
    "HPC2N": _goals(".90", ".75", ".70"),
    "CTC-SP2": (
        *_goals(".90", ".85", ".55"),
        Goal(TUNED, SHORT_GAIN, "10"),
        Goal(HOLDING, SHORT_GAIN, "10"),
    ),
}
COLUMNS = (TO_BEST, TO_MULTIFACTOR, SHORT_GAIN, LONGEST, MISDELIVERED)
