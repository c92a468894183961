"""What `slurm-rl train` says of a training beside the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.learning.trained_policy import TrainedPolicy


def print_heldout(heldout: Mapping[str, Any]) -> None:
    """What the held-out protocol made of a training: the `heldout` part of its manifest."""
    for log, ratio in heldout["validation_ratio"].items():
        rule = heldout["best_heuristic"][log]
        print(f"{log}: bounded slowdown {ratio:.3f} of {rule}'s on the validation part")
    if heldout["shipped"] == "network" and not heldout["beats_best_rule"]:
        print(
            "the trained network does not beat the best rule, but the best of those that a network "
            "can stand for: it is written all the same."
        )
    elif heldout["shipped"] != "network":
        print(
            f"the trained network does not beat the best rule: the model written is the rule "
            f"{heldout['shipped']} as a network, so that the site is not worse off."
        )


def print_leave_one_out(found: Mapping[str, Mapping[str, float]]) -> None:
    """What a training without a log is worth on it: the `leave_one_out` part of a manifest."""
    for log, objectives in found.items():
        values = dict(objectives)
        without, having = values.pop("trained_without"), values.pop("trained_with")
        name = max(list(values), key=values.__getitem__)
        print(
            f"{log}: objective {without:.3f} trained without it, {having:.3f} with it; best rule "
            f"{name} {values[name]:.3f}"
        )


def print_uselessness(trained: TrainedPolicy) -> None:
    """What else would have told as much, where the algorithm compared its model with anything."""
    for name, value in trained.compared:
        if trained.validation_objective <= value:
            print(
                f"the model tells no more than the {name}: train on longer logs or more --windows, "
                "and do not publish from this one."
            )
