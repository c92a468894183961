"""Faults of keys that must fit each other; looked for where each of them is right by itself."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_rl_plugin.configuration.given_keys import DEFAULT, GivenKeys
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.reward import RewardWeights

#: Key of [metrics] that is given -> the one that it needs.
_NEEDS = (
    ("tls_certificate", "tls_key"),
    ("tls_key", "tls_certificate"),
    ("tls_client_ca", "tls_certificate"),
)


def add_joint_faults(given: GivenKeys) -> None:
    """Add them to the faults."""
    given.faults.extend(_reward_faults(given))
    given.faults.extend(_tls_faults(given))


def _reward_faults(given: GivenKeys) -> Iterator[str]:
    weights = {name: given.value("reward", name) for name in given.keys.get("reward", ())}
    if any(("reward", name) in given.faulty for name in weights):
        return
    try:
        RewardWeights(**{name: float(each.value) for name, each in weights.items()})
    except ConfigurationError as error:
        origins = [each.origin for each in weights.values() if each.origin != DEFAULT]
        yield f"{origins[0]}: [reward]: {error}"


def _tls_faults(given: GivenKeys) -> Iterator[str]:
    if "metrics" not in given.keys:
        return
    for name, needed in _NEEDS:
        value = given.value("metrics", name)
        known = ("metrics", needed) not in given.faulty
        if value.value and known and not given.value("metrics", needed).value:
            yield f"{value.origin}: [metrics] {name} needs {needed}: give both, or neither."
