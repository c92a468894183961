"""Settings of fitted Q iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID_SCHEMAS, REACTIVE_GRID_WAIT
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.fitted_q.targets import REWARDS, SITE_REWARDS
from slurm_rl_plugin.learning.setting_numbers import check_number
from slurm_rl_plugin.policies.reservoir import ReservoirSettings
from slurm_rl_plugin.simulator.rollouts.site_experience import MOST_OTHERS
from slurm_rl_plugin.utility.reward import RewardWeights

#: What fits the Q-function.
REGRESSORS = ("feed-forward", "echo-state")
#: The schemas that a trained network may take, by name.
SCHEMAS = {schema.name: schema for schema in (*REACTIVE_GRID_SCHEMAS, REACTIVE_GRID_WAIT, SITE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedQSettings:
    """Settings of fitted Q iteration (2011, sections 3.2 and 4).

    The defaults see the paper's 11 inputs, among which there is no wait. With run times known that
    is enough for the level of shortest job first. With class medians, jobs of one class and VO are
    then all alike: schema "reactive-grid-wait" with reward "interchange" tells them apart and
    reaches min(run + wait). With run times known that pair gives up those who have waited long.
    Schema "site" goes with reward "slowdown" and with nothing else; see SLOWDOWN.

    Attributes:
        regressor: one of REGRESSORS.
        schema: name of one of the papers' schemas, "reactive-grid-wait" or "site".
        iterations: N of Algorithm 1; experience is collected anew before each.
        kept: how many collections are learned from, the last ones.
        gamma: discount of one start.
        epsilon: probability of a random start while collecting; not for `site`.
        utility_weight: lambda, of responsiveness against fairness in the reward; not for `site`.
        noise: on the weights while collecting, in parts of their root mean square; `site` only.
        others: jobs left waiting that are learned from beside each start, MOST_OTHERS at most;
            `site` only.
        exponent: of what reward "slowdown" compares (`slowdown_rewards`).
        batch: training loads drawn anew for each iteration; 0 takes all of them in each.
        reward: one of REWARDS.
        hidden: sigmoid units of the feed-forward network.
        passes: over the samples in each fit of the feed-forward network.
        decay: L2 penalty of the feed-forward network.
        reservoir: of the echo state network.
        ridge: penalty of its readout, per sample and on standardised inputs.
        seed: of everything random.
        weights: of the objective by which the best network is kept.

    Raises:
        ConfigurationError: an unknown name, names that do not go together, or a number out of its
            range.
    """

    regressor: str = "echo-state"
    schema: str = "reactive-grid-2011"
    iterations: int = 12
    kept: int = 3
    gamma: float = 0.9
    epsilon: float = 0.1
    utility_weight: float = 0.5
    noise: float = 0.3
    others: int = 8
    exponent: float = 0.25
    batch: int = 0
    reward: str = "difference"
    hidden: int = 16
    passes: int = 20
    decay: float = 1e-4
    reservoir: ReservoirSettings = field(default_factory=ReservoirSettings)
    ridge: float = 1e-4
    seed: int = 1
    weights: RewardWeights = field(
        default_factory=lambda: RewardWeights(
            time_utility=0.0, responsiveness=0.5, fairness=0.5, tail=0.0
        )
    )

    def __post_init__(self) -> None:
        for name, value, known in (
            ("regressor", self.regressor, REGRESSORS),
            ("schema", self.schema, tuple(SCHEMAS)),
            ("reward", self.reward, REWARDS),
        ):
            if value not in known:
                raise ConfigurationError(f"unknown {name} {value!r}: give {' or '.join(known)}.")
        fractions = (self.gamma, self.epsilon, self.utility_weight)
        if not all(0.0 <= each <= 1.0 for each in fractions) or self.gamma == 1.0:
            raise ConfigurationError("gamma must lie in [0, 1), epsilon and lambda in [0, 1].")
        if min(self.iterations, self.kept, self.hidden, self.passes) < 1:
            raise ConfigurationError("iterations, kept, hidden and passes must be at least 1.")
        if min(self.noise, self.others, self.batch) < 0 or self.others > MOST_OTHERS:
            raise ConfigurationError(
                f"noise and batch must be at least 0, others must lie in 0..{MOST_OTHERS}."
            )
        if not 0.0 < self.exponent <= 1.0:
            raise ConfigurationError("exponent must lie in (0, 1].")
        for name in ("noise", "decay", "ridge"):
            fits = 0.0 <= getattr(self, name) < math.inf
            check_number("fitted-q", name, getattr(self, name), fits, "at least 0, and finite")
        self._check_schema()

    def _check_schema(self) -> None:
        """Refuse a schema that does not go with the reward or the regressor."""
        site = self.schema == SITE.name
        if site and self.regressor == "echo-state":
            raise ConfigurationError(
                "schema site is for fitted-q: choose it, or a reactive-grid schema for echo-state."
            )
        if site != (self.reward in SITE_REWARDS):
            raise ConfigurationError(
                f"reward {self.reward} does not go with schema {self.schema}: reward slowdown "
                "and schema site go together."
            )


#: For mean bounded slowdown on parallel machines, beside policy_search_settings.SLOWDOWN.
SLOWDOWN = FittedQSettings(
    regressor="feed-forward",
    schema="site",
    reward="slowdown",
    iterations=6,
    gamma=0.0,
    hidden=3,
    passes=10,
    batch=16,
    weights=RewardWeights(slowdown=10.0, tail=0.0),
)
