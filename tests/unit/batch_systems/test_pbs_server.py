"""The server's formula and its schedulers: what overrules a score, and what is told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    formula_with,
    is_bounded,
    parse_schedulers,
    without_ours,
)
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.pbs.scores import HIGHEST_SCORE, LOWEST_SCORE
from slurm_rl_plugin.domain.job_class import JobClassifier
from tests.fakes.fake_pbs_cluster import NOW, FakePbs
from tests.unit.batch_systems.test_pbs_jobs_and_scores import adapter


def value_of(formula: str, **values: float) -> float:
    """As pbs_sched evaluates it."""
    return float(eval(formula, {**vars(math), **values}))


@given(
    score=st.integers(LOWEST_SCORE, HIGHEST_SCORE - 1),
    of_lower=st.floats(-1e200, 1e200),
    of_higher=st.floats(-1e200, 1e200),
)
def test_the_sites_terms_overrule_no_score(score: int, of_lower: float, of_higher: float) -> None:
    formula = formula_with("terms")
    lower = value_of(formula, rl_score=score, terms=of_lower)
    higher = value_of(formula, rl_score=score + 1, terms=of_higher)
    assert lower < higher


@given(seconds=st.integers(0, 10**6), score=st.integers(LOWEST_SCORE, HIGHEST_SCORE))
def test_the_sites_terms_decide_between_jobs_of_one_score(seconds: int, score: int) -> None:
    formula = formula_with("eligible_time/60 + queue_priority")
    sooner, later = (
        value_of(formula, rl_score=score, queue_priority=100, eligible_time=waited)
        for waited in (seconds + 60, seconds)
    )
    assert sooner > later


@pytest.mark.parametrize(
    ("formula", "bounded"),
    [
        ("rl_score", True),
        ("1000*rl_score", True),
        ("1000*rl_score + asinh(queue_priority + ncpus)", True),
        ("1000*rl_score + asinh(ncpus) + asinh(mem)", False),
        ("1000*rl_score + (queue_priority)", False),
        ("rl_score + asinh(ncpus)", False),
        ("1000*rl_score + asinh(ncpus)*mem", False),
        ("-1*rl_score", False),
        ("0*rl_score", False),
        ("rl_score +", False),
    ],
)
def test_check_warns_of_terms_that_are_not_bounded(
    tmp_path: Path, formula: str, bounded: bool
) -> None:
    assert is_bounded(formula) == bounded
    fake = FakePbs(tmp_path)
    fake.set_server(job_sort_formula=formula)
    (check,) = [each for each in adapter(fake).own_checks() if each.name == "formula"]
    assert check.result == ("pass" if bounded else "warn")


@pytest.mark.parametrize("site", ["", "queue_priority", "(ncpus) + asinh(mem)"])
def test_what_was_extended_is_taken_apart_again(site: str) -> None:
    assert without_ours(formula_with(site)) == site


OURS = "1000*rl_score"


@pytest.fixture
def fake(tmp_path: Path) -> FakePbs:
    return FakePbs(tmp_path)


class Site:
    """An adapter with a clock and a list of the commands that it ran."""

    def __init__(self, fake: FakePbs) -> None:
        self.now = float(NOW)
        self.calls: list[str] = []
        self.system = Pbs(
            AdapterParts(
                shares=None,
                classifier=JobClassifier(),
                clock=lambda: self.now,
                environment=fake.env,
                on_call=lambda name, _: self.calls.append(name),
            )
        )

    def harm(self) -> str | None:
        return self.system.facts().harm


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, None),
        ({"job_sort_formula": OURS}, "which the dead-man hook cannot take back"),
        ({"job_sort_formula": "queue_priority"}, "formula of its own that is not the server's"),
        ({"job_sort_formula_threshold": 0}, "unset sched second job_sort_formula_threshold"),
        ({"job_sort_formula_threshold": -7.5}, "never runs"),
        ({"job_sort_formula_threshold": 0, "job_sort_formula": OURS}, "never runs"),
    ],
)
def test_what_any_scheduler_says_is_told(
    fake: FakePbs, attributes: dict[str, Any], words: str | None
) -> None:
    fake.set(schedulers=["default", "second"], sched={"second": attributes})
    harm = Site(fake).harm()
    assert harm is None if words is None else words in str(harm)


def test_a_formula_of_a_scheduler_alone_is_not_ours(fake: FakePbs) -> None:
    """The dead-man hook would not take it back."""
    fake.set_server(job_sort_formula="")
    fake.set(sched={"default": {"job_sort_formula": OURS}})
    assert "does not hold rl_score" in str(Site(fake).harm())


def test_a_queues_own_default_of_the_score_is_told(fake: FakePbs) -> None:
    """What is cleared there would have it, in place of the server's."""
    fake.set_queue("long", attributes={"resources_default": {"rl_score": 7}})
    harm = str(Site(fake).harm())
    assert "qmgr -c 'unset queue long resources_default.rl_score'" in harm


def test_it_is_asked_once_a_minute_while_nothing_is_wrong(fake: FakePbs) -> None:
    site = Site(fake)
    assert [site.harm(), site.harm()] == [None, None]
    assert site.calls == ["qstat", "qstat", "qmgr", "qstat"]
    fake.set(sched={"default": {"job_sort_formula_threshold": 5}})
    site.now += 61.0
    assert site.harm() is not None
    fake.set(sched={})
    assert site.harm() is None  # what was wrong is asked for in each cycle
    site.calls.clear()
    fake.set_server(job_sort_formula="rl_score")
    assert site.harm() is None
    assert site.calls == ["qstat", "qstat", "qmgr"]  # another formula has to be compared anew


def test_a_long_value_goes_on_in_the_next_line() -> None:
    told = (
        "Sched default\n    job_sort_formula = max(ncpus,\n\t\tnodect)*rl_score\n"
        "    state = idle\n\n"
        "Sched second\n    job_sort_formula_threshold = 1.5\n"
    )
    first, second = parse_schedulers(told)
    assert (first.name, first.formula) == ("default", "max(ncpus,nodect)*rl_score")
    assert (first.threshold, second.threshold, second.formula) == (None, 1.5, "")
