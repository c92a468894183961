"""What a log's own schedule tells at submissions, at starts and before windows; no more."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.history.run_prediction import KNOWN_FACTS, ROW_FACTS, USER_FACTS
from slurm_rl_plugin.learning.load_windows import log_windows
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import (
    known_at_start,
    recent_runs,
    windows_with_past,
)
from tests.reference.loads import log_of, requests_of, users_workload
from tests.reference.readable_past_runs import Rows, rows_at

USER_KNOWN, TEMPLATE_KNOWN = KNOWN_FACTS - 2, KNOWN_FACTS - 1


def hand_log(*jobs, users):
    """Jobs of (user, submit, start, run time, time limit), one processor each."""
    user, submit, start, run_time, limit = (np.array(each) for each in zip(*jobs, strict=True))
    workload = users_workload(1, jobs=len(jobs), parallel=False)._replace(
        submit=submit.astype(float),
        run_time=run_time.astype(float),
        account=np.zeros(len(jobs), dtype=np.int64),
        shares=np.ones(1),
    )
    log = log_of(workload, time_limit=limit.astype(float))
    return prepare_log(
        replace(log, start=start.astype(float), user=user, users=tuple("abcdef"[:users]))
    )


#: User 0 runs twice and asks the same; user 1 comes later. Times by hand below.
HAND = hand_log(
    (0, 0, 0, 100, 600),
    (0, 10, 50, 1000, 600),
    (1, 60, 60, 20, 300),
    (0, 70, 100, 30, 600),
    (1, 80, 130, 5000, 300),
    (0, 130, 1050, 40, 900),
    users=2,
)


def test_what_is_known_at_each_start_by_hand():
    facts = known_at_start(HAND)
    # job 0 outlives 60 s at 60, job 2 ends at 80, job 0 at 100, job 1 outlives 60 s at 110, job 3
    # ends at 130, job 4 outlives 60 s at 190, job 1 outlives 900 s at 950 and ends at 1050
    assert facts[:, 0].tolist() == [1.0] * 6
    assert facts[:, USER_KNOWN].tolist() == [0, 0, 0, 1, 1, 1]
    assert facts[:, TEMPLATE_KNOWN].tolist() == [0, 0, 0, 1, 1, 0]
    # at 60 job 0 has just outlived 60 s: known of the site, in whose row that counts by .02
    below_a_minute = np.array([0.1, 0.1, 0.1 * 0.98])
    assert facts[:3, USER_FACTS].tolist() == pytest.approx(odds(below_a_minute) / 5)
    # job 3 starts at 100, when job 0 ends: known; job 2 of the other user ended before
    assert facts[3, USER_FACTS + 6] == pytest.approx((3 + 0.5 * (np.log10(101) - 3)) / 6)
    # job 5 starts when job 1 ends: three runs of its user are known, of another template
    fast = 3.0
    for run_time in (100, 30, 1000):
        fast += 0.5 * (np.log10(1.0 + run_time) - fast)
    assert facts[5, USER_FACTS + 6] == pytest.approx(fast / 6)
    user, template = facts[5, USER_FACTS:USER_KNOWN].reshape(2, ROW_FACTS)
    assert user.tolist() == template.tolist()


def odds(share):
    return np.log((share + 0.01) / (1.01 - share))


def test_recent_runs_by_hand():
    told = recent_runs(HAND)
    # nobody's run has ended at 0, 10, 60 and 70, though one has outlived a minute; at 80 one run of
    # 20 s of user 1 has just ended, at 130 the last of user 0 took 100 s and 30 s
    assert told.predicted.tolist() == [600, 600, 300, 600, 20, 65]
    slow = 0.01  # user 0 was met at 60, before any end
    for run_time in (100, 30):
        slow += 0.1 * (1 / run_time - slow)
    assert told.rate.tolist() == pytest.approx(
        [1 / 600, 1 / 600, 1 / 300, 1 / 600, 0.01 + 0.1 * (1 / 20 - 0.01), slow]
    )


def test_recent_runs_never_exceed_the_request_and_never_fall_below_a_second():
    log = hand_log((0, 0, 0, 500, 600), (0, 500, 500, 0.2, 50), (0, 501, 501, 0.2, 50), users=1)
    assert recent_runs(log).predicted.tolist() == [600, 50, 50]
    quick = hand_log(*((0, t, t, 0.25, 50) for t in range(3)), users=1)
    assert recent_runs(quick).predicted.tolist() == [50, 1, 1]


def test_a_job_without_recorded_start_counts_from_its_submission():
    started = hand_log((0, 0, 0, 100, 600), (0, 100, 100, 9, 600), users=1)
    unknown = hand_log((0, 0, np.nan, 100, 600), (0, 100, np.nan, 9, 600), users=1)
    assert known_at_start(unknown).tolist() == known_at_start(started).tolist()
    assert recent_runs(unknown).predicted.tolist() == [600, 100]


@pytest.mark.parametrize(("submit", "known"), [(100.0, False), (100.5, True)])
def test_a_window_knows_what_happened_strictly_before_its_first_submission(submit, known):
    log = hand_log((0, 0, 0, 100, 600), (0, submit, submit, 9, 600), users=1)
    (window,) = windows_with_past(log, [1], 1)
    assert (window.past.users[0, 8] == 100.0) == known
    assert window.past.user_known.all()  # it has outlived a minute at 60


def random_log(seed, jobs=60):
    """A log with starts of its own, ties included."""
    workload = users_workload(seed, jobs=jobs, parallel=True)
    rng = np.random.default_rng(seed)
    asked = np.where(workload.time_limit == workload.estimate, np.nan, workload.time_limit)
    log = log_of(workload, time_limit=asked)
    start = workload.submit + rng.choice([0.0, 0.0, 60.0, 5000.0], jobs)
    return prepare_log(replace(log, start=start, user=workload.past.user, users=("a", "b", "c")))


def same_rows(past, rows, prepared, jobs):
    """The rows of a window are those of the jobs' users and templates, found in plain Python."""
    whole = prepared.past
    assert past.site.tolist() == pytest.approx(rows.site.numbers(), rel=1e-12)
    for numbers, here, table, known, there in (
        (whole.user[jobs], past.user, past.users, past.user_known, rows.users),
        (whole.template[jobs], past.template, past.templates, past.template_known, rows.templates),
    ):
        assert len(table) == len(set(numbers.tolist()))
        for number, place in zip(numbers.tolist(), here.tolist(), strict=True):
            assert known[place] == (number in there)
            if known[place]:
                expected = there[number].numbers()
                assert table[place].tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_windows_know_what_a_replay_from_scratch_tells(seed):
    prepared = random_log(seed)
    log = prepared.log
    requests = requests_of(prepared.workload(None))
    firsts = [21, 0, 3, 45, 4, 20]  # a later window must not tell an earlier one
    for first, window in zip(firsts, log_windows(prepared, firsts, 15), strict=True):
        jobs = np.arange(first, first + 15)
        until = float(np.nextafter(log.submit[first], -np.inf))
        rows = rows_at(requests, log.start.tolist(), log.run_time.tolist(), until)
        same_rows(window.past, rows, prepared, jobs)
        (alone,) = windows_with_past(prepared, [first], 15)
        for one, other in zip(alone.past, window.past, strict=True):
            assert one.tolist() == other.tolist()
    assert not prepared.past.user_known.any()  # the log itself is left alone


@pytest.mark.parametrize("seed", [4, 5])
def test_facts_at_starts_are_those_of_a_replay_from_scratch(seed):
    prepared = random_log(seed)
    log = prepared.log
    requests = requests_of(prepared.workload(None))
    facts = known_at_start(prepared)
    for job, begin in enumerate(log.start.tolist()):
        rows: Rows = rows_at(requests, log.start.tolist(), log.run_time.tolist(), begin)
        assert facts[job].tolist() == pytest.approx(rows.facts(requests[job]), rel=1e-12)


def test_a_log_has_no_window_beyond_its_end():
    with pytest.raises(ConfigurationError, match="has no window"):
        log_windows(random_log(1), [0, 50], 15)
    (empty,) = log_windows(random_log(1), [60], 0)
    assert len(empty.log) == len(empty.past.users) == 0
