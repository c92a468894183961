"""What --reserve-as, [goals] and the options of a training become."""

from __future__ import annotations

import argparse
import shlex

from slurm_rl_plugin.cli.argument_types import add_goal_option, goals_of
from slurm_rl_plugin.cli.train import _command, add_arguments
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.services.forecast_service import build_source
from tests.functional.typed import Typed
from tests.unit.configuration.given_content import configuration_of


def test_evaluate_says_how_the_reserve_was_kept(typed: Typed) -> None:
    words = ["evaluate", "egee:load=.9,jobs=300,seed=3", "--policy", "fifo", "--reserve", "4"]
    plain, free, limited = (
        typed.json(*words, "--processors", "20", *more)
        for more in ([], ["--reserve-as", "free"], ["--reserve-as", "limit"])
    )
    assert plain == free
    assert "class_limit" not in plain["log"]
    assert limited["log"]["class_limit"]["lift_after"] == 86400.0
    assert limited["policies"]["fifo"]["mean_wait"] != plain["policies"]["fifo"]["mean_wait"]


def test_options_change_some_goals_and_the_last_of_one_name_counts() -> None:
    parser = argparse.ArgumentParser()
    add_goal_option(parser)
    given = parser.parse_args(["--goal", "wide_jobs=3", "--goal", "wide_jobs=2"])
    assert goals_of(given, Goals(wide_jobs=9.0, shares=1.0)) == Goals(wide_jobs=2.0, shares=1.0)


def test_forecasts_of_a_site_go_by_its_goals() -> None:
    configuration = configuration_of({"goals": {"wide_jobs": 3, "shares": 6}})
    assert build_source(configuration, "easy").goals == Goals(wide_jobs=3.0, shares=6.0)


def test_what_changes_the_jobs_is_named() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["site.swf", "-o", "m.onnx", "--partitions", "a=64,b=16", "--whole-nodes-of", "4"]
    options = parser.parse_args([*words, "--kill-at-limit"])
    again = parser.parse_args(shlex.split(_command(options, []))[2:])
    assert again.partitions == options.partitions == {"a": 64, "b": 16}
    assert (again.whole_nodes_of, again.kill_at_limit) == (4, True)
