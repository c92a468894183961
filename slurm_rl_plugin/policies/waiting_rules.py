"""Orders that change while jobs wait: their scores depend on the time and on what was used.

Elementwise, plain numpy style: the simulator compiles these very lines. Higher starts earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np

from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.utility.time_utility import (
    paper_row,
    time_utility,
    time_utility_loss_rate,
)

#: Keeps UNICEP from 0/0 for a job of one processor that has not waited.
_EPSILON = 1e-15
#: Weights of Slurm's multifactor priority in a plain fair-share set-up, priority points.
AGE_WEIGHT, FAIR_SHARE_WEIGHT, SIZE_WEIGHT = 1000.0, 10_000.0, 1000.0
#: Slurm's PriorityMaxAge default, seconds.
MAX_AGE = 7 * DAY


def wfp3(wait: Any, estimate: Any, size: Any) -> Any:
    """(wait / estimate)^3 * size (Tang et al. 2009), with the wait that jobs really have.

    Wait and estimate in seconds, size in processors, here and below.
    """
    return (wait / estimate) ** 3 * size


def unicep(wait: Any, estimate: Any, size: Any) -> Any:
    """Wait / (log2(size) * estimate) (Tang et al. 2009); one processor goes first."""
    return (wait + _EPSILON) / (np.log2(size + _EPSILON) * estimate)


def expansion_factor(wait: Any, estimate: Any) -> Any:
    """(wait + estimate) / estimate: the slowdown the job has reached."""
    return (wait + estimate) / estimate


def classic_fair_share(usage: Any, share: Any) -> Any:
    """Slurm's classic fair-share factor 2^(-usage/share); an account without a share gets 0.

    `usage` is its fraction of the decayed usage of all accounts.
    """
    return (share > 0.0) * 2.0 ** (-usage / np.maximum(share, 1e-9))


def multifactor(wait: Any, processors: Any, capacity: Any, usage: Any, share: Any) -> Any:
    """Slurm's documented example of priority/multifactor: age, fair share, size; whole points.

    `usage` and `share` are those of the job's account, as in `classic_fair_share`.
    """
    age = np.minimum(wait / MAX_AGE, 1.0)
    fair_share = classic_fair_share(usage, share)
    size = processors / capacity
    return np.floor(AGE_WEIGHT * age + SIZE_WEIGHT * size + FAIR_SHARE_WEIGHT * fair_share)


def utility_greedy(wait: Any, estimate: Any, size: Any, interactive: Any) -> Any:
    """Time utility lost each second by waiting on, for each processor-second of work.

    The marginal-utility index of eq. 1-3 (2008): an interactive job whose utility is gone has
    nothing left to lose and is served last, which is why the rule has a long tail.
    """
    turnaround, row = wait + estimate, paper_row(interactive)
    utility = time_utility(turnaround, estimate, row)
    rate = time_utility_loss_rate(turnaround, estimate, row, utility)
    return rate / (np.maximum(estimate, 1.0) * size)


def drf(in_use: Any) -> Any:
    """Dominant resource fairness (Ghodsi et al. 2011): of the user who has least the first comes.

    `in_use` is what running jobs of the job's user take, as a part of the machine. Parts of a
    million count as equal, since sums differ in rounding with their order.
    """
    return -np.rint(in_use * 1e6)


def reads_users(rule: Callable[..., Any]) -> bool:
    """Whether a rule of WAITING_RULES gives jobs of other users another score."""
    return "in_use" in signature(rule).parameters


#: The rule that is the site's own priority.
SITES_OWN = "multifactor"
#: By name; parameters are named as above, since others fill them in by name (`registry`). The
#: simulator compiles each (simulator/scoring/rules.py), but of SITES_OWN (site_priority.py).
WAITING_RULES: Mapping[str, Callable[..., Any]] = {
    "wfp3": wfp3,
    "unicep": unicep,
    "expansion-factor": expansion_factor,
    "utility-greedy": utility_greedy,
    SITES_OWN: multifactor,
    "drf": drf,
}
