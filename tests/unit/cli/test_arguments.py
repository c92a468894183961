"""Options out of bounds are one sentence and exit code 2; --reserve-as and --goal."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.argument_types import at_least_one, number_from_zero, whole_number
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.policy_arguments import (
    add_goal_option,
    add_reserve_option,
    goals_of,
    reserve_words,
)
from slurm_rl_plugin.cli.train import _command, add_arguments
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.evaluation.site_replay import settings_in_force
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.services.forecast_service import build_source
from slurm_rl_plugin.services.hook import build_cycle, load_policy, with_goals
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from tests.unit.configuration.given_content import configuration_of

#: Read too late, it would be what the sentence is about.
NO_LOG = "/none.swf"
HUGE = "9" * 21


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence of words that no verb takes."""
    try:
        code: object = main(list(words))
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert (code, captured.out, captured.err.count("\n")) == (2, "", 1), captured
    assert "none.swf" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("benchmark", "hook", "--seed", "-1"), "--seed: must be a whole number from 0 to"),
        (("benchmark", "hook", "--jobs", HUGE), "--jobs: must be a whole number from"),
        (("demo", "--generations", "0"), "--generations: must be a whole number from 1 to"),
        (("demo", "--generations", "-1"), "--generations: must be a whole number from"),
        (("demo", "--seed", "-1"), "--seed: must be a whole number from 0 to 2147483647, not '-1'"),
        (("train", NO_LOG, "-o", "m.onnx", "--seed", "-1"), "--seed: must be a whole number from"),
        (("reproduce", "switchback", "--seeds", HUGE), "--seeds: must be a whole number from"),
        (("reproduce", "switchback", "/nonexist"), "/nonexist does not exist: give the folder"),
        (("reproduce", "switchback", "/"), "switchback takes no traces"),
    ],
)
def test_what_other_verbs_do_not_take(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(capsys, *words)


def test_a_demo_that_cannot_write(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, Path("/proc/x")):
        sentence = refused(capsys, "demo", "-o", str(path))
        assert sentence.startswith(f"slurm-rl demo: -o {path}: the folder cannot be made")


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "²", "2147483648"])
def test_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        at_least_one(text)


@pytest.mark.parametrize(
    ("words", "option", "most"),
    [
        ("experiment start --days 2000000000", "--days", 3650),
        ("shadow-report week.sacct --processors 2147483648", "--processors", 2**31 - 1),
    ],
)
def test_more_than_can_be_counted_is_refused(
    words: str, option: str, most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = refused(capsys, *words.split())
    assert f"argument {option}: " in sentence
    assert f" to {most}, not " in sentence


def test_what_is_within_bounds() -> None:
    assert whole_number(0)("2147483647") == 2**31 - 1
    assert at_least_one("7") == 7
    seconds = number_from_zero(60.0)
    assert [seconds(text) for text in ("0", "60", ".5")] == [0.0, 60.0, 0.5]


def parsed(text: str) -> ClassLimit | None:
    parser = argparse.ArgumentParser()
    add_reserve_option(parser)
    limit: ClassLimit | None = parser.parse_args(["--reserve-as", text]).reserve_as
    return limit


def test_free_processors_and_a_limit_with_other_numbers() -> None:
    assert parsed("free") is None
    assert parsed("limit") == ClassLimit()
    given = parsed("limit:change=5,widest=4,lift=600,idle=60,narrow=1")
    assert given == ClassLimit(
        widest_batch_job=4,
        change_interval=5.0,
        lift_after=600.0,
        idle_after=60.0,
        narrow_first=True,
    )
    assert parsed("limit:narrow=0") == ClassLimit()
    assert parsed("limit:most=3") == ClassLimit(most=3.0)
    assert isinstance(given, ClassLimit)
    assert isinstance(given.widest_batch_job, int)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("change=-5", "change is -5: give a number of at least 0"),
        ("change=inf", "change is inf: give a finite number"),
        ("lift=nan", "lift is nan: give a number of at least 0"),
        ("idle=-1", "idle is -1: give a number of at least 0"),
        ("most=-2", "most is -2: give a number of at least 0"),
        ("widest=0", "'widest=0' has no valid number"),
        ("widest=99999999999999999999", "'widest=99999999999999999999' has no valid number"),
        ("lift=inf,idle=inf", "lift and idle are inf: below a limit that is never lifted a wide"),
        ("narrow=1,lift=inf", "lift is inf: behind narrow ones a wide batch job may never start"),
    ],
)
def test_what_a_limit_cannot_be_is_said_in_the_words_of_the_option(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(f"limit:{words}")
    said = capsys.readouterr().err
    assert sentence in said
    assert "ClassLimit" not in said


@pytest.mark.parametrize(
    "limit", [None, ClassLimit(), ClassLimit(change_interval=7.5, narrow_first=True)]
)
def test_the_words_of_a_limit_give_it_again(limit: ClassLimit | None) -> None:
    words = " ".join(reserve_words(limit)).split()
    parser = argparse.ArgumentParser()
    add_reserve_option(parser)
    assert parser.parse_args(words).reserve_as == limit


@pytest.mark.parametrize(
    "text",
    ["kept", "limit:moon=1", "limit:lift", "limit:widest=2.5", "limit:idle=-1", "limit:narrow=2"],
)
def test_anything_else_is_refused_in_a_sentence(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parsed(text)
    assert stop.value.code == 2
    assert repr(text) in capsys.readouterr().err


def test_evaluate_says_how_the_reserve_was_kept(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "egee:load=.9,jobs=300,seed=3", "--policy", "fifo", "--reserve", "4"]
    words += ["--processors", "20", "--json"]
    documents = []
    for more in ([], ["--reserve-as", "free"], ["--reserve-as", "limit:lift=60,change=0"]):
        assert main([*words, *more]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    plain, free, limited = documents
    assert plain == free
    assert "class_limit" not in plain["log"]
    assert limited["log"]["class_limit"]["lift_after"] == 60.0
    assert limited["policies"]["fifo"]["mean_wait"] != plain["policies"]["fifo"]["mean_wait"]


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


def test_what_changes_the_jobs_is_named():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["site.swf", "-o", "m.onnx", "--partitions", "a=64,b=16", "--whole-nodes-of", "4"]
    options = parser.parse_args([*words, "--kill-at-limit"])
    again = parser.parse_args(shlex.split(_command(options, []))[2:])
    assert again.partitions == options.partitions == {"a": 64, "b": 16}
    assert (again.whole_nodes_of, again.kill_at_limit) == (4, True)
