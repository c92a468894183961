"""Statistics of past runs: each event once at any pace of snapshots, and predicted run times."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.features.history import past_runs
from slurm_rl_plugin.features.history.past_runs import LINE, PastRuns
from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    GRID,
    PARTS,
    SHARES,
    expected_run,
    fill_shares,
    learn_shares,
    limit_keys,
    nominal_shares,
    place_of,
    request_class,
    run_time_at,
    template_keys,
    user_key,
    user_keys,
)
from tests.reference.readable_past_runs import lengths, step_of
from tests.unit.features.run_tables import USERS, Run, snapshot_of, told_by

NAN = math.nan
USER, LIMITS, TEMPLATE = 1, 2, 3


def rows_of(past, run):
    """The rows of the run's class, user, limits and template; None where there is none."""
    user = user_keys(USERS, np.array([run.user]))
    template = template_keys(user, np.array([run.processors]), np.array([1.0 * step_of(run.asked)]))
    alike = np.array([request_class(run.asked, run.processors)])
    rows = []
    limits = limit_keys(user, np.array([run.asked]))
    tables = (past.site, past.users, past.limits, past.templates)
    for table, key in zip(tables, (alike, user, limits, template), strict=True):
        place = int(table.places(key)[0])
        rows.append(None if place < 0 else table.rows[place])
    return rows


def random_runs(rng, count, whole=True):
    """Runs of few templates; every other one is ended by its limit where it has one."""
    start = rng.uniform(0, 40_000, count)
    length = 10 ** rng.uniform(0.0, 4.3, count)
    if whole:  # many events at the same time
        start, length = np.floor(start / 60) * 60, np.ceil(length / 60) * 60
    limit = rng.choice([600.0, 1000.0, 3600.0, NAN], count)
    length = np.where(np.arange(count) % 2, np.fmin(length, limit), length)
    return [
        Run(
            int(number),
            int(rng.integers(len(USERS))),
            int(rng.integers(1, 3)),
            float(asked),
            float(begin),
            float(begin + run_time),
        )
        for number, asked, begin, run_time in zip(
            rng.permutation(count), limit, start, length, strict=True
        )
    ]


def snapshots_of(runs, times):
    """What a batch system reports at these times; each end once."""
    last = -math.inf
    for now in times:
        running = [run for run in runs if run.start <= now < run.end]
        ended = [run for run in runs if last < run.end <= now]
        yield snapshot_of(float(now), running=running, ended=ended)
        last = now


def assert_same(past, readable, rtol=1e-12):
    def same(table, key, row):
        place = table.places(np.atleast_1d(key).astype(np.float64))[0]
        assert place >= 0
        np.testing.assert_allclose(table.rows[place], row.numbers(), rtol=rtol)

    assert len(past.site) == len(readable.site)
    assert len(past.users) == len(readable.users)
    assert len(past.limits) == len(readable.limits)
    assert len(past.templates) == len(readable.templates)
    for (long, wide), row in readable.site.items():
        same(past.site, 14 * long + wide, row)
    for user, row in readable.users.items():
        same(past.users, user_key(USERS[user]), row)
    for (user, doublings), row in readable.limits.items():
        key = limit_keys(np.array([user_key(USERS[user])]), np.array([60.0 * 2**doublings]))
        same(past.limits, key, row)
    for (user, processors, step), row in readable.templates.items():
        of_user = np.array([user_key(USERS[user])])
        key = template_keys(of_user, np.array([processors]), np.array([float(step)]))
        same(past.templates, key, row)


@pytest.mark.parametrize("seed", range(12))
def test_at_any_pace_each_event_counts_once_and_in_order(seed):
    rng = np.random.default_rng(seed)
    runs = random_runs(rng, 120, whole=seed % 2 == 0)
    times = np.sort(rng.uniform(0, 60_000, [1, 3, 40, 300][seed % 4]))
    times = np.floor(times / 60) * 60 if seed % 3 == 0 else times
    past = PastRuns()
    for snapshot in snapshots_of(runs, times):
        past = past.after(snapshot)
        past = PastRuns.from_memory(np.concatenate(past.to_memory()))
    assert_same(past, told_by(runs, times[-1]))


def steps_of(runs):
    """How many functions are called to learn from runs that have ended."""
    snapshot, steps = snapshot_of(100_000.0, ended=runs), []
    sys.setprofile(lambda _, event, __: steps.append(event))
    try:
        PastRuns().after(snapshot)
    finally:
        sys.setprofile(None)
    return sum(event.endswith("call") for event in steps)


