"""Rules by which an agent chooses a resource and learns; `agents.simulation` compiles them.

The paper's rule has a score for each resource, by the sign of its jobs' experiences (2005, 2.3).
With the probing rule an agent knows few resources, and takes the one with the shortest expected
response: the wait expected from its earlier jobs, and the run time of the job. All times have one
unit: ticks in simulations, seconds on real sites. The work of a job is in that unit times capacity.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.units import IntArray


def experience(wait: float, run_time: float, size: float) -> float:
    """The experience of a job, r = Tw + Texc / J (2005, section 2.2); less is better.

    Args:
        wait: Tw, from submission to start.
        run_time: Texc.
        size: J, the run time at capacity 1.
    """
    return wait + run_time / size


def reward(met: float, total: float, count: int) -> int:
    """sign(mean - r) of integer parts: 1 for better than the agent's mean, -1 for worse (2.3)."""
    if count == 0:
        return 0
    return int(np.sign(np.floor(total / count) - np.floor(met)))


def best_score(scores: IntArray, chance: float) -> int:
    """The resource with the highest score; `chance` in [0, 1) breaks ties evenly (2005, 2.3)."""
    highest = scores.max()
    equal = 0
    for score in scores:
        equal += score == highest
    left = int(chance * equal)
    best = 0
    for resource in range(len(scores)):
        if scores[resource] == highest:
            best = resource
            if left == 0:
                break
            left -= 1
    return best


def in_random_order(count: int, rng: np.random.Generator) -> IntArray:
    """The numbers below `count` in random order, shape [count]."""
    left, order = np.arange(count), np.empty(count, dtype=np.int64)
    for drawn in range(count):
        at = int(rng.random() * (count - drawn))
        order[drawn] = left[at]
        left[at:-1] = left[at + 1 :].copy()
    return order


def expected_wait(
    mean_wait: float, last_wait: float, silence: float, recent: float, fading: float, known: float
) -> float:
    """Expected wait of an agent at a resource now.

    Shortly after news the queue is as it was, later it is the mean, and after a long silence the
    resource is tried again. The agent's own last job gives a lower bound: a new job starts after
    it, and while it has not completed, the wait is at least its wait so far.

    Args:
        mean_wait: of the agent's waits; 0 without any.
        silence: time since the last news.
        recent: time in which the distance of the last wait from the mean falls to 1/e.
        fading: time in which the mean falls to 1/e without news.
        known: lower bound of the wait.
    """
    mean = mean_wait * np.exp(-silence / fading)
    return max(mean + (last_wait - mean_wait) * np.exp(-silence / recent), known)


def waited_so_far(age: float, size: float, capacity: float) -> float:
    """Lower bound of the wait of a job that has not completed at this age."""
    return max(age - size / capacity, 0.0)


def learned_wait(mean_wait: float, count: int, wait: float, weight: float) -> float:
    """The mean of `count` waits and another one.

    `weight` is that of the newest wait; the first 1 / weight waits count equally.
    """
    return mean_wait + max(1.0 / (count + 1), weight) * (wait - mean_wait)
