"""The formula of PBS: the site's own terms decide between jobs of one score, and no further."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.pbs.answers.server import formula_with, is_bounded, without_ours
from slurm_rl_plugin.batch_systems.pbs.scores import HIGHEST_SCORE, LOWEST_SCORE
from tests.fakes.fake_pbs_cluster import FakePbs
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
