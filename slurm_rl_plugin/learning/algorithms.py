"""Every training algorithm behind one function: what `slurm-rl train --algorithm` offers."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.columns import KNOWN_SCHEMAS
from slurm_rl_plugin.features.site import SITE, FeatureSchema
from slurm_rl_plugin.learning import fitted_q, policy_search, sarsa
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.fitted_q import FittedQSettings, train_fitted_q
from slurm_rl_plugin.learning.sarsa import SarsaSettings, train_sarsa
from slurm_rl_plugin.learning.site_utility import SiteUtilitySettings, train_site_utility
from slurm_rl_plugin.learning.training_load import Progress, TrainedPolicy, TrainingLoad
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.site_utilities import SITE_UTILITY

Settings = (
    policy_search.PolicySearchSettings | SarsaSettings | FittedQSettings | SiteUtilitySettings
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """A training algorithm: its trainer, settings and capabilities."""

    #: Training loads, validation loads and settings -> policy; continues after the steps in the
    #: checkpoint, and reports each step.
    train: Callable[..., TrainedPolicy]
    takes_start: bool = False  #: whether it takes a network as `start`
    default: Settings
    #: Named settings: `paper` as printed, `slowdown` for bounded slowdown on parallel machines.
    presets: Mapping[str, Settings]
    steps: tuple[str, str]  #: the setting that counts its steps, and the name of a step
    measure: str = "objective"  #: the validated figure
    orders: bool = True  #: whether the network orders the queue
    heldout: bool = True  #: whether `--protocol heldout` takes it


ALGORITHMS: Mapping[str, Algorithm] = {
    "policy-search": Algorithm(
        train=policy_search.search_policy,
        takes_start=True,
        default=policy_search.SITE_ORDER,
        presets={"slowdown": policy_search.SLOWDOWN},
        steps=("generations", "generation"),
    ),
    "sarsa": Algorithm(
        train=train_sarsa,
        default=SarsaSettings(),
        presets={"paper": sarsa.PAPER},
        steps=("sweeps", "sweep"),
    ),
    "fitted-q": Algorithm(
        train=train_fitted_q,
        default=FittedQSettings(regressor="feed-forward"),
        presets={
            "paper": FittedQSettings(regressor="feed-forward", reward="literal"),
            "slowdown": fitted_q.SLOWDOWN,
        },
        steps=("iterations", "iteration"),
    ),
    "echo-state": Algorithm(
        train=train_fitted_q,
        default=FittedQSettings(regressor="echo-state"),
        presets={"paper": FittedQSettings(regressor="echo-state", reward="literal")},
        steps=("iterations", "iteration"),
        heldout=False,
    ),
    SITE_UTILITY: Algorithm(
        train=train_site_utility,
        takes_start=True,
        default=SiteUtilitySettings(),
        presets={},
        steps=("rounds", "round"),
        measure="correlation",
        orders=False,
        heldout=False,
    ),
}
PRESETS = ("paper", "slowdown")
#: Settings that have their own option, or that the algorithm's name decides.
_NOT_BY_NAME = ("weights", "seed", "regressor", "reservoir")
#: Largest absolute value of a whole number; a larger one is a typing error.
_LARGEST = 2**31 - 1


def settings_of(name: str, changes: Mapping[str, str], *, preset: str | None = None) -> Settings:
    """The settings of one of ALGORITHMS, or of its preset, with `changes`: setting -> text."""
    algorithm = ALGORITHMS[name]
    if preset is not None and preset not in algorithm.presets:
        raise ConfigurationError(f"{name} has no preset {preset}: leave out --preset {preset}.")
    settings = algorithm.default if preset is None else algorithm.presets[preset]
    kinds = typing.get_type_hints(type(settings))
    known = [each for each in kinds if each not in _NOT_BY_NAME]
    values: dict[str, Any] = {}
    for key, text in changes.items():
        if key not in known:
            raise ConfigurationError(
                f"{name} has no setting {key!r}: give one of {', '.join(known)}."
            )
        values[key] = _value(key, text, kinds[key])
    return dataclasses.replace(settings, **values)


def _value(key: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise ConfigurationError(f"setting {key} is {text!r}: give true or false.")
        return text == "true"
    try:
        value = kind(text)
    except ValueError:
        raise ConfigurationError(f"setting {key} is {text!r}: give a number.") from None
    if kind is int and abs(value) > _LARGEST:
        raise ConfigurationError(f"setting {key} is {text}: give {_LARGEST} at most.")
    return value


def steps_of(settings: Settings) -> int:
    """Number of steps of a training: generations, sweeps, iterations or rounds."""
    return int(getattr(settings, algorithm_of(settings).steps[0]))


def algorithm_of(settings: Settings) -> Algorithm:
    """The first algorithm of these settings; others of the same settings train by the same code."""
    return next(each for each in ALGORITHMS.values() if type(each.default) is type(settings))


def schema_of(settings: Settings) -> FeatureSchema:
    """The features of the trained network: `site` unless a setting names others."""
    named = {schema.name: schema for schema in KNOWN_SCHEMAS}
    return named[getattr(settings, "schema", SITE.name)]


def train_policy(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: Settings,
    *,
    checkpoint: Path | None = None,
    load_key: str = "",
    progress: Progress | None = None,
    start: QNetwork | None = None,
) -> TrainedPolicy:
    """Train by the algorithm that the settings belong to.

    Args:
        validation: loads that choose the result; not trained on.
        checkpoint: file of the progress; an interrupted training with the same settings and loads
            continues from it with the same result.
        load_key: identifies the loads, so that a checkpoint of other loads is not used.
        start: network from which policy search starts, or that orders the queue for site-utility.
    """
    algorithm = algorithm_of(settings)
    if start is not None and not algorithm.takes_start:
        raise ConfigurationError("only policy-search starts from a model: leave out --from.")
    kept = Checkpoint(checkpoint, {"settings": dataclasses.asdict(settings), "loads": load_key})
    more = (start,) if algorithm.takes_start else ()
    report = progress or (lambda *_: None)
    trained = algorithm.train(training, validation, settings, kept, report, *more)
    kept.close()
    return trained
