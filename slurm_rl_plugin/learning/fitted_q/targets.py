"""What fitted Q iteration learns from experience: rewards, and targets one step ahead."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.rollouts.experience import Experience, best_action_values
from slurm_rl_plugin.simulator.rollouts.site_experience import NOBODY, SiteExperience
from slurm_rl_plugin.simulator.scoring.compiled_echo_state import compile_echo_state
from slurm_rl_plugin.units import BoolArray, FloatArray

#: How a start is rewarded on the papers' schemas; see `rewards`.
GRID_REWARDS = ("literal", "difference", "interchange")
#: The same on the `site` schema; see `slowdown_rewards`.
SITE_REWARDS = ("slowdown",)
REWARDS = (*GRID_REWARDS, *SITE_REWARDS)


def rewards(experience: Experience, kind: str, utility_weight: float) -> FloatArray:
    """The reward lambda W + (1 - lambda) F of every start, float64[n] (2011, section 3.3).

    "literal" takes W, the responsiveness of the job at its completion, and F, the fairness at its
    start. Nothing of that speaks of the jobs left waiting, so it favours jobs whose responsiveness
    waiting cannot spoil: the longest. "difference" takes what the start changes instead: minus
    the responsiveness that those left waiting lose, and the fairness gained until the next start.
    "interchange" adds what the job itself would have lost had one of them gone before it, which
    tells jobs apart by their wait, for a schema that holds it.

    Args:
        experience: of one simulation.
        kind: one of GRID_REWARDS.
        utility_weight: lambda, in [0, 1].
    """
    if kind == "literal":
        utility, fairness = experience.responsiveness, experience.fairness
    else:
        utility = experience.spared * (kind == "interchange") - experience.lost
        fairness = np.diff(experience.fairness, append=experience.fairness[-1:])
    return utility_weight * utility + (1.0 - utility_weight) * fairness


def slowdown_rewards(experience: SiteExperience, exponent: float) -> FloatArray:
    """The reward (s - l) / (s + l) of each job at each start, in [-1, 1]; shape as `spared`.

    s is the slowdown that the job would have lost behind those left waiting, one by one, l what
    they lose behind it, each to the power of `exponent`. Weighted shortest processing time first
    (Smith 1956) is the order of s / l. The reward has no scale, so that long and short queues
    speak alike; it is 0 where neither side loses anything.

    Args:
        experience: of one simulation.
        exponent: below 1 it tells good jobs from better ones: s / l spans many powers of ten, and
            with 1 half of all rewards lie within .05 of -1 or 1.
    """
    spared, lost = experience.spared**exponent, experience.lost**exponent
    stake, gained = spared + lost, spared - lost
    return np.divide(gained, stake, out=np.zeros_like(stake), where=stake > 0.0)


def with_a_choice(experience: Experience) -> BoolArray:
    """Starts at which another job could have been started, shape [n]."""
    return np.diff(experience.first_action) > 1


def targets(
    experience: Experience,
    reward: FloatArray,
    network: EchoStateNetwork | None,
    workload: Workload,
    gamma: float,
) -> FloatArray:
    """The target r + gamma max_b Q(s', b) of every start, float64[n] (2011, Algorithm 1).

    The algorithm is printed with min and the state s; rewards are maximised here, and the value
    is that of the next state s'. Where s' offers but one job its own target stands for max_b Q:
    nothing is to be learned there, and what really followed is known.

    Args:
        experience: of one simulation.
        reward: of every start, shape [n].
        network: Q_k; None where there is none yet, which is 0 everywhere.
        workload: that was simulated.
        gamma: discount of one start.
    """
    if network is None or gamma == 0.0:
        value = np.zeros(len(reward))
    else:
        value = best_action_values(
            compile_echo_state(network, workload), experience, workload.submit
        )
    free = with_a_choice(experience)
    found = np.empty(len(reward))
    ahead = 0.0
    for start in range(len(reward) - 1, -1, -1):
        found[start] = reward[start] + gamma * ahead
        ahead = value[start] if free[start] else found[start]
    return found


def site_targets(
    experience: SiteExperience, reward: FloatArray, network: QNetwork | None, gamma: float
) -> FloatArray:
    """The target r + gamma max_b Q(s', b) of each job at each start; shape as `reward`.

    s' is the next start that leaves somebody waiting, whoever of the queue starts at this one.

    Args:
        experience: of one simulation.
        reward: of each job at each start, shape [n, 1 + MOST_OTHERS].
        network: Q_k; None where there is none yet, which is 0 everywhere.
        gamma: discount of one start.
    """
    if network is None or gamma == 0.0:
        return reward
    scores = network.scores(experience.queue[:, None], experience.features)
    best = np.where(experience.job == NOBODY, -np.inf, scores).max(axis=1, initial=-np.inf)
    return reward + gamma * np.append(best[1:], 0.0)[: len(reward), None]
