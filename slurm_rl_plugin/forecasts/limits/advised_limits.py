"""What limit to ask for next time: the longest run alike and a margin, where that is safe here.

How many runs must have been seen, how alike they must be and how large the margin is are chosen on
the site's own past, so that at most one in a hundred of the jobs that are advised would have been
killed. Where no choice is that safe, nothing is advised.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.forecasts.limits.runs_alike import RunsAlike
from slurm_rl_plugin.units import MINUTE, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Part of the advised jobs that may be killed at most.
KILLED = 0.01
#: Nothing is advised that is above this part of what was asked for.
_WORTH = 0.8
#: Fewest advised jobs that a choice is judged by, and fewest templates that they are of.
FEWEST_JUDGED, _FEWEST_TEMPLATES = 300, 20
#: Standard errors above the part that was killed that must be safe too.
_SURE = 1.645
#: What is tried.
_FEWEST, _MARGINS, _ALIKE = (10, 20, 40), (1.1, 1.25, 1.5, 2.0, 2.5), (1.2, 1.5, 2.0, 3.0, 5.0)


class SeenLimits(NamedTuple):
    """Jobs of a log, what was known of their like, and what became of them; shape [n].

    Attributes:
        past: what was known of each job's like at its submission.
        limit: that it asked for, seconds, nan for none.
        run_time: seconds.
        user: number of each job's user.
    """

    past: RunsAlike
    limit: FloatArray
    run_time: FloatArray
    user: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """When a limit is advised, and which.

    Attributes:
        fewest: runs alike that must have been seen.
        alike: the longest of them over their median at most.
        margin: the limit over the longest.
    """

    fewest: int
    alike: float
    margin: float

    def advised(self, past: RunsAlike, limit: FloatArray) -> FloatArray:
        """Limits in whole minutes, seconds; nan where none is advised; shape [n].

        Args:
            past: what was known of each job's like.
            limit: that it asked for, seconds, nan for none.
        """
        known = (past.seen >= self.fewest) & (past.longest <= self.alike * past.middle)
        told = np.ceil(self.margin * past.longest / MINUTE) * MINUTE
        return np.where(known & (told <= _WORTH * limit), told, np.nan)


def rules() -> list[LimitRule]:
    """Every rule that is tried."""
    return [
        LimitRule(fewest=fewest, margin=margin, alike=alike)
        for fewest, margin, alike in product(_FEWEST, _MARGINS, _ALIKE)
    ]


def chosen_rule(jobs: SeenLimits, judged: BoolArray) -> LimitRule | None:
    """The safe rule that takes most hours off the limits; None where none is safe.

    One user has at most half of the weight, or the rule for all would be that user's.

    Args:
        jobs: of a log.
        judged: those to choose by, shape [n].
    """
    best, most = None, 0.0
    for rule in rules():
        told = rule.advised(jobs.past, jobs.limit)
        spoke = judged & np.isfinite(told)
        killed = jobs.run_time[spoke] > told[spoke]
        weight = one_user_capped(np.ones(len(killed)), jobs.user[spoke])
        if killed_at_most(killed, jobs.past.template[spoke], weight) > KILLED:
            continue
        saved = float((jobs.limit[spoke] - told[spoke]) @ weight)
        if saved > most:
            best, most = rule, saved
    return best


def killed_at_most(killed: BoolArray, template: IntArray, weight: FloatArray) -> float:
    """Upper end of the interval of the part that is killed; 1 where too few tell.

    Jobs of a template are killed together, when its runs get longer, so templates are drawn and
    not jobs: the linearised variance of a ratio over clusters (Cochran, "Sampling Techniques",
    1977, 6.3).

    Args:
        killed: whether each advised job would have been, shape [m].
        template: whose each is, shape [m].
        weight: how much each counts, shape [m].
    """
    _, place = np.unique(template, return_inverse=True)
    count = int(place.max(initial=-1)) + 1
    if len(killed) < FEWEST_JUDGED or count < _FEWEST_TEMPLATES:
        return 1.0
    part = float(np.average(killed, weights=weight))
    off = np.bincount(place, weight * (killed - part))
    error = float(np.sqrt((off**2).sum() * count / (count - 1.0)) / weight.sum())
    return part + _SURE * error


def judged_rule(rule: LimitRule, jobs: SeenLimits, judged: BoolArray) -> dict[str, Any]:
    """What a rule would have come to on some jobs of a log, those at `judged`, shape [n]."""
    told = rule.advised(jobs.past, jobs.limit)
    spoke = judged & np.isfinite(told)
    found: dict[str, Any] = {"jobs": int(judged.sum()), "advised": int(spoke.sum())}
    if spoke.any():
        ran, asked = jobs.run_time[spoke], jobs.limit[spoke]
        found |= {
            "killed": float((ran > told[spoke]).mean()),
            "over_run_time": float(np.median(told[spoke] / ran)),
            "asked_over_run_time": float(np.median(asked / ran)),
        }
    return found
