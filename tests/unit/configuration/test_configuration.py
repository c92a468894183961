from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.configuration import KEYS, read_configuration
from slurm_rl_plugin.domain.goals import AS_TRAINED, POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.errors import ConfigurationError
from tests.unit.configuration.given_content import configuration_of


def faults_of(text: str, folder: Path) -> tuple[str, ...]:
    path = folder / "slurm-rl.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(path)
    return caught.value.faults


def test_defaults_are_shadow_mode_on_this_host_only() -> None:
    configuration = read_configuration(None)
    assert configuration.cycle_settings.shadow
    assert configuration.values["metrics"]["address"] == "127.0.0.1"
    assert configuration.shares is None


def test_every_default_passes_its_own_check() -> None:
    for section, keys in KEYS.items():
        for name, key in keys.items():
            assert key.fault(key.default) is None, f"{section}.{name}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[hook]\ncycle = true", "[hook] cycle is True, give a number."),
        ("[hook]\ncycel = 3", "[hook] cycel is unknown, did you mean cycle?"),
        ("hook = 3", "[hook] is no section"),
        ("[shares]\na = nan\nb = 1", "[shares] a is nan, give a number from 0 to 1."),
        ("[hook]\ncycle = inf", "[hook] cycle is inf, give a finite number."),
        ("[hook]\nstate_file = ''", "[hook] state_file is empty, give a path."),
        ("[metrics]\nport = 99999", "[metrics] port is 99999, give at least 0 and at most 65535."),
        (
            "[[job_class]]\nclass = 'batch'\ntime_limit_at_most = '60'",
            "time_limit_at_most is '60': give seconds",
        ),
        ("[[job_class]]\nclass = 'batch'", "names nothing to match"),
        ("[[job_class]]\nclass = 'batch'\nname = 3", "is no regular expression"),
        ("[guard]\nwait_hours = 6", "[guard] wait_hours is 6, give a table of numbers."),
        (
            '[guard]\nwait_hours = { "half or more" = 6, wide = 3 }',
            "[guard] wait_hours names 'wide', give some of one processor, up to an eighth, ",
        ),
        (
            '[guard]\nwait_hours = { "half or more" = "six" }',
            "[guard] wait_hours of 'half or more' is 'six', give a number.",
        ),
        (
            '[guard]\nwait_hours = { "half or more" = true }',
            "[guard] wait_hours of 'half or more' is True, give a number.",
        ),
        (
            '[guard]\nwait_hours = { "up to 1 h" = 0 }',
            "[guard] wait_hours of 'up to 1 h' is 0, give at least 0.01.",
        ),
        ("[goals]\nshares = 101", "[goals] shares is 101, give at least 0 and at most 100."),
        ("[goals]\nwide_job = 1", "[goals] wide_job is unknown, did you mean wide_jobs?"),
        (
            "[reserve]\nmechanism = 'qos'\nqos = 'batch'\nmost_processors = 4\n"
            "narrow_first = true\nlift_hours = 0",
            "so one might never start: give lift_hours.",
        ),
        (
            "[[job_class]]\nclass = 'quick'\nuser = 'ada'",
            "[[job_class]] rule 1: job class 'quick' is unknown: give batch, interactive, or add",
        ),
        ("[utility]\nform = 'power'", "[utility] has tables only: write [utility.NAME]."),
        (
            "[utility.due]\nform = 'linear'\n[[job_class]]\nclass = 'due'\nuser = 'ada'",
            "[utility.due] form is 'linear': give one of",
        ),
        ("utility = 3", "[utility] has tables only: write [utility.NAME]."),
        ("[utility.due]\nsigma = 5", "[utility.due] form is '': give one of"),
        (
            "[utility.due]\nform = 'power'\nbet = 1",
            "[utility.due] bet is unknown, did you mean beta?",
        ),
        ("[utility.batch]\ninteractive = true", "[utility.batch] interactive is unknown"),
        ("[utility.batch]\nbeta = -1", "[utility.batch] beta is -1: give a number above 0."),
        ("[[job_class]]\nclass = 'batch'\nname = '('", "is no regular expression"),
        ("job_class = 3", "write each rule under [[job_class]]"),
    ],
)
def test_each_fault_is_one_sentence_with_file_and_key(
    tmp_path: Path, text: str, fault: str
) -> None:
    faults = faults_of(text, tmp_path)
    assert len(faults) == 1
    assert fault in faults[0]
    assert "slurm-rl.toml" in faults[0]


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


def test_what_no_key_says_is_as_the_model_was_trained() -> None:
    assert read_configuration(None).goals == AS_TRAINED


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
