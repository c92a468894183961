"""Whether a log is long enough to tell anything: training and validation part, in jobs and days."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slurm_rl_plugin.learning.heldout_training import SEARCHED_PART
from slurm_rl_plugin.learning.load_windows import TRAINING_FRACTION
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from slurm_rl_plugin.utility.intervals import BLOCK_JOBS, FEWEST_BLOCKS

#: Blocks that a replay needs before it gives an interval: a part needs as many.
_JOBS, _DAYS = FEWEST_BLOCKS * BLOCK_JOBS, FEWEST_BLOCKS


def parts_too_small(logs: Sequence[PreparedLog], *, heldout: bool) -> str | None:
    """One sentence where a part is too small to tell orders apart; None where both are enough.

    A generated log, which records no start, is counted in jobs alone: no hour of it is unlike
    another.

    Args:
        logs: all that train, whose parts count together.
        heldout: whether the last 40 % of each is left untouched.
    """
    searched = TRAINING_FRACTION * SEARCHED_PART
    parts = {"training": searched if heldout else TRAINING_FRACTION}
    parts["validation"] = (TRAINING_FRACTION if heldout else 1.0) - parts["training"]
    first = {"training": 0.0, "validation": parts["training"]}
    small = []
    for name, fraction in parts.items():
        jobs, seconds = _size(logs, first[name], first[name] + fraction)
        if jobs < _JOBS or seconds < _DAYS * DAY:
            span = "" if math.isinf(seconds) else f" in {_span(seconds)}"
            small.append(f"the {name} part ({jobs:,} jobs{span})")
    if not small:
        return None
    least = min(parts.values())
    verb = "is" if len(small) == 1 else "are"
    return (
        f"{' and '.join(small)} {verb} too small to tell one order from another: neighbouring "
        f"jobs wait in the same queue, so it takes {FEWEST_BLOCKS} blocks of a day and "
        f"{BLOCK_JOBS} jobs in each part, about {math.ceil(_JOBS / least):,} jobs of "
        f"{math.ceil(_DAYS / least)} days in all; train on a longer log before you trust these "
        "figures or the model."
    )


def _size(logs: Sequence[PreparedLog], begin: float, end: float) -> tuple[int, float]:
    """Jobs and seconds of submission between two fractions of every log, summed."""
    jobs, seconds = 0, 0.0
    for prepared in logs:
        count = len(prepared.log)
        first, last = int(count * begin), int(count * end)
        jobs += last - first
        if np.isnan(prepared.log.start).all():
            seconds = math.inf
        elif last > first:
            seconds += float(prepared.log.submit[last - 1] - prepared.log.submit[first])
    return jobs, seconds


def _span(seconds: float) -> str:
    for unit, name in ((DAY, "days"), (HOUR, "hours")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / MINUTE:.0f} minutes"
