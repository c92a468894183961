"""Past runs speak for a large request only where they have cost as much; by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.history.columns import history_columns
from slurm_rl_plugin.features.history.job_keys import user_key
from slurm_rl_plugin.features.history.past_runs import HistoryTable, PastRuns
from slurm_rl_plugin.features.history.run_history import (
    SPENT,
)
from slurm_rl_plugin.features.site import SITE
from tests.unit.features.run_tables import USERS, Run, snapshot_of

ANN, BOB = 0, 1
DAY = 86_400.0
#: A day on 64 processors: 5,529,600 core-seconds.
LARGE = Run(1000, ANN, 64, DAY, 0.0)
#: Of another class: a minute on one processor.
SMALL = Run(1001, ANN, 1, 60.0, 0.0)


def spent_by(past, user):
    place = past.users.places(np.array([user_key(USERS[user])]))
    return float(past.users.rows[place[0], SPENT])


def told_of(pending, past):
    """The history columns of some pending jobs."""
    return history_columns(snapshot_of(past.time, pending=pending), past)


def by_class(past):
    """What is known if no run has told of a user or a template."""
    nothing = HistoryTable.empty()
    return replace(past, users=nothing, limits=nothing, templates=nothing)


def after(*ended, now=1e6):
    return PastRuns().after(snapshot_of(now, ended=list(ended)))


def test_who_outlives_two_hours_loses_all_while_he_runs_and_gains_nothing_at_the_end():
    dummy = Run(1, ANN, 100, 7200.0, start=0.0, end=7000.0)
    long = Run(2, ANN, 1, 9000.0, start=1000.0, end=8300.0)
    past = PastRuns().after(snapshot_of(8199.0, ended=[dummy], running=[long]))
    assert spent_by(past, ANN) == 700_000.0
    past = past.after(snapshot_of(8200.0, running=[long]))
    assert spent_by(past, ANN) == 0.0
    after_it = Run(3, ANN, 1, 9000.0, start=8210.0, end=8220.0)
    past = past.after(snapshot_of(8250.0, ended=[after_it], running=[long]))
    past = past.after(snapshot_of(8310.0, ended=[long]))
    assert spent_by(past, ANN) == 0.0


def test_nobody_inherits_what_another_has_spent():
    paid = Run(1, ANN, 1000, 7000.0, start=0.0, end=7000.0)
    first = Run(2, BOB, 8, DAY, start=7001.0, end=7003.0)
    past = after(paid, first)
    assert (spent_by(past, ANN), spent_by(past, BOB)) == (7e6, 16.0)
    assert not past.site.rows[:, SPENT].any()
    for user in (BOB, 2):  # one who has run and one who has not
        large = Run(9, user, 64, DAY, 0.0)
        np.testing.assert_array_equal(told_of([large], past), told_of([large], PastRuns(time=1e6)))


def test_a_large_request_without_a_paid_past_is_judged_by_its_class_alone():
    """By runs of others that asked for as much; of its own user's other runs it learns nothing."""
    others = [Run(n, BOB, 64, DAY, 10.0 * n, 10.0 * n + 900.0) for n in range(50)]
    dummies = [Run(100 + n, ANN, 1, 60.0, 10.0 * n, 10.0 * n + 5) for n in range(50)]
    expected = told_of([LARGE], after(*others))
    np.testing.assert_array_equal(told_of([LARGE], after(*others, *dummies)), expected)
    nobody = told_of([LARGE], PastRuns(time=1e6))
    length = SITE.history_jobs.index("log_run_time")
    assert expected[0, length] != nobody[0, length]
    # the dummies do tell of a small request of the same user
    assert (told_of([SMALL], after(*dummies)) != told_of([SMALL], by_class(after(*dummies)))).any()


@pytest.mark.parametrize(
    ("processors", "limit", "learns"),
    [(64, DAY - 1.0, True), (64, DAY, False), (31, math.nan, True), (32, math.nan, False)],
)
def test_only_a_smaller_request_goes_on_learning(processors, limit, learns):
    """A request without a time limit asks for two days: on 32 processors it is a large one."""
    request = Run(1000, ANN, processors, limit, 0.0)
    dummies = [Run(n, ANN, processors, limit, 10.0 * n, 10.0 * n + 5) for n in range(10)]
    past = after(*dummies)
    assert (told_of([request], past) != told_of([request], by_class(past))).any() == learns
