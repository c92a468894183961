"""The contract of the policy port, on every policy that a live queue can be ordered by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain import PendingJobs, QueueSnapshot, RunningJobs
from slurm_rl_plugin.features.probe import probe_snapshot
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.registry import NAMED_POLICIES
from slurm_rl_plugin.services.hook import load_policy

LIVE = [each.name for each in NAMED_POLICIES.values() if not each.needs_log]
EVERY = pytest.mark.parametrize("name", [*LIVE, "reserve:4"])


@lru_cache
def policy_of(name: str) -> Policy:
    return load_policy(name).policy


def arrays_of(value: Any) -> Iterator[np.ndarray]:
    """Every column of a snapshot."""
    if isinstance(value, np.ndarray):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from arrays_of(getattr(value, each.name))


def queue(accrued: bool = False) -> QueueSnapshot:
    """Eight jobs, one without a time limit; five run, one since an unknown time."""
    seen = probe_snapshot()
    start = seen.running.start.copy()
    start[2] = np.nan
    pending = seen.pending
    if accrued:
        pending = replace(pending, accrued=np.arange(8.0) * 100.0)
    return replace(
        seen, pending=pending, running=RunningJobs.seen(seen.running.jobs, start, seen.now)
    )


def with_column(snapshot: QueueSnapshot, name: str, place: int, value: float) -> QueueSnapshot:
    jobs = snapshot.pending.jobs
    column = getattr(jobs, name).copy()
    column[place] = value
    return replace(snapshot, pending=PendingJobs.untouched(replace(jobs, **{name: column})))


@EVERY
@pytest.mark.parametrize("accrued", [False, True])
def test_every_pending_job_gets_a_finite_score(name: str, accrued: bool) -> None:
    decision = policy_of(name).decide(queue(accrued))
    assert decision.scores.shape == (8,)
    assert decision.scores.dtype == np.float64
    assert np.isfinite(decision.scores).all()
    assert decision.reserve is None or 0 <= decision.reserve <= queue().capacity
    assert len(set(decision.scores.tolist())) > 1


@EVERY
def test_an_empty_queue_and_an_idle_machine_are_decided(name: str) -> None:
    whole = queue()
    nobody = whole.pending.select(np.zeros(8, dtype=np.bool_))
    assert policy_of(name).decide(replace(whole, pending=nobody)).scores.shape == (0,)
    idle = replace(whole, running=whole.running.select(np.zeros(5, dtype=np.bool_)))
    assert np.isfinite(policy_of(name).decide(idle).scores).all()


@EVERY
def test_a_decision_changes_nothing_of_the_snapshot(name: str) -> None:
    seen, before = queue(), list(arrays_of(queue()))
    for column in arrays_of(seen):
        column.flags.writeable = False
    policy_of(name).decide(seen)
    for column, as_it_was in zip(arrays_of(seen), before, strict=True):
        np.testing.assert_array_equal(column, as_it_was)


@EVERY
def test_the_same_queue_is_answered_the_same_twice(name: str) -> None:
    first, second = (policy_of(name).decide(queue()) for _ in range(2))
    assert first.scores.tobytes() == second.scores.tobytes()
    assert first.reserve == second.reserve
    memories = [each.memory for each in (first, second)]
    assert (memories[0] is None) == (memories[1] is None)
    if memories[0] is not None:
        np.testing.assert_array_equal(*memories)
    later = [policy_of(name).decide(queue(), memory).scores for memory in memories]
    assert later[0].tobytes() == later[1].tobytes()


@EVERY
@pytest.mark.parametrize("column", ["submit", "eligible", "time_limit"])
def test_what_is_not_known_of_a_job_spoils_no_score_of_another(name: str, column: str) -> None:
    scores = policy_of(name).decide(with_column(queue(), column, 3, np.nan)).scores
    others = np.arange(8) != 3
    assert np.isfinite(scores[others]).all()
    if NAMED_POLICIES.get(name) is None or NAMED_POLICIES[name].is_rule:
        whole = policy_of(name).decide(queue()).scores
        np.testing.assert_array_equal(scores[others], whole[others])


@EVERY
def test_a_policy_is_called_by_its_name(name: str) -> None:
    assert policy_of(name).name == name
