"""What the keys of a configuration mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.configuration import KEYS, read_configuration
from slurm_rl_plugin.configuration.sections import reserved_amounts
from slurm_rl_plugin.domain.goals import AS_TRAINED, POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.errors import ConfigurationError
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


def test_given_values_replace_defaults_and_keep_the_others() -> None:
    configuration = configuration_of(
        {
            "hook": {"mode": "active", "cycle": 5},
            "shares": {"physics": 0.7, "biology": 0.3},
            "job_class": [{"class": "interactive", "time_limit_at_most": 60}],
            "guard_rails": {"starvation_hours": 0},
        }
    )
    assert not configuration.cycle_settings.shadow
    assert configuration.values["hook"]["max_writes"] == KEYS["hook"]["max_writes"].default
    assert configuration.shares == {"physics": 0.7, "biology": 0.3}
    assert str(configuration.classifier.rules[0]) == "interactive if time_limit_at_most=60"
    assert configuration.starvation_bound == float("inf")


def test_goals_are_those_of_the_keys() -> None:
    given = {"shares": 6, "short_jobs": 2, "wide_jobs": 0, "longest_wait": 0.5, "interactive": 3}
    assert configuration_of({"goals": given}).goals == Goals(
        shares=6.0, short_jobs=2.0, wide_jobs=0.0, longest_wait=0.5, interactive=3.0
    )


@pytest.mark.parametrize(
    ("content", "shares"),
    [
        ({}, None),
        ({"goals": {"interactive": 1}}, None),
        ({"shares": {"from": "slurm"}}, None),
        ({"goals": {"shares": 12}}, 12.0),
        ({"goals": {"shares": 0}}, 0.0),
        ({"shares": {"physics": 0.5, "biology": 0.5}}, POINTS_A_DOUBLING),
        ({"shares": {"physics": 1.0}, "goals": {"shares": 3}}, 3.0),
    ],
    ids=str,
)
def test_shares_are_a_goal_where_the_site_says_something_of_them(
    content: dict[str, dict[str, object]], shares: float | None
) -> None:
    assert configuration_of(content).goals.shares == shares


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


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("X_Forwarded_User", "must be letters, digits and hyphens"),
        ("X-Forwarded-User", "user_header needs token_file"),
    ],
)
def test_a_header_of_the_portal_that_cannot_count(tmp_path: Path, header: str, says: str) -> None:
    (tmp_path / "slurm-rl.toml").write_text(f'[forecast]\nuser_header = "{header}"\n')
    with pytest.raises(ConfigurationError, match=says):
        read_configuration(tmp_path / "slurm-rl.toml", environment={})
