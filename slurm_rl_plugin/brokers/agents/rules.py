"""How one agent chooses a resource and learns: plain functions, which `agents.simulation` compiles.

Two rules. The paper's: a score for each resource, by the sign of what a job met there (2005, 2.3).
The probing rule: an agent knows few resources, looks at some of them for each job, and takes the
one with the shortest expected response: the wait that it expects from what its jobs met there, and
the run time of the job. Times are in one unit, any: ticks in simulations, seconds on real sites.
The work of a job is in that unit times capacity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.units import FloatArray, IntArray


class ProbeSettings(NamedTuple):
    """Constants of the probing rule."""

    probes: int  #: at how many of the resources that it knows an agent looks for a job
    #: Of the newest wait in the mean; until 1 / weight waits are met, all count alike.
    weight: float
    recent: float  #: time in which the last wait falls back to the mean, to 1/e of the distance
    fading: float  #: time in which the mean falls to 1/e while nothing is heard


def experience(wait: float, run_time: float, size: float) -> float:
    """What a job met: r = Tw + Texc / J (2005, section 2.2); less is better.

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


def drawn_places(chances: FloatArray, probes: int, rng: np.random.Generator) -> IntArray:
    """Different places, one after the other in proportion to their chances; shape [probes].

    Args:
        chances: of each place, above 0, shape [M], M >= probes.
    """
    left = chances.copy()
    places = np.empty(probes, dtype=np.int64)
    for drawn in range(probes):
        at = rng.random() * left.sum()
        place, last = -1, -1
        for each in range(len(left)):
            if left[each] > 0.0:
                last = each
                at -= left[each]
                if at < 0.0 and place < 0:
                    place = each
        if place < 0:  # rounding of the sum
            place = last
        places[drawn] = place
        left[place] = 0.0
    return places


def expected_wait(
    mean_wait: float, last_wait: float, silence: float, recent: float, fading: float, known: float
) -> float:
    """Wait that an agent expects at a resource now.

    A queue that was just met is much as it was; later it is what it is on average; and after a long
    silence the resource is tried again. What the agent's own last job there tells for certain
    comes first: a new one starts after it, and while it has not completed, the wait is at least
    its own so far. No news is bad news.

    Args:
        mean_wait: of the waits met; 0 where the agent has never been.
        silence: time since the agent last heard from there.
        known: the least that the wait is for certain; 0 where nothing is.
    """
    mean = mean_wait * np.exp(-silence / fading)
    return max(mean + (last_wait - mean_wait) * np.exp(-silence / recent), known)


def waited_so_far(age: float, size: float, capacity: float) -> float:
    """The least that a job has waited that has not completed at this age."""
    return max(age - size / capacity, 0.0)


def learned_wait(mean_wait: float, count: int, wait: float, weight: float) -> float:
    """The mean wait once another one is met: plain at first, then exponentially weighted.

    Args:
        mean_wait: of `count` earlier waits.
    """
    return mean_wait + max(1.0 / (count + 1), weight) * (wait - mean_wait)