def test_a_hundred_times_as_many_runs_are_learnt_from_in_the_same_steps():
    """The first decision after a start learns from all that accounting knows, by its deadline."""
    runs = random_runs(np.random.default_rng(8), 5000)
    few, many = steps_of(runs[:50]), steps_of(runs)
    assert many < few + 50


def test_the_same_snapshot_again_changes_nothing_but_a_late_end_counts():
    run = Run(1, 0, 4, 9000.0, start=0.0, end=1000.0)
    past = PastRuns().after(snapshot_of(950.0, running=[run]))
    again = past.after(snapshot_of(950.0, running=[run]))
    assert np.concatenate(again.to_memory()).tobytes() == np.concatenate(past.to_memory()).tobytes()
    # at 2000 it is gone, but the batch system is asked about it at 3000 only
    unseen = past.after(snapshot_of(2000.0))
    late = unseen.after(snapshot_of(3000.0, ended=[run]))
    assert_same(late, told_by([run], 3000.0))


def test_runs_from_accounting_count_from_the_time_of_the_memory_on():
    old = Run(1, 0, 4, 600.0, start=0.0, end=30.0)
    over = Run(2, 1, 4, 9000.0, start=100.0, end=8000.0)  # ran while the daemon was away
    memory = PastRuns().after(snapshot_of(50.0, ended=[old]))
    memory = memory.after(snapshot_of(500.0, running=[over]))
    fresh = snapshot_of(9000.0, ended=[old, over], from_accounting=True)
    assert_same(memory.after(fresh), told_by([old, over], 9000.0))
    assert_same(PastRuns().after(fresh), told_by([old, over], 9000.0))


def test_a_clock_set_back_tells_nothing_twice():
    run = Run(1, 0, 4, 9000.0, start=0.0)
    past = PastRuns().after(snapshot_of(1000.0, running=[run]))
    back = past.after(snapshot_of(500.0, running=[run]))
    assert back.time == 1000.0
    assert_same(back.after(snapshot_of(1100.0, running=[run])), told_by([run], 1100.0))


def test_running_jobs_are_known_by_what_they_had_asked_for():
    run = Run(1, 0, 1, 600.0, start=0.0)
    snapshot = snapshot_of(100.0, running=[replace(run, processors=8)])
    asked = replace(snapshot.running, requested=np.array([1]))
    past = PastRuns().after(replace(snapshot, running=asked))
    assert rows_of(past, run)[TEMPLATE] is not None
    assert asked.select(np.array([0])).as_requested.processors.tolist() == [1]


def test_tables_are_bounded_and_forget_who_was_heard_of_longest_ago(monkeypatch):
    monkeypatch.setattr(past_runs, "USERS_AT_MOST", 3)
    monkeypatch.setattr(past_runs, "LIMITS_AT_MOST", 2)
    monkeypatch.setattr(past_runs, "TEMPLATES_AT_MOST", 5)
    past = PastRuns()
    for number in range(20):
        run = Run(number, number % 4, 1 + number, 600.0, 10.0 * number, 10.0 * number + 5)
        past = past.after(snapshot_of(10.0 * number + 6, ended=[run]))
        assert len(past.users) <= 3
        assert len(past.limits) <= 2
        assert len(past.templates) <= 5
    last = [Run(number, number % 4, 1 + number, 600.0, 0.0) for number in range(20)]
    known = [rows_of(past, run)[TEMPLATE] is not None for run in last]
    assert known == [False] * 15 + [True] * 5
    assert [rows_of(past, run)[USER] is not None for run in last[16:]] == [False] + [True] * 3
    assert [rows_of(past, run)[LIMITS] is not None for run in last[16:]] == [False] * 2 + [True] * 2


def test_there_are_no_more_rows_of_requests_than_classes():
    asked = [(60.0 * 2**long, 2**wide) for long in range(20) for wide in range(20)]
    runs = [Run(n, 0, wide, limit, 0.0, 5.0) for n, (limit, wide) in enumerate(asked)]
    past = PastRuns().after(snapshot_of(10.0, ended=runs))
    assert len(past.site) == 16 * 14
    assert past.site.places(np.arange(16.0 * 14)).tolist() == list(range(16 * 14))


