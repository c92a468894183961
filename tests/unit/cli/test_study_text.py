"""What a study says in words: the size of a difference, and which groups a screen shows."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_rl_plugin.cli.study_text import (
    FEWEST_JOBS,
    LOSERS,
    print_groups,
    print_losers,
)
from slurm_rl_plugin.cli.what_if import intervals_words
from slurm_rl_plugin.evaluation.site_replay import Prediction
from slurm_rl_plugin.evaluation.study import Group, MeanAndLongest, Study
from slurm_rl_plugin.learning.evaluation.group_waits import Loser
from slurm_rl_plugin.learning.evaluation.recorded_replay import ComparedFigure


def verdict(**changes: Any) -> str:
    figure: dict[str, Any] = {"jobs": 5000, "model": 0.9, "site": 0.8, "difference": 0.1}
    figure |= {"ci95": (0.05, 0.15), "verdict": "better", "jobs_needed": None, **changes}
    prediction = dict.fromkeys(Prediction.__dataclass_fields__)
    prediction |= {
        "goals": ("fairness",),
        "figures": {"fairness": ComparedFigure(**figure)},
        "counted_jobs": 5000,
    }
    return Prediction(**prediction).sentence


def study(**parts: Any) -> Study:
    known = {"counted_jobs": 1, "processors": 4, "class_rule": "", "policies": {}, "groups": {}}
    return Study(**{**known, "compared_with": "native order", "losers": {}, **parts})


def test_a_difference_is_told_with_its_size() -> None:
    assert verdict() == "After 5,000 jobs: fairness better by 0.1 (12 %)."
    none = verdict(difference=0.000491, verdict="no difference")
    assert none == "After 5,000 jobs: fairness no difference."
    assert verdict(site=0.0) == "After 5,000 jobs: fairness better by 0.1."


def test_too_few_jobs_tell_nothing_of_the_difference() -> None:
    unknown = {"verdict": "inconclusive", "jobs": 40, "jobs_needed": 2500}
    needed = "After 5,000 jobs: fairness inconclusive - about 2,500 jobs needed"
    assert verdict(**unknown) == f"{needed}."


def loser(by: str, group: str, jobs: int, mean: float, longest: float) -> Loser:
    waits = {"mean_wait": (0.0, mean), "longest_wait": (0.0, longest)}
    return Loser(by=by, group=group, jobs=jobs, **waits)


def test_groups_and_accounts_that_lose_most_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    many = 3 * LOSERS
    losers = [loser("account", f"a{place}", 50, 1e5 - place, 1e5) for place in range(many)]
    losers += [loser("account", "tiny", FEWEST_JOBS - 1, 9e4, 9e6)]
    losers += [
        loser("account", "late", 50, 60.0, 9e6),
        loser("width", "one processor", 1, 9.0, 60.0),
    ]
    print_losers(study(losers={"sjf": losers}))
    out = capsys.readouterr().out
    shown = [line.split()[1] for line in out.splitlines() if line.startswith("account:")]
    assert shown == [*(f"a{place}" for place in range(LOSERS)), "late"]
    (narrow,) = (line for line in out.splitlines() if line.startswith("width: one processor"))
    assert " ".join(narrow.split()) == "width: one processor 1 0 s to 9 s 9 s 0 s to 60 s 60 s"
    assert f"{many + 3 - LOSERS - 2} more wait longer" in out


def test_nobody_loses(capsys: pytest.CaptureFixture[str]) -> None:
    print_losers(study(losers={"sjf": []}))
    assert "Who loses under sjf beside native order: nobody;" in capsys.readouterr().out


def test_of_many_accounts_the_largest_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    waits = {"sjf": MeanAndLongest(mean_wait=7200.0, longest_wait=3e5)}
    accounts = {f"a{place}": Group(jobs=place, waits=waits) for place in range(1, 12)}
    print_groups(study(policies={"sjf": None}, groups={"account": accounts}))
    out = capsys.readouterr().out
    assert "account: a11    11  2.0 h, 3.5 d" in out
    assert "account: a3 " not in out
    assert "3 smaller accounts: see --json." in out


def test_one_day_is_one_day() -> None:
    told = {"draws": 0, "unit": "days"}
    assert intervals_words({**told, "stretches": 1}).startswith("Only 1 day: too few")
    assert intervals_words({**told, "stretches": 2}).startswith("Only 2 days: too few")
