"""The distribution of a run time: hazards by hand, its means by integration, its quantiles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.features.history.run_history import AT_RISK, BOUNDS, ENDED_BEFORE, HISTORY
from slurm_rl_plugin.features.history.run_prediction import (
    GRID,
    PARTS,
    SHARES,
    alike_features,
    believed_rate,
    expected_run,
    fill_hazards,
    fill_shares,
    history_features,
    learn_shares,
    nominal_shares,
    run_time_at,
)

HOUR, DAY = 3600.0, 86_400.0
NOTHING = np.zeros(HISTORY)
UNKNOWN = 0.12
some_hazards = st.lists(st.floats(0.0, 1.0), min_size=len(BOUNDS), max_size=len(BOUNDS))


def row(place, ended, of):
    """A row in which so many runs of so many ended before one bound."""
    counts = np.zeros(HISTORY)
    counts[[ENDED_BEFORE + place, AT_RISK + place]] = ended, of
    return counts


def hazards_of(site=NOTHING, user=NOTHING, limits=NOTHING, template=NOTHING, speaks=True):
    hazards = np.empty((len(BOUNDS), *np.shape(site)[1:]))
    fill_hazards(hazards, site, user, limits, template, speaks)
    return hazards


def ending_at(place, part=1.0):
    """Hazards of runs of which a part ends before one bound and none before another."""
    hazards = np.zeros(len(BOUNDS))
    hazards[place] = part
    return hazards


def test_runs_that_do_not_speak_for_a_request_say_only_that_it_runs_longer():
    place = 4
    ends_sooner, goes_on = row(place, 8, 8), row(place, 0, 8)
    of_class = hazards_of()[place]
    assert hazards_of(user=ends_sooner)[place] > of_class
    assert hazards_of(user=ends_sooner, speaks=False)[place] == of_class
    assert hazards_of(user=goes_on, speaks=False)[place] == hazards_of(user=goes_on)[place]
    assert hazards_of(user=goes_on)[place] < of_class


def test_where_nothing_is_known_the_same_part_ends_before_each_bound():
    assert hazards_of() == pytest.approx(np.full(len(BOUNDS), UNKNOWN))


def test_each_level_is_drawn_to_the_one_above_by_its_prior_runs():
    place = 4
    site = (6 + 5 * UNKNOWN) / (8 + 5)  # 6 of 8 runs of the class; five runs of the prior
    user = (1 + 10 * site) / (4 + 10)
    limits = (2 + 6 * user) / (3 + 6)
    template = (2 + 3 * limits) / (2 + 3)
    rows = row(place, 6, 8), row(place, 1, 4), row(place, 2, 3), row(place, 2, 2)
    assert hazards_of(rows[0])[place] == pytest.approx(site)
    assert hazards_of(*rows[:2])[place] == pytest.approx(user)
    assert hazards_of(*rows[:3])[place] == pytest.approx(limits)
    assert hazards_of(*rows)[place] == pytest.approx(template)
    others = np.delete(hazards_of(*rows), place)
    assert others == pytest.approx(np.full(len(BOUNDS) - 1, UNKNOWN))


def test_runs_of_a_template_outweigh_those_above_as_they_grow_in_number():
    told = [hazards_of(row(0, 0, 1000), template=row(0, each, each))[0] for each in (0, 3, 30)]
    site = 5 * UNKNOWN / 1005
    assert told == pytest.approx([site, (3 + 3 * site) / 6, (30 + 3 * site) / 33])


def test_a_run_that_went_on_lowers_the_hazard_and_one_that_ended_raises_it():
    went_on, ended = hazards_of(user=row(2, 0, 1))[2], hazards_of(user=row(2, 1, 1))[2]
    assert went_on == pytest.approx(10 * UNKNOWN / 11)
    assert ended == pytest.approx((1 + 10 * UNKNOWN) / 11)


def test_hazards_of_columns_are_those_of_single_jobs():
    rng = np.random.default_rng(1)
    rows = rng.uniform(0, 9, (4, HISTORY, 20))
    together = hazards_of(*rows)
    for job in range(20):
        np.testing.assert_allclose(together[:, job], hazards_of(*rows[:, :, job]), rtol=1e-14)


def integrated(hazards, time_limit, steps=20_000):
    """Mean run time and mean of 1 / max(run time, 10 s), a step of the distribution at a time."""
    survives, mean, inverse = 1.0, 0.0, 0.0
    middle = (np.arange(steps) + 0.5) / steps
    for place, (bound, hazard) in enumerate(zip(BOUNDS, hazards, strict=True)):
        low = BOUNDS[place - 1] if place else 0.0
        if low >= 0.99 * time_limit:
            break  # who has come so far is ended by the limit
        high = min(bound, time_limit)
        lengths = np.array([min(6.0, time_limit)])
        if place:
            lengths = low * (high / low) ** middle  # evenly spread in the logarithm
        mean += survives * hazard * lengths.mean()
        inverse += survives * hazard * (1.0 / np.maximum(lengths, 10.0)).mean()
        survives *= 1.0 - hazard
    return mean + survives * time_limit, inverse + survives / max(time_limit, 10.0)


@pytest.mark.parametrize(
    "time_limit",
    [3.0, 10.0, 10.05, 10.2, 45.0, 600.0, 605.0, 607.0, 1000.0, HOUR, 3 * HOUR, DAY, 7 * DAY],
)
def test_means_are_those_of_the_distribution(time_limit):
    rng = np.random.default_rng(int(time_limit))
    for hazards in (*rng.random((4, len(BOUNDS))) ** 2, np.full(len(BOUNDS), UNKNOWN)):
        found = expected_run(hazards, time_limit)
        np.testing.assert_allclose(found, integrated(hazards, time_limit), rtol=1e-7)


def test_means_by_hand():
    half = ending_at(BOUNDS.index(60.0), 0.5)  # half end from 30 to 60 s, half by their limit
    mean, inverse = expected_run(half, 1000.0)
    assert mean == pytest.approx(0.5 * (60 - 30) / math.log(2) + 0.5 * 1000)
    assert inverse == pytest.approx(0.5 * (1 / 30 - 1 / 60) / math.log(2) + 0.5 / 1000)


def test_runs_that_end_at_once_take_six_seconds_and_count_as_ten():
    assert expected_run(ending_at(0), 1000.0) == pytest.approx((6.0, 1 / 10))
    assert expected_run(ending_at(0), 5.0) == pytest.approx((5.0, 1 / 10))


def test_who_outlives_all_runs_as_long_as_asked():
    for limit in (5.0, 600.0, 30 * DAY):
        told = expected_run(np.zeros(len(BOUNDS)), limit)
        assert told == pytest.approx((limit, 1 / max(limit, 10.0)))


def test_what_lies_in_the_last_hundredth_of_the_limit_or_beyond_tells_nothing():
    place = BOUNDS.index(900.0)  # runs of 600 to 900 s
    certain = pytest.approx((605.0, 1 / 605))
    assert expected_run(ending_at(place), 605.0) == certain  # 600 > 0.99 * 605
    assert expected_run(ending_at(place + 1), 605.0) == certain
    mean, _ = expected_run(ending_at(place), 610.0)
    assert mean == pytest.approx(10 / math.log(610 / 600))  # from 600 s to the limit


@given(hazards=some_hazards, time_limit=st.floats(1.0, 30 * DAY))
def test_means_lie_within_what_is_asked(hazards, time_limit):
    mean, inverse = expected_run(np.array(hazards), time_limit)
    assert 1.0 <= mean <= time_limit * (1 + 1e-8) + 1e-8
    assert 1 / max(time_limit, 10.0) * (1 - 1e-8) <= inverse <= 0.1 * (1 + 1e-8)


def test_means_of_columns_are_those_of_single_jobs():
    rng = np.random.default_rng(2)
    hazards, limits = rng.random((len(BOUNDS), 50)), 10 ** rng.uniform(0, 6, 50)
    mean, inverse = expected_run(hazards, limits)
    for job in range(50):
        alone = expected_run(hazards[:, job], limits[job])
        np.testing.assert_allclose((mean[job], inverse[job]), alone, rtol=1e-13)


def test_the_length_that_counts_lies_between_the_means_and_the_spread_is_their_distance():
    length, spread = history_features(400.0, 1 / 100)
    assert length == pytest.approx(math.log(200))  # the root of 400 s and 100 s
    assert spread == pytest.approx(math.log(2))
    length, spread = history_features(400.0, 1 / 400)
    assert (length, spread) == pytest.approx((math.log(400), 0.0))


def test_a_request_for_which_no_runs_speak_counts_as_an_eighth_of_the_mean_at_least():
    rate = believed_rate(8000.0, 1 / 20, False)
    assert history_features(8000.0, rate) == pytest.approx((math.log(1000), math.log(8)))
    assert believed_rate(8000.0, 1 / 20, True) == 1 / 20
    assert believed_rate(8000.0, 1 / 4000, False) == 1 / 4000  # longer: as its user's runs tell


def test_no_length_counts_as_less_than_a_minute():
    assert history_features(6.0, 1 / 10)[0] == math.log(60)
    assert history_features(59.0, 1 / 59)[0] == math.log(60)
    assert history_features(61.0, 1 / 61)[0] == pytest.approx(math.log(61))


@pytest.mark.parametrize(
    ("pending", "running", "expected"),
    [(1, 0, 0.0), (5, 0, math.log(5)), (8, 0, math.log(8)), (100, 0, math.log(8)), (5, 1, 0.0)],
)
def test_jobs_alike_count_to_eight_and_only_while_none_of_them_runs(pending, running, expected):
    assert alike_features(pending, running) == (pytest.approx(expected),)


def shares_of(hazards):
    shares = np.empty((SHARES, *np.shape(hazards)[1:]))
    fill_shares(shares, np.asarray(hazards, dtype=np.float64))
    return shares


def test_shares_and_quantiles_by_hand():
    shares = shares_of(np.full(len(BOUNDS), 0.5))
    assert shares[:4].tolist() == [0.0, 0.5, 0.75, 0.875]
    assert run_time_at(shares, 0.5) == pytest.approx(10.0)
    assert run_time_at(shares, 0.75) == pytest.approx(30.0)
    assert run_time_at(shares, 0.625) == pytest.approx(math.sqrt(10 * 30))  # half way between
    assert run_time_at(shares, 0.25) == pytest.approx(math.sqrt(1 * 10))
    beyond = shares_of(np.zeros(len(BOUNDS)))
    assert run_time_at(beyond, 0.5) == pytest.approx(math.sqrt(2 * DAY * 10 * DAY))


@given(some_hazards)
def test_shares_never_fall_and_quantiles_never_cross(hazards):
    shares = shares_of(hazards)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert (np.diff(shares) >= 0.0).all()
    times = [run_time_at(shares, part) for part in PARTS]
    assert times == sorted(times)
    assert 1.0 <= times[0] <= times[-1] <= 10.0 ** GRID[-1] * (1 + 1e-12)


def test_a_quantile_lies_where_the_share_is_reached():
    below = np.linspace(0.05, 0.95, len(BOUNDS))
    before = np.concatenate([[0.0], below[:-1]])
    shares = shares_of((below - before) / (1 - before))
    for place, bound in enumerate(BOUNDS):
        assert run_time_at(shares, below[place]) == pytest.approx(bound)


def test_quantiles_of_columns_are_those_of_single_jobs():
    hazards = np.random.default_rng(1).random((len(BOUNDS), 20))
    asked = np.linspace(0.05, 0.95, 20)
    together = run_time_at(shares_of(hazards), asked)
    alone = [run_time_at(shares_of(hazards[:, job]), asked[job]) for job in range(20)]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_one_end_moves_what_is_asked_for_by_hand():
    asked, told = nominal_shares(), np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    learn_shares(asked, told, 30.0)  # not below the first two quantiles, at or below the others
    moved = [0.1, 0.25, 0.5 - 1, 0.75 - 1, 0.9 - 1]
    assert asked == pytest.approx(np.add(PARTS, np.multiply(0.005, moved)))


@pytest.mark.parametrize(("run_time", "edge"), [(1.0, 0.001), (1e6, 0.999)])
def test_what_is_asked_for_stays_within_its_edges_and_in_order(run_time, edge):
    asked, told = nominal_shares(), np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    for _ in range(3000):
        learn_shares(asked, told, run_time)
        assert (np.diff(asked) >= 0.0).all()
    assert (asked == edge).any()
    assert ((asked >= 0.001) & (asked <= 0.999)).all()


def test_a_smaller_part_is_never_asked_for_with_a_larger_share():
    asked, told = np.array([0.1, 0.1, 0.5, 0.75, 0.9]), np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    learn_shares(asked, told, 15.0)
    # the first rises by 0.005 * 0.1; the second would fall by 0.005 * 0.75
    assert asked[:2] == pytest.approx([0.1005, 0.1005])


@pytest.mark.parametrize("wrong", [0.4, 2.5])
def test_whatever_the_prediction_parts_of_the_runs_end_below(wrong):
    """What is asked for makes up for run times that are predicted too long or too short."""
    rng = np.random.default_rng(2)
    below = np.array([0.5 + 0.5 * math.erf(math.log(b / 600.0) / 2.0) for b in BOUNDS])
    before = np.concatenate([[0.0], below[:-1]])
    shares, asked = shares_of((below - before) / (1 - before)), nominal_shares()
    ended_below = []
    for run_time in rng.lognormal(math.log(600.0 * wrong), math.sqrt(2.0), 12_000):
        told = np.array([run_time_at(shares, share) for share in asked])
        ended_below.append(run_time <= told)
        learn_shares(asked, told, run_time)
    assert np.abs(np.mean(ended_below[4_000:], axis=0) - PARTS).max() < 0.02
    assert np.abs(np.mean(ended_below[:500], axis=0) - PARTS).max() > 0.05


def test_a_run_of_which_nothing_was_predicted_teaches_nothing():
    asked = nominal_shares()
    learn_shares(asked, np.full(len(PARTS), np.nan), 5.0)
    assert asked.tolist() == list(PARTS)
