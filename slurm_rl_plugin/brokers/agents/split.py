"""The best that agents can do who know all capacities and the load, but nothing of the queues.

Each job goes to resource i with a fixed probability. With Poisson arrivals and first come first
served a resource of utilization rho has the mean response (Pollaczek-Khinchine)
E[J]/C (1 + k rho / (2 (1 - rho))), k = E[J^2]/E[J]^2. The mean response over all jobs is least
where the derivative by the work sent there, (1 + k/2 (1/(1 - rho)^2 - 1)) / C, is the same for all
resources in use.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.units import FloatArray

_BISECTIONS = 200


def utilization_at(price: float, capacity: FloatArray, variability: float) -> FloatArray:
    """Utilization at which one more unit of work costs `price` everywhere; 0 where it costs more.

    Args:
        price: the common derivative, ticks a unit of work over E[J].
        capacity: work a tick, shape [R].
        variability: k = E[J^2]/E[J]^2.
    """
    over = np.maximum(price * capacity - 1.0, 0.0)
    return np.asarray(1.0 - 1.0 / np.sqrt(1.0 + 2.0 / variability * over))


def optimal_split(capacity: FloatArray, work_rate: float, variability: float) -> FloatArray:
    """Probability of each resource, shape [R], sum 1.

    Where the work does not fit, the split is in proportion to the capacities.

    Args:
        capacity: work a tick, shape [R].
        work_rate: work that is submitted in a tick.
        variability: k = E[J^2]/E[J]^2.
    """
    if work_rate >= capacity.sum():
        return np.asarray(capacity / capacity.sum())
    low = 1.0 / float(capacity.max())  # the fastest takes the first unit at this price
    high = 2.0 * low
    while (utilization_at(high, capacity, variability) * capacity).sum() < work_rate:
        high *= 2.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if (utilization_at(middle, capacity, variability) * capacity).sum() < work_rate:
            low = middle
        else:
            high = middle
    work = utilization_at(high, capacity, variability) * capacity
    return np.asarray(work / work.sum())
