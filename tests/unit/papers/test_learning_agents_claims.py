"""Claims on the 2005 paper: who says the number that a figure is held against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from slurm_rl_plugin.papers.learning_agents_2005.claims import GROWTH, READING, claims_of
from slurm_rl_plugin.papers.learning_agents_2005.experiment import (
    FIGURE_5,
    QUICK,
    Measured,
    experiments,
)


@pytest.fixture(scope="module")
def found() -> Mapping[str, Measured]:
    steady = np.ones(3)
    return {
        each.group: Measured(
            load=dict.fromkeys(each.rules, steady),
            middle=dict.fromkeys(each.rules, steady),
            response=dict.fromkeys(each.rules, steady),
            curve=dict.fromkeys(each.rules, steady),
            ends=np.arange(3),
        )
        for each in experiments(QUICK)
    }


def test_a_bound_that_the_paper_does_not_print_is_not_its_own(
    found: Mapping[str, Measured],
) -> None:
    sources = {
        claim.printed.value: claim.source
        for claim in claims_of(found)
        if claim.printed is not None and claim.source != "goal"
    }
    assert sources[2.0] == READING  # "similar", "comparable"
    assert sources[1.2] == READING  # "sustained"
    assert sources[1.0] == "paper"  # "converges to the same value"


def test_noise_is_judged_on_either_side_of_what_can_be_borne(
    found: Mapping[str, Measured],
) -> None:
    columns = {
        (claim.cell.policy.partition("noise ")[2], claim.cell.column)
        for claim in claims_of(found)
        if claim.cell.group == FIGURE_5 and claim.reproduces is not None
    }
    assert {noise for noise, column in columns if column == GROWTH} == {"0.01", "0.025"}
    assert {noise for noise, column in columns if column.startswith("load at the end less")} == {
        "0.05",
        "0.1",
    }
