"""Verdicts on what a paper prints: one draw of a random figure, a bound, a difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.papers.study.claims import (
    Algorithm,
    Cell,
    Claim,
    Judgement,
    Measurement,
    Printed,
)
from slurm_rl_plugin.units import FloatArray

#: Logs of which an interval says something.
FEW_LOGS = 10
#: Part of the draws that counts as usual.
_USUAL = (0.025, 0.975)


class Goal(NamedTuple):
    """A bound on a figure; met where its 95 % interval reaches it (definitions).

    Attributes:
        policy: whose figure.
        column: what is measured.
        bound: as text, with its decimals.
        least: whether the figure is to be at least the bound; otherwise at most.
    """

    policy: str
    column: str
    bound: str
    least: bool = True


def as_one_draw(printed: Printed, draws: FloatArray, remark: str = "") -> Judgement:
    """Whether a figure printed for one random log is a usual one among ours.

    A mean wait at load .99 varies several-fold from log to log: that the printed figure is not
    our mean says nothing.

    Args:
        printed: of one log.
        draws: ours, one a log; of a single log it must be equal as printed.
        remark: why it differs, where it does; a clause without a full stop.
    """
    if len(draws) < 2:
        holds = bool(abs(draws[0] - printed.value) <= printed.unit / 2)
        text = f"measured {draws[0]:.4g} on the one log"
    else:
        low, high = np.quantile(draws, _USUAL)
        holds = bool(low - printed.unit / 2 <= printed.value <= high + printed.unit / 2)
        place = "within" if holds else "outside"
        text = f"printed figure {place} {low:.4g} to {high:.4g}, the middle 95 % of single logs"
    return Judgement(holds, text if holds or not remark else f"{text}: {remark}")


def as_bound(
    measured: Measurement, bound: float, *, least: bool, logs: int = FEW_LOGS, remark: str = ""
) -> Judgement:
    """Whether a figure keeps to a bound that the text of a paper states; its interval may reach it.

    Args:
        measured: with its interval over the logs, where there are several.
        bound: as stated.
        least: whether the figure is to be at least the bound; otherwise at most.
        logs: how many were measured; the interval of a few reaches anything, so that the mean
            alone is judged.
        remark: why it does not, where it does not; a clause without a full stop.
    """
    low, high = measured.ends if logs >= FEW_LOGS else (measured.value, measured.value)
    holds = bool(high >= bound) if least else bool(low <= bound)
    side = "at least" if least else "at most"
    text = f"{measured.value:.5g} against {side} {bound:.4g}"
    return Judgement(holds, text if holds or not remark else f"{text}: {remark}")


def bounded(
    cell: Cell,
    measured: Measurement,
    bound: str,
    *,
    least: bool = False,
    logs: int = FEW_LOGS,
    source: str = "paper",
    algorithm: Algorithm = "paper",
    baselines: Mapping[str, float] | None = None,
    remark: str = "",
) -> Claim:
    """The claim that a figure keeps to a bound, judged by `as_bound`, which see.

    Args:
        cell: whose figure.
        measured: by this package.
        bound: as stated, with its decimals.
        least: whether it is a lower bound.
        logs: how many were measured.
        source: who states it.
        algorithm: whose algorithm was measured.
        baselines: policy -> the same figure under it.
        remark: why it does not hold, where it does not.
    """
    printed = Printed.of(bound)
    return Claim(
        cell=cell,
        measured=measured,
        printed=printed,
        source=source,
        algorithm=algorithm,
        baselines=baselines or {},
        judged=as_bound(measured, printed.value, least=least, logs=logs, remark=remark),
    )


def as_gain(difference: Measurement, remark: str = "") -> Judgement:
    """Whether a paired difference is an improvement: its whole interval lies above 0.

    Args:
        difference: new less old, of a figure of which more is better.
        remark: why not, where it is none; a clause without a full stop.
    """
    low, high = difference.ends
    text = f"paired difference {difference.value:+.3g}, 95 % interval {low:+.3g} to {high:+.3g}"
    holds = bool(low > 0.0)
    return Judgement(holds, text if holds or not remark else f"{text}: {remark}")
