"""What a site wants, from its words to the order: `--goal`, and the policy of the daemon."""

from __future__ import annotations

import argparse
import json

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.policy_arguments import add_goal_option, goals_of
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.evaluation.site_replay import settings_in_force
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.services.forecast_service import build_source
from slurm_rl_plugin.services.hook import build_cycle, load_policy, with_goals
from tests.unit.configuration.given_content import configuration_of


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_goal_option(parser)
    return parser.parse_args([part for each in words for part in ("--goal", each)])


def test_no_option_leaves_what_is_configured() -> None:
    assert goals_of(options()) == AS_TRAINED
    assert goals_of(options(), Goals(interactive=2.0)) == Goals(interactive=2.0)


def test_options_change_some_goals_and_the_last_of_one_name_counts() -> None:
    given = options("wide_jobs=3", "shares=0.5", "wide_jobs=2")
    configured = Goals(wide_jobs=9.0, interactive=1.0)
    assert goals_of(given, configured) == Goals(wide_jobs=2.0, shares=0.5, interactive=1.0)


def test_a_goal_changes_the_order_of_a_model_and_of_no_rule(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["evaluate", "egee:load=.95,jobs=300,seed=3", "--processors", "20", "--json"]
    waits = []
    for more in ([], ["--goal", "interactive=5"]):
        assert main([*words, "--policy", "default", "--policy", "sjf", *more]) == 0
        policies = json.loads(capsys.readouterr().out)["policies"]
        waits.append(
            {name: each["classes"]["interactive"]["mean_wait"] for name, each in policies.items()}
        )
    plain, wanted = waits
    assert wanted["default"] < plain["default"]
    assert wanted["sjf"] == plain["sjf"]


def test_the_daemons_model_decides_by_the_configured_goals() -> None:
    configuration = configuration_of({"goals": {"wide_jobs": 3, "shares": 6}})
    cycle = build_cycle(configuration, load_policy("default"))
    assert isinstance(cycle.policy, QNetworkPolicy)
    assert cycle.policy.goals == Goals(wide_jobs=3.0, shares=6.0)


def test_a_rule_knows_of_no_goals() -> None:
    rule = load_policy("sjf").policy
    assert with_goals(rule, configuration_of({"goals": {"wide_jobs": 3}})) is rule


def test_replays_and_forecasts_of_a_site_go_by_its_goals() -> None:
    configuration = configuration_of({"goals": {"wide_jobs": 3, "shares": 6}})
    wanted = Goals(wide_jobs=3.0, shares=6.0)
    assert settings_in_force(configuration, capacity=4).goals == wanted
    assert build_source(configuration, "easy").goals == wanted
