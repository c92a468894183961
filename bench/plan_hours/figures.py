"""What a replay shows: that nobody was wronged, and how long jobs waited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

#: Seconds that a run counts as at least in a slowdown.
BOUND = 10.0
#: Seconds by which a batch system may be early by its own clock.
_TICK = 1.0


def figures_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """Counts and means of one arm.

    `killed` ended otherwise than by themselves before their own limit; `changed` have another limit
    than was asked; `overlapping` ran while all was reserved; `outlived` ran longer than the
    estimate with which they started.
    """
    names = ("submit", "start", "end", "limit", "estimate", "minutes", "processors")
    columns = {name: np.array([job[name] for job in run["jobs"]], dtype=float) for name in names}
    submit, start, end, limit = (columns[name] for name in ("submit", "start", "end", "limit"))
    done = np.array([job["state"] == "COMPLETED" for job in run["jobs"]])
    ran, wait, closed = end - start, start - submit, run["closed"]
    slowdown = np.maximum((wait + ran) / np.maximum(ran, BOUND), 1.0)
    work = float((ran * columns["processors"]).sum())
    return {
        "jobs": len(ran),
        "states": dict(Counter(job["state"] for job in run["jobs"])),
        "killed": int((~done & (ran < limit - _TICK)).sum()),
        "changed": int((limit != 60.0 * columns["minutes"]).sum()),
        "overlapping": int(((start < closed["end"]) & (end > closed["begin"])).sum()),
        "given": run["writes"]["given"],
        "rejected": run["writes"]["rejected"],
        "started_with": int((columns["estimate"] > 0).sum()),
        "outlived": int(((columns["estimate"] > 0) & (ran > columns["estimate"])).sum()),
        "slowdown": float(slowdown.mean()),
        "mean_wait": float(wait.mean()),
        "longest_wait": float(wait.max()),
        "makespan": float(end.max() - submit.min()),
        "work": work,
        "late": run["late"],
    }
