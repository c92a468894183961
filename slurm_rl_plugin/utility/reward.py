"""The site's objective: how time utility, responsiveness, fairness and the tail are weighed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slurm_rl_plugin.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardWeights:
    """Weights of the training objective; they act by training and are recorded in the model.

    objective = time_utility*U + responsiveness*R + fairness*F - tail*log10(max wait / FIFO's),
    where the first three weights sum to 1. J of the 2008 paper is (.5, 0, .5, 0), JR of the 2011
    paper is (0, .5, .5, 0). The default serves both kinds of user goal and does not reward
    starvation.

    Raises:
        ConfigurationError: a weight is negative, or the first three do not sum to 1.
    """

    time_utility: float = 0.25
    responsiveness: float = 0.25
    fairness: float = 0.5
    tail: float = 0.02

    def __post_init__(self) -> None:
        weights = (self.time_utility, self.responsiveness, self.fairness)
        if min(weights) < 0 or not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
            raise ConfigurationError(
                f"reward weights time_utility, responsiveness and fairness are {weights}; "
                "make them non-negative with sum 1."
            )
        if not 0.0 <= self.tail < math.inf:
            raise ConfigurationError(
                f"reward weight tail is {self.tail:g}; give a number of at least 0."
            )

    def objective(
        self,
        time_utility: float,
        responsiveness: float,
        fairness: float,
        max_wait_ratio: float,
    ) -> float:
        """The value that training maximises; `max_wait_ratio` is the max wait over FIFO's."""
        return (
            self.time_utility * time_utility
            + self.responsiveness * responsiveness
            + self.fairness * fairness
            - self.tail * math.log10(max(max_wait_ratio, 1e-3))
        )
