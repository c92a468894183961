"""The site's objective: how time utility, responsiveness, fairness and the tail are weighed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurm_rl_plugin.errors import ConfigurationError

#: Mean wait of batch jobs over SJF's up to which `batch_delay` counts nothing.
ALLOWED_BATCH_DELAY = 1.1
#: Mean wait of a group over that under the site's own priority up to which it does not lose.
ALLOWED_GROUP_WAIT = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardWeights:
    """Weights of the training objective; they act by training and are recorded in the model.

    objective = time_utility*U + responsiveness*R + fairness*F - tail*log10(max wait / FIFO's)
                - batch_delay*log10(max(1, mean batch wait / SJF's / 1.1))
                - slowdown*log10(mean bounded slowdown / SAF's)
                - groups*(mean over groups of log10(max(1, mean wait / the site's / 1.05))),
    where the first three weights sum to 1 and SJF knows the run times; SAF orders by the requested
    time; groups are of widths and of time limits, and the site's waits are those of its own
    priority's order. The term of batch_delay bounds what batch jobs pay for processors that are
    held for interactive ones, that of groups what any pays for the mean slowdown; with a slowdown
    of 10 the first three hardly count. J of the 2008 paper is (0.5, 0, 0.5, 0), JR of the 2011
    paper is (0, 0.5, 0.5, 0). The default serves both kinds of user goal and does not reward
    starvation.

    Raises:
        ConfigurationError: a weight is negative, or the first three do not sum to 1.
    """

    time_utility: float = 0.25
    responsiveness: float = 0.25
    fairness: float = 0.5
    tail: float = 0.02
    batch_delay: float = 0.0
    slowdown: float = 0.0
    groups: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.time_utility, self.responsiveness, self.fairness)
        if min(weights) < 0 or not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
            raise ConfigurationError(
                f"reward weights time_utility, responsiveness and fairness are {weights}; "
                "make them non-negative with sum 1."
            )
        for name in ("tail", "batch_delay", "slowdown", "groups"):
            weight = getattr(self, name)
            if not 0.0 <= weight < math.inf:
                raise ConfigurationError(
                    f"reward weight {name} is {weight:g}; give a number of at least 0."
                )

    def without_fairness(self) -> RewardWeights:
        """The same goals for accounts to which no one has promised shares.

        Time utility and responsiveness are scaled to sum 1; the other weights stay.

        Raises:
            ConfigurationError: fairness is the only one of the three with a weight.
        """
        rest = self.time_utility + self.responsiveness
        if rest <= 0.0:
            raise ConfigurationError(
                "[reward] weighs fairness alone, and the shares are derived from past work: give "
                "--shares, [shares], or --cluster with sacctmgr's output next to slurm.conf."
            )
        return replace(
            self,
            time_utility=self.time_utility / rest,
            responsiveness=self.responsiveness / rest,
            fairness=0.0,
        )

    def objective(
        self,
        time_utility: float,
        responsiveness: float,
        fairness: float,
        max_wait_ratio: float,
        batch_wait_ratio: float = 1.0,
        slowdown_ratio: float = 1.0,
        group_ratios: Sequence[float] = (),
    ) -> float:
        """The value that training maximises; see the class.

        The ratios are the longest wait over FIFO's, the mean wait of batch jobs over SJF's, the
        mean bounded slowdown over SAF's, and the mean wait of each group over that under the site's
        priority.
        """
        losses = [math.log10(max(ratio / ALLOWED_GROUP_WAIT, 1.0)) for ratio in group_ratios]
        return (
            self.time_utility * time_utility
            + self.responsiveness * responsiveness
            + self.fairness * fairness
            - self.tail * math.log10(max(max_wait_ratio, 1e-3))
            - self.batch_delay * math.log10(max(batch_wait_ratio / ALLOWED_BATCH_DELAY, 1.0))
            - self.slowdown * math.log10(max(slowdown_ratio, 1e-3))
            - self.groups * (math.fsum(losses) / len(losses) if losses else 0.0)
        )
