from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.errors import ScoreInvalid
from slurm_rl_plugin.hook.rails.guard_rails import (
    FiniteScores,
    StarvationBound,
    UntouchedJobs,
)
from tests.unit.hook.queues import NOW, pending_jobs, snapshot_of

SNAPSHOT = snapshot_of(pending_jobs([1, 1, 1]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ScoreInvalid, match="1 scores that are not finite"):
        FiniteScores().check(Decision(scores=np.array([1.0, bad, 2.0])), SNAPSHOT)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_missing_and_surplus_scores_are_refused(count: int) -> None:
    with pytest.raises(ScoreInvalid, match="3 pending jobs"):
        FiniteScores().check(Decision(scores=np.zeros(count)), SNAPSHOT)


def test_jobs_past_the_starvation_bound_go_first_the_oldest_foremost() -> None:
    # job k became eligible at 10k s: at 1000 s the jobs 1 and 2 have waited over 975 s
    decision = Decision(scores=np.array([-5.0, -9.0, 100.0]))
    scores = StarvationBound(bound=975.0).check(decision, SNAPSHOT).scores
    assert np.argsort(-scores).tolist() == [0, 1, 2]


def test_the_starvation_bound_holds_beside_a_huge_score() -> None:
    decision = Decision(scores=np.array([5.0, 6.0, 1e300]))
    scores = StarvationBound(bound=975.0).check(decision, SNAPSHOT).scores
    assert np.argsort(-scores).tolist() == [0, 1, 2]


def test_the_starvation_bound_keeps_the_order_of_the_others() -> None:
    decision = Decision(scores=np.array([7.0, 2.0, 2.0]))
    scores = StarvationBound(bound=985.0).check(decision, SNAPSHOT).scores
    assert scores[0] > scores[1] == scores[2]


def of_accounts(*account: int) -> QueueSnapshot:
    """Jobs of these accounts that have waited 990 s, 980 s, 970 s and so on."""
    pending = pending_jobs([1] * len(account))
    jobs = replace(pending.jobs, account=np.array(account))
    return snapshot_of(replace(pending, jobs=jobs))


def test_a_starving_job_takes_the_best_place_of_its_account_and_of_no_other() -> None:
    snapshot = of_accounts(0, 1, 0, 1, 0)
    decision = Decision(scores=np.array([10.0, 50.0, 30.0, 40.0, 20.0]))
    scores = StarvationBound(bound=985.0).check(decision, snapshot).scores
    # job 0 alone has waited longer: account 0 has the places of 30, 20 and 10
    assert scores.tolist() == [30.0, 50.0, 20.0, 40.0, 10.0]


def test_starving_jobs_of_two_accounts_go_first_in_their_own() -> None:
    snapshot = of_accounts(0, 1, 1, 0, 1, 0)
    decision = Decision(scores=np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    scores = StarvationBound(bound=965.0).check(decision, snapshot).scores
    # jobs 0 to 2 have waited longer; account 0 has the places of 6, 4 and 1, account 1 of 5, 3, 2
    assert scores.tolist() == [6.0, 5.0, 3.0, 1.0, 2.0, 4.0]


def test_an_account_without_a_starving_job_keeps_equal_scores() -> None:
    decision = Decision(scores=np.array([1.0, 7.0, 7.0, 7.0]))
    scores = StarvationBound(bound=985.0).check(decision, of_accounts(0, 1, 1, 1)).scores
    assert scores.tolist() == [1.0, 7.0, 7.0, 7.0]


def test_nobody_is_moved_within_the_starvation_bound() -> None:
    decision = Decision(scores=np.array([1.0, 3.0, 2.0]))
    assert StarvationBound(bound=2000.0).check(decision, SNAPSHOT) is decision


def test_each_untouched_job_has_exactly_one_reason() -> None:
    pending = pending_jobs([1] * 5, held=[1, 1, 0, 0, 0], admin_set=[0, 1, 1, 0, 0])
    pending = replace(
        pending,
        held=pending.held.astype(bool),
        admin_set=pending.admin_set.astype(bool),
        jobs=replace(pending.jobs, eligible=np.array([0, 0, 0, NOW + 1, 0.0])),
    )
    untouched = UntouchedJobs()
    reasons = untouched.reasons(snapshot_of(pending))
    assert {reason: int(each.sum()) for reason, each in reasons.items()} == {
        "held": 2,
        "admin_set": 1,
        "not_eligible": 1,
        "shared": 0,
        "exempt_account": 0,
        "exempt_partition": 0,
        "exempt_qos": 0,
    }
    assert untouched.orderable(snapshot_of(pending)).tolist() == [False] * 4 + [True]


def test_exempt_qos_are_untouched() -> None:
    pending = replace(pending_jobs([1] * 3), qos=np.array([0, 1, 0]))
    snapshot = replace(snapshot_of(pending), qos=("normal", "urgent"))
    untouched = UntouchedJobs(qos=["urgent", "other"])
    assert untouched.orderable(snapshot).tolist() == [True, False, True]
    assert untouched.exempt(snapshot).tolist() == [False, True, False]


def test_exempt_accounts_and_partitions_are_untouched() -> None:
    for untouched in (UntouchedJobs(accounts=["physics"]), UntouchedJobs(partitions=["batch"])):
        assert not untouched.orderable(SNAPSHOT).any()
    assert UntouchedJobs(accounts=["other"]).orderable(SNAPSHOT).all()
