"""Where a search may begin, what it may change and within which bounds."""

import re

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import SITE, USUAL
from slurm_rl_plugin.learning.algorithms import settings_of
from slurm_rl_plugin.learning.policy_search import (
    FEATURE_GROUPS,
    SEARCHED,
    STARTS,
    PolicySearchSettings,
    initial_parameters,
    search_bounds,
    searched_places,
)
from slurm_rl_plugin.policies.network import (
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)


def test_what_waiting_counts_is_bounded_and_in_a_linear_search_alone():
    linear = PolicySearchSettings(searched="linear", start="site", history=True, hold=True)
    first = parameter_count(SITE, 6) - len(SITE.jobs)
    waiting = [first + SITE.jobs.index(name) for name in ("log_age", "overdue")]
    places = searched_places(linear).tolist()
    assert set(waiting) <= set(places)
    expected = [[0.0 if each in waiting else -np.inf, np.inf] for each in places]
    assert search_bounds(linear).tolist() == expected
    for searched in ("network", "reserve"):
        assert search_bounds(PolicySearchSettings(searched=searched, hold=True)) is None


@pytest.mark.parametrize("searched", SEARCHED)
def test_every_searched_place_is_one_of_the_parameters_and_none_comes_twice(searched):
    settings = PolicySearchSettings(searched=searched, hold=True, history=True)
    places = searched_places(settings)
    assert len(np.unique(places)) == len(places)
    assert places.min() >= 0
    assert places.max() == len(initial_parameters(settings)) - 1


@pytest.mark.parametrize("start", sorted(STARTS))
def test_a_start_weighs_features_of_the_schema_and_begins_within_the_bounds(start):
    settings = PolicySearchSettings(searched="linear", start=start, history=True)
    parameters = initial_parameters(settings)
    linear = parameters[-len(SITE.jobs) :]
    weighed = {name: weight for name, weight in zip(SITE.jobs, linear, strict=True) if weight}
    points = {name: weight / USUAL[name][1] for name, weight in weighed.items()}
    by_goals = {"interactive_points": 1.0, "share_points": -1.0}
    assert points == pytest.approx({**STARTS[start], **by_goals})
    assert not parameters[: -len(SITE.jobs)].any()
    assert (parameters[searched_places(settings)] >= search_bounds(settings)[:, 0]).all()


def test_the_start_by_past_runs_needs_them():
    with pytest.raises(ConfigurationError, match="set history=true as well"):
        PolicySearchSettings(start="site")
    with pytest.raises(ConfigurationError, match="set history=true as well"):
        settings_of("policy-search", {"history": "false"})
    text = {"start": "site", "searched": "linear", "history": "true", "batch": "2", "hidden": "1"}
    assert settings_of("policy-search", text).history


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("step", "0", "step is 0: give a number above 0, and at most 1000."),
        ("step", "-1", "step is -1: give a number above 0"),
        ("step", "inf", "step is inf: give"),
        ("step", "nan", "step is nan: give"),
        ("step", "1e300", "step is 1e+300: give"),
        ("population", "1", "population is 1: give a number at least 3, or 0."),
        ("population", "2", "population is 2: give"),
        ("population", "-2", "population is -2: give"),
        ("validate_every", "0", "validate_every is 0: give a number at least 1."),
        ("validate_every", "-1", "validate_every is -1: give"),
        ("generations", "0", "generations is 0: give"),
        ("batch", "-1", "batch is -1: give a number at least 0."),
        ("hidden", "-2", "hidden is -2: give a number at least 1."),
    ],
)
def test_a_number_out_of_its_range_is_refused(name, text, words):
    with pytest.raises(ConfigurationError, match=re.escape(f"policy-search setting {words}")):
        settings_of("policy-search", {name: text})


@pytest.mark.parametrize(
    ("algorithm", "name", "text"),
    [
        ("fitted-q", "kept", "99999999999999999999"),
        ("policy-search", "generations", f"-1{'0' * 320}"),
        ("policy-search", "hidden", "2147483648"),
        ("sarsa", "epochs", f"-1{'0' * 320}"),
    ],
)
def test_a_whole_number_that_nothing_counts_is_refused(algorithm, name, text):
    with pytest.raises(ConfigurationError, match=f"{name} is {text}: give 2147483647 at most"):
        settings_of(algorithm, {name: text})


def test_what_is_searched_is_one_of_three():
    known = "'all': give network or linear or reserve"
    with pytest.raises(ConfigurationError, match=known):
        PolicySearchSettings(searched="all")


@pytest.mark.parametrize("searched", ["network", "linear"])
@pytest.mark.parametrize("group", sorted(FEATURE_GROUPS))
def test_features_left_out_weigh_nothing_and_are_not_searched(group, searched):
    settings = PolicySearchSettings(
        searched=searched, start="site", history=True, without=group, hidden=2
    )
    parameters = initial_parameters(settings)
    parameters[searched_places(settings)] = np.random.default_rng(1).normal(size=1)
    found = network_from_parameters(SITE, parameters, hidden=2, scaler=fixed_scaler(SITE))
    for name in SITE.jobs:
        place = SITE.jobs.index(name)
        seen = bool(found.linear[place]) or bool(found.job_weights[place].any())
        if name in FEATURE_GROUPS[group]:
            assert not seen
        elif searched == "network":
            assert seen


def test_several_groups_can_be_left_out_and_an_unknown_one_is_refused():
    both = PolicySearchSettings(history=True, without="request,alike")
    left_out = {*FEATURE_GROUPS["request"], *FEATURE_GROUPS["alike"]}
    assert both.unseen == {*left_out, "interactive_points", "share_points"}
    with pytest.raises(ConfigurationError, match="without is 'age': give some of request"):
        settings_of("policy-search", {"without": "request,age"})
