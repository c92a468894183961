"""Time utility of a job (Perez et al. 2008, eq. 1-3).

Elementwise in every argument, so that the same lines serve one job inside the compiled
simulator and a column of jobs in a report or on the head node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.units import MINUTE

#: Constants of eq. 1-3 (2008, section V.A): decay of interactive jobs per minute past the deadline,
#: exponent of the decay of batch jobs, start-up allowance in seconds.
ALPHA_PER_MINUTE = 0.5
BETA = 0.3
SIGMA = 60.0


def choose(condition: Any, one: Any, other: Any) -> Any:
    """np.where for finite numbers; compiled, np.where makes an array on the heap each time."""
    return condition * one + (1.0 - condition) * other


def time_utility(
    turnaround: Any,
    run_time: Any,
    interactive: Any,
) -> Any:
    """Utility in [0, 1] of completing `turnaround` seconds after submission (2008, eq. 1-3).

    Args:
        turnaround: completion minus submission, seconds; wait + run time.
        run_time: seconds; the relative deadline is run_time + SIGMA.
        interactive: True for exponential decay, False for the power law.
    """
    deadline = run_time + SIGMA
    late = np.maximum(turnaround - deadline, 0.0)
    stretch = np.maximum(turnaround / deadline, 1.0)
    lost = choose(interactive, ALPHA_PER_MINUTE / MINUTE * late, BETA * np.log(stretch))
    return np.exp(-lost)


def time_utility_loss_rate(
    turnaround: Any,
    run_time: Any,
    interactive: Any,
    utility: Any,
) -> Any:
    """Utility lost per second by waiting on (minus the time derivative of eq. 2 and 3).

    Inside the start-up allowance, where eq. 1 is flat, the rate at the deadline is given, so that
    a fresh job is not worthless to start.

    Args:
        turnaround: wait so far plus run time, seconds.
        run_time: seconds.
        interactive: True for interactive, False for batch.
        utility: `time_utility` of the same arguments.
    """
    reached = np.maximum(turnaround, run_time + SIGMA)
    return utility * choose(interactive, ALPHA_PER_MINUTE / MINUTE, BETA / reached)
