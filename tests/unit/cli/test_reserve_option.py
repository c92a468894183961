"""`--reserve-as`: what it takes, what it refuses, and the words that give the same again."""

from __future__ import annotations

import argparse
import json

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.policy_arguments import add_reserve_option, reserve_words
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit


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
        ("widest=0", "'widest=0' has no such number"),
        ("widest=99999999999999999999", "'widest=99999999999999999999' has no such number"),
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
