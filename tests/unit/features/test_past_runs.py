"""What runs tell: by hand, each event once at any pace of snapshots, in bounded memory."""

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.history import past_runs
from slurm_rl_plugin.features.history.job_keys import job_keys, template_keys, user_key, user_keys
from slurm_rl_plugin.features.history.past_runs import LINE, PastRuns
from slurm_rl_plugin.features.history.run_history import HISTORY, UNKNOWN
from tests.unit.features.run_tables import USERS, ReadableHistory, Run, snapshot_of, table_of

NAN = math.nan
SITE, USER, TEMPLATE = range(3)


def rows_of(past, run):
    """The rows of the site, the run's user and its template; None where there is none."""
    user, template = job_keys(USERS, table_of([run]))
    rows = [past.site]
    for table, key in ((past.users, user), (past.templates, template)):
        place = int(table.places(key)[0])
        rows.append(None if place < 0 else table.rows[place])
    return rows


def test_one_short_run_by_hand():
    run = Run(1, 0, 4, 600.0, start=1000.0, end=1030.0)
    past = PastRuns().after(snapshot_of(1100.0, ended=[run]))
    site, user, template = rows_of(past, run)
    assert past.time == 1100.0
    log_run, inverse = math.log10(31.0), 1 / 30
    # shares of runs below 60 s, 900 s and 7200 s, then log10(1 + run time): fast and slow each
    fast = [0.1 + 0.5 * 0.9, 0.4 + 0.5 * 0.6, 0.7 + 0.5 * 0.3, 3.0 + 0.5 * (log_run - 3.0)]
    slow = [0.1 + 0.1 * 0.9, 0.4 + 0.1 * 0.6, 0.7 + 0.1 * 0.3, 3.0 + 0.1 * (log_run - 3.0)]
    both = [value for pair in zip(fast, slow, strict=True) for value in pair]
    expected = [*both, 30.0, 3600.0, 0.01 + 0.1 * (inverse - 0.01), 30.0 * 4]
    np.testing.assert_allclose(user, expected, rtol=1e-12)
    np.testing.assert_array_equal(user[:-1], template[:-1])
    assert template[-1] == site[-1] == 0.0
    assert site[0] == pytest.approx(0.1 + 0.02 * 0.9)
    assert site[1] == pytest.approx(0.1 + 0.002 * 0.9)


def test_a_long_run_tells_while_it_runs_and_at_its_end():
    run = Run(1, 0, 4, 9000.0, start=0.0, end=8000.0)
    past = PastRuns().after(snapshot_of(59.0, running=[run]))
    assert rows_of(past, run)[USER] is None
    past = past.after(snapshot_of(60.0, running=[run]))
    assert rows_of(past, run)[USER][:4].tolist() == pytest.approx([0.05, 0.09, 0.4, 0.4])
    past = past.after(snapshot_of(2000.0, running=[run]))
    assert rows_of(past, run)[USER][:6].tolist() == pytest.approx([0.05, 0.09, 0.2, 0.36, 0.7, 0.7])
    past = past.after(snapshot_of(8100.0, ended=[run]))
    row = rows_of(past, run)[USER]
    assert row[:6].tolist() == pytest.approx([0.05, 0.09, 0.2, 0.36, 0.35, 0.63])
    assert row[8:10].tolist() == [8000.0, 3600.0]


def test_who_is_new_begins_with_the_row_of_the_level_above():
    first = Run(1, 0, 4, 600.0, start=0.0, end=30.0)
    second = Run(2, 0, 8, 600.0, start=40.0, end=50.0)  # the same user, another template
    third = Run(3, 1, 8, 600.0, start=60.0, end=65.0)  # another user
    past = PastRuns().after(snapshot_of(100.0, ended=[first]))
    user_before, site_before = rows_of(past, first)[USER], past.site
    past = past.after(snapshot_of(101.0, ended=[second]))
    assert rows_of(past, second)[TEMPLATE][0] == pytest.approx((user_before[0] + 1) / 2)
    assert past.site[0] > site_before[0]
    before_third = past.site
    past = past.after(snapshot_of(102.0, ended=[third]))
    assert rows_of(past, third)[USER][0] == pytest.approx((before_third[0] + 1) / 2)
    user, template = rows_of(past, third)[1:]
    np.testing.assert_array_equal(user[:-1], template[:-1])
    assert (user[-1], template[-1]) == (5.0 * 8, 0.0)  # nothing of what the first user has spent


