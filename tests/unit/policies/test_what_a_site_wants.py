"""What a model is told of the longest wait, which its memory keeps, and of a site's goals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import Memory, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.history.run_events import ARRIVAL_MEMORY
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.policies.q_network import QNetworkPolicy, load_q_network
from slurm_rl_plugin.policies.registry import rule_policy
from tests.functional.small_network import small_network
from tests.unit.hook.queues import job_table, snapshot_of

HOUR, DAY = 3600.0, 86_400.0
NOW = 1e8


@pytest.fixture
def policy(tmp_path: Path) -> QNetworkPolicy:
    export_network(small_network(), tmp_path / "model.onnx", {})
    return load_q_network(tmp_path / "model.onnx")


def waiting(*hours: float, now: float = NOW, **columns: np.ndarray) -> QueueSnapshot:
    """A queue of jobs that have waited so many hours."""
    came = now - HOUR * np.array(hours)
    jobs = replace(job_table(len(hours)), submit=came, eligible=came)
    return snapshot_of(replace(PendingJobs.untouched(jobs), **columns), now)


def longest_of(memory: Memory | None) -> float:
    assert memory is not None
    return float(memory[ARRIVAL_MEMORY])


def told(policy: QNetworkPolicy, name: str, snapshot: QueueSnapshot, memory: Memory | None = None):
    """One feature of the pending jobs."""
    return policy.job_features(snapshot, memory)[:, policy.schema.jobs.index(name)].tolist()


def test_the_memory_keeps_the_longest_wait_and_half_of_it_after_30_days(
    policy: QNetworkPolicy,
) -> None:
    first = policy.decide(waiting(2.0, 10.0, 3.0))
    assert longest_of(first.memory) == 10 * HOUR
    later = policy.decide(waiting(now=NOW + 30 * DAY), first.memory)
    assert longest_of(later.memory) == pytest.approx(5 * HOUR)
    last = policy.decide(waiting(4.0, now=NOW + 60 * DAY), later.memory)
    assert longest_of(last.memory) == pytest.approx(4 * HOUR)  # 2.5 hours of what was are left


def test_a_lifted_wait_counts_more_and_the_memory_keeps_the_true_one(
    policy: QNetworkPolicy,
) -> None:
    lifted = waiting(4.0, 12.0, wait_counts=np.array([2.0, 1.0]))
    # of four hours, after which waits are told apart: ln(1 + 8 / 4) and ln(1 + 12 / 4)
    assert told(policy, "log_age", lifted) == pytest.approx(np.log([3.0, 4.0]))
    assert longest_of(policy.decide(lifted).memory) == 12 * HOUR


@pytest.mark.parametrize("name", ["fifo", "multifactor"])
def test_rules_count_a_lifted_wait_more(name: str) -> None:
    rule = rule_policy(name)
    assert np.argmax(rule.decide(waiting(4.0, 7.0)).scores) == 1
    lifted = waiting(4.0, 7.0, wait_counts=np.array([2.0, 1.0]))
    assert np.argmax(rule.decide(lifted).scores) == 0


def test_a_job_is_overdue_by_the_longest_wait_that_is_remembered(policy: QNetworkPolicy) -> None:
    memory = policy.decide(waiting(10.0)).memory
    later = waiting(6.0, 4.0, now=NOW + 30 * DAY)
    # of ten hours five are left, so the six of now are the longest: half is three
    assert told(policy, "overdue", later, memory) == pytest.approx(np.log([2.0, 4 / 3]))
    soon = waiting(6.0, 4.0)
    assert told(policy, "overdue", soon, memory) == pytest.approx([np.log(6 / 5), 0.0])
    assert told(policy, "overdue", soon) == pytest.approx(np.log([2.0, 4 / 3]))


@pytest.mark.parametrize(
    "columns",
    [{"held": np.array([True, False])}, {"own_doing": np.array([True, False])}],
    ids=["held", "own doing"],
)
def test_a_job_that_does_not_wait_for_the_machine_is_not_the_longest(
    policy: QNetworkPolicy, columns: dict[str, np.ndarray]
) -> None:
    assert longest_of(policy.decide(waiting(100.0, 2.0, **columns)).memory) == 2 * HOUR


def test_the_longest_wait_is_one_that_the_batch_system_counts(policy: QNetworkPolicy) -> None:
    banked = waiting(100.0, 2.0, accrued=np.array([HOUR, 2 * HOUR]))
    assert longest_of(policy.decide(banked).memory) == 2 * HOUR


def test_a_job_without_times_spoils_nothing_of_the_others(policy: QNetworkPolicy) -> None:
    decision = policy.decide(waiting(np.nan, 2.0))
    assert longest_of(decision.memory) == 2 * HOUR


def test_a_clock_that_was_ahead_leaves_no_long_wait(policy: QNetworkPolicy) -> None:
    right = policy.decide(waiting(2.0))
    ahead = 87_600 * HOUR
    wrong = policy.decide(waiting(2.0 + ahead / HOUR, now=NOW + ahead), right.memory)
    assert longest_of(wrong.memory) == 2 * HOUR + ahead
    again = policy.decide(waiting(2.0), wrong.memory)
    assert longest_of(again.memory) == pytest.approx(2 * HOUR)


def test_a_model_without_the_memory_begins_anew(policy: QNetworkPolicy) -> None:
    memory = policy.decide(waiting(10.0)).memory
    assert memory is not None
    assert longest_of(policy.decide(waiting(2.0), memory[:-1]).memory) == 2 * HOUR
    assert longest_of(policy.decide(waiting(2.0), np.empty(0)).memory) == 2 * HOUR


def of_accounts(*shares: float) -> QueueSnapshot:
    """A job of the first account, which has used twice its share, and one of the second."""
    snapshot = waiting(1.0, 1.0)
    jobs = replace(snapshot.pending.jobs, account=np.array([0, 1]))
    usage = 2 * shares[0]
    return replace(
        snapshot,
        pending=PendingJobs.untouched(jobs),
        accounts=("physics", "biology"),
        shares=np.array(shares),
        usage=np.array([usage, 1 - usage]),
    )


def test_shares_count_by_themselves_where_they_are_configured(policy: QNetworkPolicy) -> None:
    points = told(policy, "share_points", of_accounts(0.25, 0.75))
    assert points == pytest.approx([16.0, 16.0 * np.log2(0.5 / 0.75)])  # 16 points a doubling
    # equal shares are what every account gets that nobody gave any
    assert told(policy, "share_points", of_accounts(0.5, 0.5)) == [0.0, 0.0]


def test_wide_jobs_count_as_the_site_says(policy: QNetworkPolicy) -> None:
    snapshot = waiting(1.0)
    jobs = replace(snapshot.pending.jobs, processors=np.array([4]))
    wide = replace(snapshot, pending=PendingJobs.untouched(jobs))
    assert told(policy, "log_size", wide) == pytest.approx([np.log(4)])
    wants = replace(policy, goals=Goals(wide_jobs=3.0))
    assert told(wants, "log_size", wide) == pytest.approx([3 * np.log(4)])
    assert wants.decide(wide).scores.tolist() != policy.decide(wide).scores.tolist()


def test_shares_count_as_the_site_says(policy: QNetworkPolicy) -> None:
    unequal, equal = of_accounts(0.25, 0.75), of_accounts(0.3, 0.3)
    none = replace(policy, goals=Goals(shares=0.0))
    assert told(none, "share_points", unequal) == [0.0, 0.0]
    two = replace(policy, goals=Goals(shares=2.0))
    assert told(two, "share_points", unequal)[0] == pytest.approx(2.0)
    assert told(two, "share_points", equal)[0] == pytest.approx(2.0)
