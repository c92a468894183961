"""Shares count in the simulated order of a model where they are the site's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import AS_TRAINED, POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.policy_search import SLOWDOWN, unsearched_network
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_shares import GIVEN, OF_CLUSTER, PAST_WORK
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

LOG = mmn_log(np.random.default_rng(1), processors=5, jobs=300, load=0.95)
UNEQUAL = {"vo0": 0.1, "vo1": 0.2, "vo2": 0.3, "vo3": 0.4}


def log_with(shares: dict[str, float] | None = None) -> PreparedLog:
    return prepare_log(LOG, shares=shares)


def starts(prepared: PreparedLog, goals: Goals) -> list[float]:
    """By the network that is searched from, which counts shares as the shipped one does."""
    candidate = Candidate(name="network", network=unsearched_network(SLOWDOWN))
    settings = SimulationSettings(capacity=5, goals=goals)
    found: list[float] = starts_under(
        candidate, prepared, prepared.workload(None), settings
    ).tolist()
    return found


@pytest.mark.parametrize("wanted", [AS_TRAINED, Goals(shares=3.0, interactive=1.0)], ids=str)
def test_derived_shares_count_nothing_whatever_is_asked_for(wanted: Goals) -> None:
    prepared = log_with()
    assert prepared.shares_from == PAST_WORK
    assert np.ptp(prepared.shares) > 0.01
    assert prepared.goals(wanted) == replace(wanted, shares=0.0)


def test_given_shares_count_even_where_they_are_equal() -> None:
    equal = log_with(dict.fromkeys(UNEQUAL, 0.25))
    assert equal.shares_from == GIVEN
    assert equal.goals(AS_TRAINED) == Goals(shares=POINTS_A_DOUBLING)
    assert equal.goals(Goals(shares=0.0)) == Goals(shares=0.0)


@pytest.mark.parametrize(("alike", "points"), [(True, 0.0), (False, POINTS_A_DOUBLING)])
def test_shares_of_the_batch_system_count_where_they_differ(alike: bool, points: float) -> None:
    shares = np.full(4, 0.25) if alike else np.array(list(UNEQUAL.values()))
    prepared = replace(log_with(), shares=shares, shares_from=OF_CLUSTER)
    assert prepared.goals(AS_TRAINED) == Goals(shares=points)


def test_a_schedule_follows_given_shares_and_no_derived_ones() -> None:
    given, derived = log_with(UNEQUAL), log_with()
    no_shares = Goals(shares=0.0)
    assert starts(given, AS_TRAINED) == starts(given, Goals(shares=POINTS_A_DOUBLING))
    assert starts(given, AS_TRAINED) != starts(given, no_shares)
    assert starts(derived, AS_TRAINED) == starts(derived, no_shares)
    assert starts(derived, Goals(shares=POINTS_A_DOUBLING)) == starts(derived, no_shares)