def test_another_memory_is_none():
    memory = np.concatenate(PastRuns(time=1.0).to_memory())
    assert PastRuns.from_memory(memory) is not None
    assert memory[0] == 5.0  # what releases have kept so far
    wrong = [memory[:-1], np.concatenate([memory, [0.0]]), np.empty(0), np.ones(4)]
    for place, value in ((0, 6.0), (-1, 1.0), (-2, -1.0), (-2, 0.5), (-1, np.nan)):
        changed = memory.copy()
        changed[place] = value
        wrong.append(changed)
    less = np.concatenate([memory, np.zeros(LINE)])
    less[2:6] = 2.0, -1.0, 0.0, 0.0  # one row in all
    half = np.concatenate([memory, np.zeros(LINE)])
    half[2:6] = 0.5, 0.5, 0.0, 0.0
    odd = np.concatenate([memory, np.zeros(1)])
    odd[2] = 1 / LINE
    assert all(PastRuns.from_memory(each) is None for each in [*wrong, less, half, odd])


@pytest.mark.parametrize(("start", "end"), [(NAN, 50.0), (10.0, NAN), (NAN, NAN)])
def test_a_run_without_times_tells_nothing(start, end):
    run = Run(1, 0, 4, 600.0, start, end)
    assert len(PastRuns().after(snapshot_of(100.0, ended=[run])).users) == 0
    running = PastRuns().after(snapshot_of(100.0, running=[run]))
    assert len(running.users) == (0 if math.isnan(start) else 1)


def test_keys_are_whole_numbers_that_stay_the_same():
    # pinned: other numbers would make every kept memory worthless without a word
    assert user_key("alice") == 2425133098651342.0
    assert user_key("alice") < 2**52
    keys = template_keys(
        np.full(3, user_key("alice")), np.array([1, 1, 2]), np.array([60, NAN, 60])
    )
    limits = limit_keys(np.full(3, user_key("alice")), np.array([60.0, 119.0, 120.0]))
    assert limits.tolist() == [3163064782610498.0, 3163064782610498.0, 1078723363704016.0]
    assert keys.tolist() == [2170028252398624.0, 3466352166927018.0, 3411501074271574.0]
    assert user_keys(("alice", "bob"), np.array([1, -1, 0, 7])).tolist() == [
        user_key("bob"), user_key(""), user_key("alice"), user_key(""),
    ]  # fmt: skip


def test_a_limit_that_is_a_bound_ends_runs_that_have_told_all():
    ten_minutes, many = BOUNDS.index(600.0), len(BOUNDS)
    assert place_of(593.0, 600.0) == ten_minutes
    # 594 to 599 s: outlives 5 minutes and would have outlived 10 but for the limit
    assert place_of(594.0, 600.0) == ten_minutes + many
    assert place_of(600.0, 600.0) == 2 * many
    # the bound of 600 s lies in the last hundredth of this limit: nothing is asked beyond it
    assert place_of(604.0, 604.0) == 2 * many


HOUR, DAY = 3600.0, 86_400.0
some_hazards = st.lists(st.floats(0.0, 1.0), min_size=len(BOUNDS), max_size=len(BOUNDS))


@pytest.mark.parametrize(
    "time_limit",
    [3.0, 10.0, 10.05, 10.2, 45.0, 600.0, 605.0, 607.0, 1000.0, HOUR, 3 * HOUR, DAY, 7 * DAY],
)
def test_means_are_those_of_the_distribution(time_limit):
    rng = np.random.default_rng(int(time_limit))
    for hazards in (*rng.random((4, len(BOUNDS))) ** 2, np.full(len(BOUNDS), 0.12)):
        parts = np.array(list(lengths(hazards, time_limit)))
        expected = parts[:, 0] @ parts[:, 1:]
        np.testing.assert_allclose(expected_run(hazards, time_limit), expected, rtol=1e-9)


def shares_of(hazards):
    shares = np.empty((SHARES, *np.shape(hazards)[1:]))
    fill_shares(shares, np.asarray(hazards, dtype=np.float64))
    return shares


@given(some_hazards)
def test_shares_never_fall_and_quantiles_never_cross(hazards):
    shares = shares_of(hazards)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert (np.diff(shares) >= 0.0).all()
    times = [run_time_at(shares, part) for part in PARTS]
    assert times == sorted(times)
    assert 1.0 <= times[0] <= times[-1] <= 10.0 ** GRID[-1] * (1 + 1e-12)


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
