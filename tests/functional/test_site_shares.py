"""Shares of a log's accounts: of the site, by hand, or derived; the output says which."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from tests.functional.small_site import write_busy_site

Typed = Callable[..., tuple[str, str]]
#: Each account has a third of the work.
_ACCOUNTS = "add account 1 Fairshare=90\nadd account 2 Fairshare=6\nadd account 3 Fairshare=4\n"
_BY_HAND = ("--shares", "1=.5,2=.25,3=.25")
_CHANGE = ("--change", "PriorityWeightJobSize=1")
_DERIVED = "Shares: none configured; derived from past work, which promises nothing."
_FROM_THE_SITE = "Shares: of the cluster's accounts."
_AS_GIVEN = "Shares: as given."


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Runs a verb on a log and the folder of its cluster: output, errors."""
    monkeypatch.chdir(tmp_path)
    write_busy_site(
        tmp_path,
        "PriorityWeightFairshare=10000",
        "PriorityWeightAge=1000",
        "PriorityDecayHalfLife=7-0",
    )
    (tmp_path / "sacctmgr.script").write_text(_ACCOUNTS)

    def run(verb: str, *words: str) -> tuple[str, str]:
        capsys.readouterr()
        status = main([verb, "log.swf", "--cluster", ".", *words])
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out, said.err

    return run


def _document(typed: Typed, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(typed(*words, "--json")[0])
    return found


def _waits_of_evaluate(typed: Typed, drop: tuple[int, int], *words: str) -> dict[str, float]:
    cut = ("--drop", ",".join(map(str, drop)))
    system = ("--policy", "multifactor", "--estimates", "requested")
    found = _document(typed, "evaluate", *system, *cut, *words)
    accounts = found["policies"]["multifactor"]["accounts"]
    return {name: each["mean_wait"] for name, each in accounts.items()}


def test_evaluate_and_what_if_give_each_account_the_same_wait(typed: Typed, tmp_path: Path) -> None:
    found = _document(typed, "what-if", *_CHANGE)
    (variant,) = found["variants"].values()
    now = {
        name: each["figures"]["mean_wait"]["before"]
        for name, each in variant["groups"]["account"].items()
    }
    jobs = found["log"]["jobs"]
    last = int(jobs * 0.05)
    drop = (jobs - last - found["log"]["counted_jobs"], last)
    waits = _waits_of_evaluate(typed, drop)
    assert waits == now
    assert 2 * waits["1"] < waits["3"]  # the site's shares act
    by_hand = _waits_of_evaluate(typed, drop, *_BY_HAND)
    assert by_hand["2"] != waits["2"]
    (tmp_path / "sacctmgr.script").unlink()
    assert _waits_of_evaluate(typed, drop)["1"] > 2 * waits["1"]
    assert _waits_of_evaluate(typed, drop, *_BY_HAND) == by_hand


@pytest.mark.parametrize("words", [("evaluate", "--policy", "fifo"), ("what-if", *_CHANGE)])
def test_text_and_json_say_what_gives_the_shares(
    typed: Typed, tmp_path: Path, words: tuple[str, ...]
) -> None:
    def shares_said(*more: str) -> tuple[list[str], str]:
        lines = typed(*words, *more)[0].splitlines()
        sentences = [line for line in lines if line.startswith("Shares: ")]
        return sentences, _document(typed, *words, *more)["log"]["shares_from"]

    assert shares_said() == ([_FROM_THE_SITE], "cluster")
    assert shares_said(*_BY_HAND) == ([_AS_GIVEN], "options")
    (tmp_path / "sacctmgr.script").unlink()
    assert shares_said() == ([_DERIVED], "work")


def test_a_protocol_says_it_too(typed: Typed) -> None:
    output, _ = typed("evaluate", "--policy", "fifo", "--protocol", "continuous")
    assert output.splitlines()[0] == _FROM_THE_SITE


def test_tune_looks_after_fairness_to_shares_of_the_site_alone(
    typed: Typed, tmp_path: Path
) -> None:
    search = ("tune", "--generations", "1")
    found = _document(typed, *search)
    assert found["goals"]["fairness"] == 0.5
    (tmp_path / "sacctmgr.script").unlink()
    output, _ = typed(*search)
    assert output.count(_DERIVED) == 1
    assert "Fairness is no goal of this search and misdelivery has no bound" in output


def test_train_gives_fairness_to_derived_shares_no_weight(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[reward]\nfairness = 0.5\n")
    words = ("train", "--config", "site.toml", "-o", "site.onnx", "--steps", "1", "--hidden", "2")
    output, errors = typed(*words)
    assert f"log.swf: {_FROM_THE_SITE}" in output
    assert "fairness" not in errors
    (tmp_path / "sacctmgr.script").unlink()
    output, errors = typed(*words)
    assert f"log.swf: {_DERIVED}" in output
    assert "[reward] fairness has no weight in this training: shares of log.swf are" in errors


def test_accounts_that_the_cluster_lacks_are_named(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "sacctmgr.script").write_text("add account 1 Fairshare=90\n")
    output, errors = typed("evaluate", "--policy", "fifo")
    assert _DERIVED in output
    assert "the cluster gives these accounts no shares: 2, 3; its shares are not used." in errors
