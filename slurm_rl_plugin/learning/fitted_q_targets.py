"""What fitted Q iteration learns from experience: rewards, and targets one step ahead."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.simulator.cluster import Workload
from slurm_rl_plugin.simulator.compiled_echo_state import compile_echo_state
from slurm_rl_plugin.simulator.experience import Experience, best_action_values
from slurm_rl_plugin.units import BoolArray, FloatArray

#: How a start is rewarded; see `rewards`.
REWARDS = ("literal", "difference", "interchange")


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
        kind: one of REWARDS.
        utility_weight: lambda, in [0, 1].
    """
    if kind == "literal":
        utility, fairness = experience.responsiveness, experience.fairness
    else:
        utility = experience.spared * (kind == "interchange") - experience.lost
        fairness = np.diff(experience.fairness, append=experience.fairness[-1:])
    return utility_weight * utility + (1.0 - utility_weight) * fairness


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
