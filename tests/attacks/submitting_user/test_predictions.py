"""Attacks by dummy runs: a large job is to look short, and to pass those of others for little."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.domain import Decision
from slurm_rl_plugin.features.history import columns as history_columns
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
from tests.unit.features.run_tables import Run

queue_of = cache(PoisonedQueue.drawn)
#: From the smallest large request, 1536 core-hours, to 7 days on 64 processors.
LARGE = [large_job(64, DAY), large_job(1536, HOUR), large_job(16, 7 * DAY), large_job(64, 7 * DAY)]
#: Dummy runs in tens: a short one is judged by the last two and by the last twenty.
SHORT_RUNS = [
    Dummies(count, run_time, processors)
    for count in (1, 2, 10, 50)
    for run_time in (1.0, 5.0, 59.0, 61.0, 899.0)
    for processors in (1, 16)
]


def paid_for(job: Run, part: float = 1.0) -> list[Dummies]:
    """As much as the job asks for, in runs short of two hours; then ten runs of five seconds."""
    count = int(np.ceil(part * asked_by(job) / (64 * 7000.0)))
    like_the_job = Dummies(10, 5.0, job.processors, job.time_limit)
    return [Dummies(count, part * asked_by(job) / (64 * count), 64), like_the_job]


@st.composite
def attacks(draw: st.DrawFn) -> tuple[Run, list[Dummies]]:
    job = draw(st.sampled_from(LARGE))
    kinds = []
    for _ in range(draw(st.integers(1, 3))):
        run_time = draw(st.one_of(st.floats(1.0, 7000.0), st.sampled_from([1.0, 5.0, 60.0])))
        count = draw(st.one_of(st.integers(1, 20), st.integers(20, 200)))
        same = draw(st.booleans())
        processors = job.processors if same else draw(st.integers(1, 64))
        kinds.append(Dummies(count, run_time, processors, job.time_limit if same else HOUR))
    return job, kinds


@given(attack=attacks(), seed=st.integers(0, 2))
@example(attack=(LARGE[0], paid_for(LARGE[0])), seed=0)
@example(attack=(LARGE[0], paid_for(LARGE[0], 0.9)), seed=0)
@settings(deadline=None, max_examples=200)
def test_a_place_costs_no_less_than_it_gains(attack: tuple[Run, list[Dummies]], seed: int) -> None:
    job, dummies = attack
    queue = queue_of(seed)
    if queue.ahead(job, dummies) < queue.ahead(job):
        assert sum(kind.spent for kind in dummies) / asked_by(job) >= 1.0


@pytest.mark.parametrize("job", LARGE, ids=str)
def test_cheap_dummies_change_nothing_at_all(job: Run) -> None:
    queue = queue_of(0)
    own, honest = queue.scores(job)
    for short in SHORT_RUNS:
        alike = short._replace(processors=job.processors, time_limit=job.time_limit)
        for kind in (short, alike):
            if kind.spent < asked_by(job):
                after, others = queue.scores(job, [kind])
                assert after == own
                assert others.tolist() == honest.tolist()  # all of whose users runs are known


@pytest.mark.parametrize("job", LARGE, ids=str)
def test_what_it_asks_for_has_to_be_spent_first(job: Run) -> None:
    """Else the tests above could not tell a rule from a model that looks at no runs."""
    queue = queue_of(0)
    before = queue.ahead(job)
    assert queue.ahead(job, paid_for(job, 0.8)) == before
    assert queue.ahead(job, paid_for(job)) < before


def test_without_the_rule_a_few_seconds_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_columns, "speaks_for", lambda spent, *_: spent >= 0.0)
    for job in LARGE:
        dummies = [Dummies(10, 5.0, job.processors, job.time_limit)]
        assert queue_of(0).ahead(job, dummies) < queue_of(0).ahead(job)
        assert dummies[0].spent < 0.02 * asked_by(job)


@pytest.mark.parametrize("job", LARGE, ids=str)
def test_copies_of_the_job_in_the_queue_change_nothing(job: Run) -> None:
    """As many of somebody else's make the same queue; none of it is told of the job itself."""
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
    lifted = Run(2, job.user, job.processors, job.time_limit, NOW - 2 * HOUR + 1.0)

    def scores(now: float) -> list[float]:
        """Of the next such job while the one that was lifted runs; paid for, not paid for."""
        snapshot = queue.snapshot(job, running=[lifted], now=now)
        return [float(policy.decide(snapshot, each).scores[0]) for each in (paid, queue.memory)]

    with_credit, without = scores(NOW)
    assert with_credit > without
    with_credit, without = scores(NOW + 1.0)
    assert with_credit == without


def test_small_requests_go_on_learning_from_runs() -> None:
    small = replace(LARGE[0], processors=4, time_limit=4 * HOUR)
    queue = queue_of(0)
    short, long = Dummies(10, 5.0, 4, 4 * HOUR), Dummies(10, 7000.0, 4, 4 * HOUR)
    nothing, quick, slow = (queue.ahead(small, kinds) for kinds in ([], [short], [long]))
    assert quick < nothing
    assert slow > quick


def quantiles(decision: Decision) -> FloatArray:
    """What a decision foretells of the pending jobs, shape [n, parts]."""
    assert decision.run_times is not None
    return decision.run_times()


@pytest.mark.parametrize("job", LARGE, ids=str)
def test_cheap_dummies_shorten_no_quantile_of_a_large_request(job: Run) -> None:
    """It would be planned as short, and pass the head of the queue."""
    queue, policy = queue_of(0), shipped_model()
    alike = Dummies(10, 5.0, job.processors, job.time_limit)
    told = quantiles(policy.decide(queue.snapshot(job, ended=runs_of([alike])), queue.memory))
    assert told[0].tolist() == [job.time_limit] * told.shape[1]
    runs = runs_of(paid_for(job))
    paid = quantiles(policy.decide(queue.snapshot(job, ended=runs), queue.memory))
    assert paid[0, 0] < job.time_limit


def test_dummies_that_nobody_foretold_move_no_quantile_of_others() -> None:
    """Runs between two looks, or of a time that nobody watched, teach nothing."""
    queue, policy, job = queue_of(0), shipped_model(), LARGE[0]
    dummies = runs_of([Dummies(200, 1.0, 1)])
    before = quantiles(policy.decide(queue.snapshot(job), queue.memory))
    after = quantiles(policy.decide(queue.snapshot(job, ended=dummies), queue.memory))
    assert after[1:].tolist() == before[1:].tolist()
