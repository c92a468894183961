"""Claims on the 2005 paper: who says the number that a figure is held against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from slurm_rl_plugin.papers.learning_agents_2005.experiment import (
    DECLARED,
    FIGURE_5,
    GROWTH,
    QUICK,
    SAME,
    Measured,
    experiments,
    rows_of,
)
from slurm_rl_plugin.papers.study.claims import READING, counts


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
        for claim in DECLARED.claims(rows_of(found))
        if claim.printed is not None and claim.source != "goal"
    }
    assert sources[2.0] == READING  # "similar", "comparable"
    assert sources[1.2] == READING  # "sustained"
    assert sources[1.0] == "paper"  # "compares very well"
    readings = [claim for claim in DECLARED.claims(rows_of(found)) if claim.source == READING]
    assert counts(readings).keys() == {"readings"}
    assert len({claim.cell.name for claim in readings}) == len(readings)
    assert READING in {claim.source for claim in readings if claim.cell.column == SAME}
    reasons = {claim.cell.name: claim.because for claim in readings}
    assert reasons["Fig. 2, capacities 300-700, g = 0.13: random, load / least loaded"] == (
        "1 against at most 2, a factor that this project chose: holds from 1, also at 1.2"
    )
    assert reasons[
        "Fig. 4, capacities 10-1000, g = 0.20, leaving 0.01: paper's agents, "
        "load / load without leaving"
    ] == ("1 against at least 2, a factor that this project chose: holds up to 1, not at 1.2")


def test_random_choices_are_judged_on_either_side_of_what_they_bear(
    found: Mapping[str, Measured],
) -> None:
    verdicts = {claim.cell.name: claim.reproduces for claim in DECLARED.claims(rows_of(found))}
    narrow, wide = "Fig. 2, capacities 300-700, g = 0.", "Fig. 3, capacities 10-1000, g = 0."
    for group in (f"{narrow}13", f"{narrow}14", f"{wide}005"):
        assert verdicts[f"{group}: random, {GROWTH}"] is True
    for group in (f"{narrow}15", f"{wide}01"):
        assert verdicts[f"{group}: random, load at the end less that in the middle"] is False


def test_noise_is_judged_on_either_side_of_what_can_be_borne(
    found: Mapping[str, Measured],
) -> None:
    columns = {
        (claim.cell.policy.partition("noise ")[2], claim.cell.column)
        for claim in DECLARED.claims(rows_of(found))
        if claim.cell.group == FIGURE_5 and claim.reproduces is not None
    }
    assert {noise for noise, column in columns if column == GROWTH} == {"0.01", "0.025"}
    assert {noise for noise, column in columns if column.startswith("load at the end less")} == {
        "0.05",
        "0.1",
    }
