"""Settings of SARSA: what works (the default), and what the 2008 paper used (PAPER)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID, REACTIVE_GRID_WAIT
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.learning.setting_numbers import check_number
from slurm_rl_plugin.utility.reward import RewardWeights

#: Allowed values of the settings of the same names.
REWARDS = ("literal", "difference", "difference-reached", "completed", "running")
SCHEMAS = {each.name: each for each in (REACTIVE_GRID, REACTIVE_GRID_WAIT)}
PRETRAININGS = ("edf", "none", "recorded")
UPDATES = ("online", "batch")
KEPT = ("best", "last")


@dataclass(frozen=True, slots=True, kw_only=True)
class SarsaSettings:
    """Settings of SARSA (Perez et al. 2008, Fig. 1 and section V.A).

    A sweep is one pass over one of the training loads, which take turns.

    Attributes:
        epsilon: probability that a start is drawn at random; exploring ends with training.
        gamma: discount for each start.
        learning_rate: step of the back-propagation, eta.
        hidden: sigmoid units of the network.
        sweeps: passes in all, pre-training included.
        schema: "reactive-grid", the paper's 11 inputs, or "reactive-grid-wait", with the wait.
        reward: "literal": lambda U + (1 - lambda) F; "difference": with what the choice of the
            job saves in place of U; "difference-reached": that counted from the waits reached,
            for the schema with the wait; "completed" and "running": with U of the jobs that end
            until the next start, or run at it (see `simulator/rollouts/start_rewards.py`).
        utility_weight: lambda, the weight of time utility against fairness in the reward.
        pretraining: "edf": the first sweeps act by early deadline first; "recorded": they learn
            from the starts that the logs record; "none".
        pretraining_sweeps: how many they are.
        update: "online": the network moves at every start; "batch": it is trained afresh at the
            end of every sweep on all starts collected so far. (The paper starts afresh at every
            single start, as `learning/sarsa/on_line.py` does.)
        epochs: of each such batch training.
        keep: "best": the network of the sweep that validates best; "last": that of the last sweep,
            as the paper's learner acts by what it has learned. (With the literal reward the best
            one is often the untrained one.)
        seed: of the initial weights, the exploration and the order of the epochs.
        weights: by which the validation loads choose the network that is kept.

    Raises:
        ConfigurationError: a value out of its range.
    """

    epsilon: float = 0.05
    gamma: float = 0.2
    learning_rate: float = 0.1
    hidden: int = 20
    sweeps: int = 20
    schema: str = "reactive-grid"
    reward: str = "difference"
    utility_weight: float = 0.5
    pretraining: str = "edf"
    pretraining_sweeps: int = 3
    update: str = "online"
    epochs: int = 5
    keep: str = "best"
    seed: int = 1
    weights: RewardWeights = field(default_factory=RewardWeights)

    def __post_init__(self) -> None:
        for name, allowed in (
            ("schema", tuple(SCHEMAS)),
            ("reward", REWARDS),
            ("pretraining", PRETRAININGS),
            ("update", UPDATES),
            ("keep", KEPT),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigurationError(
                    f"SARSA setting {name} is {getattr(self, name)!r}: give one of "
                    f"{', '.join(allowed)}."
                )
        check = partial(check_number, "SARSA")
        for name in ("epsilon", "utility_weight"):
            check(name, getattr(self, name), 0.0 <= getattr(self, name) <= 1.0, "from 0 to 1")
        check("gamma", self.gamma, 0.0 <= self.gamma < 1.0, "from 0 to below 1")
        check("learning_rate", self.learning_rate, 0.0 < self.learning_rate <= 1.0, "in (0, 1]")
        for name in ("hidden", "sweeps", "epochs"):
            check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        check(
            "pretraining_sweeps",
            self.pretraining_sweeps,
            self.pretraining_sweeps >= 0,
            "at least 0",
        )

    @property
    def inputs(self) -> FeatureSchema:
        """The feature schema that the network's inputs follow."""
        return SCHEMAS[self.schema]


#: As printed in 2008, section V.A; it learns to start interactive jobs last (see the reward). The
#: utility_weight is that of 2011 (section 4.3), for 2008 prints none, nor epochs or sweeps.
PAPER = SarsaSettings(
    epsilon=0.3,
    gamma=0.2,
    learning_rate=0.3,
    hidden=20,
    reward="literal",
    utility_weight=0.5,
    pretraining="edf",
    update="batch",
    keep="last",
)
