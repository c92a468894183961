"""Attacks by dummy runs: a large job is to look short, and to pass those of others for little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.domain import Decision
from slurm_rl_plugin.features.history.run_history import request_class
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.units import FloatArray
from tests.attacks.poisoned_queue import (
    DAY,
    HOUR,
    NOW,
    Dummies,
    PoisonedQueue,
    asked_by,
    large_job,
    runs_of,
    shipped_model,
)
from tests.unit.features.run_tables import Run, snapshot_of

queue_of = cache(PoisonedQueue.drawn)
#: From the smallest large request, 1536 core-hours, to 7 days on 64 processors.
LARGE = [large_job(64, DAY), large_job(1536, HOUR), large_job(16, 7 * DAY), large_job(64, 7 * DAY)]
EVERY = pytest.mark.parametrize("job", LARGE, ids=str)


def paid_for(job: Run, part: float = 1.0) -> list[Dummies]:
    """As much as the job asks for, in runs short of two hours; then ten runs of five seconds."""
    count = int(np.ceil(part * asked_by(job) / (64 * 7000.0)))
    return [Dummies(count, part * asked_by(job) / (64 * count), 64), Dummies(10, 5.0, 1)]


def like(job: Run, count: int, run_time: float) -> Dummies:
    """Runs that ask for the same as the job."""
    return Dummies(count, run_time, job.processors, job.time_limit)


@st.composite
def attacks(draw: st.DrawFn) -> tuple[Run, list[Dummies]]:
    job = draw(st.sampled_from(LARGE))
    kinds = []
    for _ in range(draw(st.integers(1, 3))):
        run_time = draw(st.one_of(st.floats(1.0, 7000.0), st.sampled_from([1.0, 5.0, 60.0])))
        count = draw(st.one_of(st.integers(1, 20), st.integers(20, 200)))
        kinds.append(Dummies(count, run_time, draw(st.integers(1, 64))))
    return job, kinds


@given(attack=attacks(), seed=st.integers(0, 2))
@example(attack=(LARGE[0], paid_for(LARGE[0])), seed=0)
@example(attack=(LARGE[0], paid_for(LARGE[0], 0.9)), seed=0)
@settings(deadline=None, max_examples=200)
def test_a_place_costs_no_less_than_it_gains(attack: tuple[Run, list[Dummies]], seed: int) -> None:
    """By runs that ask for something else: they lift it only once it is paid for."""
    job, dummies = attack
    queue = queue_of(seed)
    if queue.scores(job, dummies)[0] > queue.scores(job)[0]:
        assert sum(kind.spent for kind in dummies) / asked_by(job) >= 1.0


@EVERY
def test_what_it_asks_for_has_to_be_spent_first(job: Run) -> None:
    """Otherwise the test above could not distinguish a rule from a model without runs."""
    queue = queue_of(0)
    before, _ = queue.scores(job)
    assert queue.scores(job, paid_for(job, 0.8))[0] <= before
    assert queue.scores(job, paid_for(job))[0] > before


def lifted_by(job: Run, users: Sequence[int]) -> float:
    """Points that a job gains by runs of a second, one after the other, that ask for the same.

    Nothing else is known of any user.
    """
    runs = [
        replace(run, user=user)
        for run, user in zip(runs_of([like(job, len(users), 1.0)]), users, strict=True)
    ]
    names = tuple(f"user{number}" for number in range(1 + max(users)))
    before, after = (
        shipped_model().decide(snapshot_of(NOW, pending=[job], ended=ended, users=names)).scores[0]
        for ended in ([], runs)
    )
    return float(after - before)


@EVERY
@pytest.mark.parametrize(("dummies", "others"), [(10, 2), (1000, 13)])
def test_dummy_runs_of_its_class_lift_a_large_job_no_more_than_a_few_runs_of_others(
    job: Run, dummies: int, others: int
) -> None:
    """A run weighs 1 / (1 + r)^2 after r runs of its user, each 0.9 of the next.

    So ten weigh 1 + 1/2^2 + 1/2.9^2 + ... = 1.6 together, and each further one up to 1/11^2 less.
    """
    mine = lifted_by(job, [job.user] * dummies)
    assert 0.0 < mine < lifted_by(job, range(1, 1 + others))


@EVERY
def test_copies_of_the_job_in_the_queue_change_nothing(job: Run) -> None:
    """As many of another user make the same queue; none of them counts for the job itself."""
    queue, policy = queue_of(0), shipped_model()
    copies = [replace(job, job_id=1000 + n) for n in range(40)]
    strangers = [replace(copy, user=1) for copy in copies]
    among_copies = queue.snapshot(job, others=copies)
    scores = policy.decide(among_copies, queue.memory).scores[: 1 + len(queue.honest)]
    others = policy.decide(queue.snapshot(job, others=strangers), queue.memory).scores
    assert scores.tolist() == others[: len(scores)].tolist()
    history = slice(-len(SITE.history_jobs), None)
    alone = policy.job_features(queue.snapshot(job), queue.memory)[0, history]
    told = policy.job_features(among_copies, queue.memory)[:, history]
    assert (told[0] == alone).all()
    assert (told[len(scores) :] == alone).all()


def test_what_was_paid_is_gone_once_a_job_has_run_for_two_hours() -> None:
    queue, policy, job = queue_of(0), shipped_model(), LARGE[0]
    paid = policy.decide(queue.snapshot(job, ended=runs_of(paid_for(job))), queue.memory).memory
    lifted = Run(2, job.user, 4, DAY, NOW - 2 * HOUR + 1.0)  # asks for something else

    def scores(now: float) -> list[float]:
        """Of a large job while the one that was lifted runs; paid for, not paid for."""
        snapshot = queue.snapshot(job, running=[lifted], now=now)
        return [float(policy.decide(snapshot, each).scores[0]) for each in (paid, queue.memory)]

    with_credit, without = scores(NOW)
    assert with_credit > without
    with_credit, without = scores(NOW + 1.0)
    assert with_credit <= without  # the paid runs now show that jobs run longer


def quantiles(decision: Decision) -> FloatArray:
    """Predictions of a decision for the pending jobs, shape [n, parts]."""
    assert decision.run_times is not None
    return decision.run_times()


@EVERY
def test_cheap_dummies_shorten_no_quantile_of_a_large_request(job: Run) -> None:
    """It would be planned as short, and pass the head of the queue."""
    queue, policy = queue_of(0), shipped_model()
    before, cheap, paid = (
        quantiles(policy.decide(queue.snapshot(job, ended=runs_of(kinds)), queue.memory))[0]
        for kinds in ([], [Dummies(10, 5.0, 1)], paid_for(job))
    )
    assert cheap.tolist() == before.tolist()
    assert paid[2] < before[2]


@given(processors=st.integers(1, 64), run_time=st.floats(1.0, 7000.0), count=st.integers(1, 200))
@settings(deadline=None, max_examples=50)
def test_dummies_that_nobody_foretold_move_no_quantile_of_another_class(
    processors: int, run_time: float, count: int
) -> None:
    """Runs between two looks, or of a time without a daemon, move no share that is asked for."""
    queue, policy, job = queue_of(0), shipped_model(), LARGE[0]
    dummies = Dummies(count, run_time, processors)
    of_class = request_class(dummies.time_limit, processors)
    limits, widths = (
        np.array([getattr(each, name) for each in queue.honest])
        for name in ("time_limit", "processors")
    )
    other = request_class(limits, widths) != of_class
    assume(not other.all())
    before, after = (
        quantiles(policy.decide(queue.snapshot(job, ended=runs_of(kinds)), queue.memory))[1:]
        for kinds in ([], [dummies])
    )
    assert after[other].tolist() == before[other].tolist()
