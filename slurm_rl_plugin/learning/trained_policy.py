"""The form in which every training algorithm gives its network and its learning curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork

#: Told after each step of a training: the number of steps done and the best objective so far.
Progress = Callable[[int, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedPolicy:
    """The outcome of a training.

    Attributes:
        network: the best by the validation loads.
        validation_objective: its objective there.
        curve: [step, objective on the training loads, objective on the validation loads].
        simulated_jobs: jobs simulated in all.
        compared: what else was validated beside it, and its objective; () leaves that to the
            ordering rules.
    """

    network: QNetwork | EchoStateNetwork
    validation_objective: float
    curve: tuple[tuple[int, float, float], ...]
    simulated_jobs: int
    compared: tuple[tuple[str, float], ...] = ()
