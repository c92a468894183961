"""What the keys of a configuration mean."""

from __future__ import annotations

import tomllib

import pytest

from slurm_rl_plugin.configuration import KEYS, read_configuration
from slurm_rl_plugin.configuration.sections import reserved_amounts
from slurm_rl_plugin.domain.goals import AS_TRAINED
from tests.functional.typed import rows_of
from tests.unit.configuration.given_content import configuration_of


def test_defaults_are_shadow_mode_on_this_host_only() -> None:
    configuration = read_configuration(None)
    assert configuration.goals == AS_TRAINED
    assert configuration.cycle_settings.shadow
    assert configuration.values["metrics"]["address"] == "127.0.0.1"
    assert configuration.shares is None


def test_every_default_passes_its_own_check() -> None:
    for section, keys in KEYS.items():
        for name, key in keys.items():
            assert key.fault(key.default) is None, f"{section}.{name}"


@rows_of("[goals] shares")
def test_shares_are_a_goal_where_the_site_says_something_of_them(
    words: str, said: float | str
) -> None:
    shares = configuration_of(tomllib.loads(words)).goals.shares
    assert said == ("none" if shares is None else shares)


@pytest.mark.parametrize(
    ("given", "derived"),
    [
        ({}, {}),
        ({"goals": {"short_jobs": 2.0}}, {"slowdown": 20.0}),
        ({"goals": {"wide_jobs": 0.5}}, {"groups": 5.0}),
        ({"goals": {"longest_wait": 3.0}}, {"tail": 6.0}),
        (
            {"goals": {"shares": 48.0}},
            {"time_utility": 0.125, "responsiveness": 0.125, "fairness": 0.75},
        ),
        (
            {"goals": {"shares": 0.0, "interactive": 3.0}},
            {"time_utility": 0.2, "responsiveness": 0.8, "fairness": 0.0},
        ),
        ({"goals": {"short_jobs": 2.0}, "reward": {"slowdown": 3.0}}, {}),
        ({"goals": {"shares": 0.0}, "reward": {"fairness": 0.5}}, {}),
    ],
)
def test_rewards_that_the_site_does_not_give_follow_from_its_goals(
    given: dict[str, dict[str, float]], derived: dict[str, float]
) -> None:
    configuration = configuration_of(given)
    default = {name: key.default for name, key in KEYS["reward"].items()}
    reward = given.get("reward", {})
    assert configuration.values["reward"] == {**default, **derived, **reward}
    of_goals = [
        name for name, where in configuration.origins["reward"].items() if where == "[goals]"
    ]
    assert sorted(of_goals) == sorted(derived)


def test_words_of_slurm_and_of_pbs() -> None:
    assert reserved_amounts(["gres/gpu=2", "mem=64G"]) == {"gpus": 2, "memory": 65536}
    assert reserved_amounts(["ngpus=12", "mem=1500mb"]) == {"gpus": 12, "memory": 1500}
    assert reserved_amounts([]) == {}


@pytest.mark.parametrize(
    "words",
    ["cpu=3", "gpus", "gpus=0", "gpus=-1", "gpus=2K", "mem=0", "mem=x", "gpus=1 gpus=1"],
)
def test_others_are_refused(words: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        reserved_amounts(words.split())
