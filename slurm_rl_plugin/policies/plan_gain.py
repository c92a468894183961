"""Whether plan estimates gain anything under a model: measured where it was trained, in its file.

The hook gives no estimates under a model whose training says that nothing is gained
(docs/plan-estimates.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from slurm_rl_plugin.errors import ModelSchemaMismatch

#: Entry of a model's metadata that holds it.
PLAN_GAIN_ENTRY = "plan_gain"
#: What a measurement says.
GAINED, NOTHING_GAINED, NOT_MEASURED = VERDICTS = ("gained", "nothing gained", "not measured")
#: The longest wait that a gain may cost, over that of first come, first served.
LONGEST_WAIT = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGain:
    """Training logs under the model's order, planned with estimates.

    Attributes:
        verdict: one of VERDICTS; "not measured" where every log was too short.
        slowdown: mean bounded slowdown over that without estimates; None where not measured.
        ci95: its interval.
        longest_wait: over that of first come, first served with requests; of several logs the
            largest, 0 where nobody waits.
        runs: of each log.

    Raises:
        ValueError: another verdict, or a measurement without its figures.
    """

    verdict: str
    slowdown: float | None = None
    ci95: tuple[float, float] | None = None
    longest_wait: float | None = None
    runs: int = 0

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r}")
        told = None not in (self.slowdown, self.ci95, self.longest_wait)
        if told == (self.verdict == NOT_MEASURED):
            raise ValueError("a verdict without figures, or figures without one")

    @classmethod
    def judged(
        cls, *, slowdown: float, ci95: tuple[float, float], longest_wait: float, runs: int
    ) -> Self:
        """The verdict on what was measured: gained where all of the interval lies below 1."""
        gained = ci95[1] < 1.0 and longest_wait <= LONGEST_WAIT
        return cls(
            verdict=GAINED if gained else NOTHING_GAINED,
            slowdown=slowdown,
            ci95=ci95,
            longest_wait=longest_wait,
            runs=runs,
        )

    @property
    def gained(self) -> bool:
        """Whether estimates were worth it."""
        return self.verdict == GAINED

    @property
    def words(self) -> str:
        """What was measured, for a person."""
        if self.ci95 is None:
            return "the training logs are too short"
        low, high = self.ci95
        return (
            f"slowdown {self.slowdown:.3f} [{low:.3f}, {high:.3f}] of that without, longest wait "
            f"{self.longest_wait:.2f} of first come's, {self.runs} runs"
        )

    def doubt(self, model: str) -> str:
        """Why nobody is given an estimate under the model; "" where they are.

        Args:
            model: its name.
        """
        if self.gained:
            return ""
        mend = "[plan] insist = true gives them all the same"
        if self.verdict == NOT_MEASURED:
            return (
                f"it is not known whether plan estimates gain anything under model {model} "
                f"({self.words}): train on a longer log; {mend}"
            )
        return (
            f"plan estimates gained nothing where model {model} was trained ({self.words}): train "
            f"on a later log, or set [plan] estimates = false; {mend}"
        )


def plan_gain_in(path: Path, metadata: Mapping[str, str]) -> PlanGain | None:
    """What a model says; None for one that says nothing, as those made before 0.6.0.

    Raises:
        ModelSchemaMismatch: it is nothing that this release knows.
    """
    text = metadata.get(PLAN_GAIN_ENTRY)
    if text is None:
        return None
    try:
        found = json.loads(text)
        ci95 = found["ci95"]
        return PlanGain(
            verdict=str(found["verdict"]),
            slowdown=_number(found["slowdown"]),
            ci95=None if ci95 is None else _interval(*ci95),
            longest_wait=_number(found["longest_wait"]),
            runs=int(found["runs"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ModelSchemaMismatch(
            f"model {path} tells of plan estimates as this release does not ({text[:80]}): retrain "
            "it."
        ) from None


def _number(found: Any) -> float | None:
    if found is None:
        return None
    number = float(found)
    if not 0.0 <= number < math.inf:
        raise ValueError(f"{number} is no ratio")
    return number


def _interval(low: Any, high: Any) -> tuple[float, float]:
    ends = (_number(low), _number(high))
    if ends[0] is None or ends[1] is None:
        raise ValueError("an interval without ends")
    return ends[0], ends[1]
