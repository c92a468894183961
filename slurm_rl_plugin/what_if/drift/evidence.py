"""Evidence that a model's gain is less than it was, week by week.

A week's gain is the log of its cost under the model over that under the site's own order. Where
nothing has changed it is any of the gains of the reference weeks, so that its rank among them is
even: p is the part of them that were as bad or worse (a conformal p-value). Each week bets that p
is small, and the bets of all possible beginnings of a change are added up (a Shiryaev-Roberts
procedure), which crosses a bound of n by chance once in n weeks at most, were the p-values even and
independent (Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman 2021, "Retrain or not
retrain"; Shin, Ramdas and Rinaldo 2023). All are ranks among the same weeks of reference, so that
it holds in the mean over sites alone (docs/drift.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray
from slurm_rl_plugin.what_if.drift.weekly_costs import WeeklyCosts

#: What is bet in a week.
_BET = 0.9
#: A warning by chance in so many weeks, in the mean, were weeks exchangeable. They are alike beside
#: each other, so that it is asked for twice the year that is promised.
BOUND = 104.0
#: Weeks of reference with a queue, before anything is said.
FEWEST = 8
#: Weeks in which this part of the usual queue waits under the site's order tell nothing of gain.
_STAKE = 0.1
#: Weeks that what is gained lately is of.
_LATELY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftFinding:
    """What is known of the gain of a model.

    Attributes:
        promised: cost under the model over that under the site's order, in the reference weeks;
            NaN where nobody waited.
        lately: the same in the last weeks with a queue.
        evidence: against "nothing has changed", after each later week, shape [n].
        lost_at: place of the week after which it was enough; None for not yet.
        weeks: reference weeks with a queue.
    """

    promised: float
    lately: float
    evidence: FloatArray
    lost_at: int | None
    weeks: int


def drift_finding(reference: WeeklyCosts, later: WeeklyCosts) -> DriftFinding:
    """Whether a model gains less than in its reference weeks.

    Args:
        reference: weeks before the model came into service.
        later: weeks since.
    """
    stake = _STAKE * float(np.median(reference.by_site)) if len(reference) else np.inf
    known = _has_queue(reference, stake)
    usual = _gains(reference)[known]
    evidence, so_far = np.zeros(len(later)), 0.0
    gains, counts = _gains(later), _has_queue(later, stake)
    for place in range(len(later)):
        if counts[place] and len(usual) >= FEWEST:
            p = (np.count_nonzero(usual >= gains[place]) + 1) / (len(usual) + 1)
            so_far = (1.0 + so_far) * (1.0 + _BET * (1.0 - 2.0 * p))
        evidence[place] = so_far
    crossed = np.flatnonzero(evidence >= BOUND)
    recent = np.flatnonzero(counts)[-_LATELY:]
    return DriftFinding(
        promised=_ratio(reference.of(known)),
        lately=_ratio(later.of(recent)),
        evidence=evidence,
        lost_at=int(crossed[0]) if len(crossed) else None,
        weeks=len(usual),
    )


def _has_queue(costs: WeeklyCosts, stake: float) -> BoolArray:
    """Weeks in which there was something to gain."""
    return np.asarray((costs.by_site > stake) & (costs.by_ours > 0.0))


def _gains(costs: WeeklyCosts) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(costs.by_ours) - np.log(costs.by_site))


def _ratio(costs: WeeklyCosts) -> float:
    site = float(costs.by_site.sum())
    return float(costs.by_ours.sum()) / site if site > 0.0 else float("nan")