def random_runs(rng, count, whole=True):
    start = rng.uniform(0, 40_000, count)
    length = 10 ** rng.uniform(0.0, 4.3, count)
    if whole:  # many events at the same time
        start, length = np.floor(start / 60) * 60, np.ceil(length / 60) * 60
    return [
        Run(
            int(number),
            int(rng.integers(len(USERS))),
            int(rng.integers(1, 3)),
            float(rng.choice([600.0, 3600.0, NAN])),
            float(begin),
            float(begin + run_time),
        )
        for number, begin, run_time in zip(rng.permutation(count), start, length, strict=True)
    ]


def snapshots_of(runs, times):
    """What a batch system reports at these times; each end once."""
    last = -math.inf
    for now in times:
        running = [run for run in runs if run.start <= now < run.end]
        ended = [run for run in runs if last < run.end <= now]
        yield snapshot_of(float(now), running=running, ended=ended)
        last = now


def assert_same(past, readable):
    np.testing.assert_allclose(past.site, readable.site, rtol=1e-12)
    assert len(past.users) == len(readable.users)
    assert len(past.templates) == len(readable.templates)
    for name, row in readable.users.items():
        place = past.users.places(np.array([user_key(name)]))
        np.testing.assert_allclose(past.users.rows[place[0]], row, rtol=1e-12)
    for (name, processors, limit), row in readable.templates.items():
        user = np.array([user_key(name)])
        key = template_keys(user, np.array([processors]), np.array([limit]))
        place = past.templates.places(key)
        np.testing.assert_allclose(past.templates.rows[place[0]], row, rtol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_at_any_pace_each_event_counts_once_and_in_order(seed):
    rng = np.random.default_rng(seed)
    runs = random_runs(rng, 120, whole=seed % 2 == 0)
    times = np.sort(rng.uniform(0, 60_000, [1, 3, 40, 300][seed % 4]))
    times = np.floor(times / 60) * 60 if seed % 3 == 0 else times
    past = PastRuns()
    for snapshot in snapshots_of(runs, times):
        past = past.after(snapshot)
        past = PastRuns.from_memory(past.to_memory())
    assert_same(past, ReadableHistory.of(runs, times[-1]))


def test_the_same_snapshot_again_changes_nothing_but_a_late_end_counts():
    run = Run(1, 0, 4, 9000.0, start=0.0, end=1000.0)
    past = PastRuns().after(snapshot_of(950.0, running=[run]))
    again = past.after(snapshot_of(950.0, running=[run]))
    assert again.to_memory().tobytes() == past.to_memory().tobytes()
    # at 2000 it is gone, but the batch system is asked about it at 3000 only
    unseen = past.after(snapshot_of(2000.0))
    late = unseen.after(snapshot_of(3000.0, ended=[run]))
    assert_same(late, ReadableHistory.of([run], 3000.0))


def test_runs_from_accounting_count_from_the_time_of_the_memory_on():
    old = Run(1, 0, 4, 600.0, start=0.0, end=30.0)
    over = Run(2, 1, 4, 9000.0, start=100.0, end=8000.0)  # ran while the daemon was away
    memory = PastRuns().after(snapshot_of(50.0, ended=[old]))
    memory = memory.after(snapshot_of(500.0, running=[over]))
    fresh = snapshot_of(9000.0, ended=[old, over], from_accounting=True)
    assert_same(memory.after(fresh), ReadableHistory.of([old, over], 9000.0))
    assert_same(PastRuns().after(fresh), ReadableHistory.of([old, over], 9000.0))


def test_a_clock_set_back_tells_nothing_twice():
    run = Run(1, 0, 4, 9000.0, start=0.0)
    past = PastRuns().after(snapshot_of(1000.0, running=[run]))
    back = past.after(snapshot_of(500.0, running=[run]))
    assert back.time == 1000.0
    assert_same(back.after(snapshot_of(1100.0, running=[run])), ReadableHistory.of([run], 1100.0))


def test_users_without_a_name_count_as_one():
    unknown = [Run(1, -1, 4, 600.0, 0.0, 9.0), Run(2, -1, 4, 600.0, 0.0, 99.0)]
    past = PastRuns().after(snapshot_of(100.0, ended=unknown))
    assert (len(past.users), len(past.templates)) == (1, 1)
    nobody = PastRuns().after(snapshot_of(100.0, ended=[Run(1, 3, 4, 600.0, 0.0, 9.0)], users=()))
    assert len(nobody.users) == 1


def test_running_jobs_are_known_by_what_they_had_asked_for():
    run = Run(1, 0, 1, 600.0, start=0.0)
    snapshot = snapshot_of(100.0, running=[replace(run, processors=8)])
    asked = replace(snapshot.running, requested=np.array([1]))
    past = PastRuns().after(replace(snapshot, running=asked))
    assert rows_of(past, run)[TEMPLATE] is not None
    assert asked.select(np.array([0])).as_requested.processors.tolist() == [1]


def test_tables_are_bounded_and_forget_who_was_heard_of_longest_ago(monkeypatch):
    monkeypatch.setattr(past_runs, "USERS_AT_MOST", 3)
    monkeypatch.setattr(past_runs, "TEMPLATES_AT_MOST", 5)
    past = PastRuns()
    for number in range(20):
        run = Run(number, number % 4, 1 + number, 600.0, 10.0 * number, 10.0 * number + 5)
        past = past.after(snapshot_of(10.0 * number + 6, ended=[run]))
        assert len(past.users) <= 3
        assert len(past.templates) <= 5
    last = [Run(number, number % 4, 1 + number, 600.0, 0.0) for number in range(20)]
    known = [rows_of(past, run)[TEMPLATE] is not None for run in last]
    assert known == [False] * 15 + [True] * 5
    assert [rows_of(past, run)[USER] is not None for run in last[16:]] == [False] + [True] * 3


def test_memory_keeps_every_bit():
    rng = np.random.default_rng(5)
    past = PastRuns()
    for snapshot in snapshots_of(random_runs(rng, 80, whole=False), [1e4, 2e4, 3e4]):
        past = past.after(snapshot)
    memory = past.to_memory()
    assert np.isfinite(memory).all()
    back = PastRuns.from_memory(memory)
    assert back.to_memory().tobytes() == memory.tobytes()
    assert back.users.lines.tobytes() == past.users.lines.tobytes()


def test_a_memory_of_an_older_release_is_none():
    """Version 1 knew not what runs had cost: a row had a number less, and all begins anew."""
    rows = [np.array([4.0, 50.0, *UNKNOWN[:-1]]), np.array([7.0, 50.0, *UNKNOWN[:-1]])]
    old = np.concatenate([[1.0, 50.0], UNKNOWN[:-1], [1.0, 1.0], *rows])
    assert PastRuns.from_memory(old) is None
    memory = PastRuns(time=1.0).to_memory()
    assert memory[0] == 2.0
    memory[0] = 1.0  # even where the lengths would fit
    assert PastRuns.from_memory(memory) is None


def test_another_memory_is_none():
    memory = PastRuns(time=1.0).to_memory()
    assert PastRuns.from_memory(memory) is not None
    wrong = [memory[:-1], np.concatenate([memory, [0.0]]), np.empty(0), np.ones(4)]
    for place, value in ((0, 3.0), (-1, 1.0), (-2, -1.0), (-2, 0.5), (-1, np.nan)):
        changed = memory.copy()
        changed[place] = value
        wrong.append(changed)
    half = np.concatenate([memory, np.zeros(LINE)])
    half[[-LINE - 2, -LINE - 1]] = 0.5
    odd = np.concatenate([memory, np.zeros(1)])
    odd[-2] = 1 / LINE
    assert all(PastRuns.from_memory(each) is None for each in [*wrong, half, odd])


@pytest.mark.parametrize(("start", "end"), [(NAN, 50.0), (10.0, NAN), (NAN, NAN)])
def test_a_run_without_times_tells_nothing(start, end):
    run = Run(1, 0, 4, 600.0, start, end)
    assert len(PastRuns().after(snapshot_of(100.0, ended=[run])).users) == 0
    running = PastRuns().after(snapshot_of(100.0, running=[run]))
    assert len(running.users) == (0 if math.isnan(start) else 1)


def test_nothing_is_known_at_first():
    past = PastRuns()
    assert past.site.tolist() == list(UNKNOWN)
    assert past.users.places(np.array([1.0, 2.0])).tolist() == [-1, -1]
    assert len(past.after(snapshot_of(5.0)).to_memory()) == 2 + HISTORY + 2


def test_keys_are_whole_numbers_that_stay_the_same():
    # pinned: other numbers would make every kept memory worthless without a word
    assert user_key("alice") == 2425133098651342.0
    assert user_key("alice") < 2**52
    keys = template_keys(
        np.full(3, user_key("alice")), np.array([1, 1, 2]), np.array([60, NAN, 60])
    )
    assert keys.tolist() == [2170028252398624.0, 3466352166927018.0, 3411501074271574.0]
    assert user_keys(("alice", "bob"), np.array([1, -1, 0, 7])).tolist() == [
        user_key("bob"), user_key(""), user_key("alice"), user_key(""),
    ]  # fmt: skip


def test_keys_of_many_templates_differ():
    user = np.repeat([user_key(name) for name in USERS], 50_000)
    processors = np.tile(np.repeat(np.arange(1, 501), 100), 4)
    limit = np.tile(60.0 * np.arange(1, 101), 4 * 500)
    keys = template_keys(user, processors, limit)
    assert len(np.unique(keys)) == len(keys)
    assert (keys == np.floor(keys)).all()
    assert keys.max() < 2**52
