"""Forecasts of a live queue are kept, scored when jobs start, and bands follow."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import StartedJobs
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.forecasts.live.asked_queue import AskedJob, AskedQueue, with_job
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.site_at import no_history, site_in_log, site_now
from slurm_rl_plugin.forecasts.live.sources import PastWaits
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from tests.unit.forecasts.live_site import (
    PROCESSORS,
    FakeReplays,
    LiveSite,
    forecaster,
    looked_back,
)


@pytest.fixture(scope="module")
def experienced(site: LiveSite, now: float, tmp_path_factory: pytest.TempPathFactory) -> Forecaster:
    return looked_back(tmp_path_factory.mktemp("kept"), site, now)


def test_a_look_at_the_queue_shows_what_its_log_shows(site: LiveSite, now: float) -> None:
    """Two ways to the same site: by the daemon's look, and by the whole log."""
    snapshot = site.queue(now, now - HOUR)
    seen, row = site_now(site.history(now), snapshot, 7.0 * DAY)
    known = site_in_log(site.history(np.inf), now, 7.0 * DAY)
    for rows in ("pending", "running"):
        here, there = (each.prepared.log.select(getattr(each, rows)) for each in (seen, known))
        for column in ("submit", "processors", "user"):
            both = (np.sort(getattr(log, column)) for log in (here, there))
            np.testing.assert_array_equal(*both)
    assert len(seen.pending) >= 4
    told = seen.prepared.log.submit[seen.pending[row]]
    np.testing.assert_array_equal(told, snapshot.pending.jobs.submit)


def test_the_forest_of_a_part_of_the_history_ends_with_it(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    """Also if no past moment has to be forecast, because the service was restarted."""
    whole, snapshot = site.history(now), site.queue(now, now - HOUR)
    made = forecaster(tmp_path)
    log, made.unready = whole.log, "accounting is still being read"
    newest = log.select(log.start + log.run_time > now - 2.0 * DAY)
    made.forecast(prepare_log(newest, capacity=PROCESSORS), snapshot)
    of_newest, made.unready = made._past, ""
    made.forecast(whole, snapshot)
    assert len(made._past.seen) > len(of_newest.seen)


def test_without_a_known_run_the_limits_are_the_run_times(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    """The median is the plan by the limits; jobs that end before their limits make the band."""
    snapshot, made = site.queue(now, now - HOUR), forecaster(tmp_path)
    none = no_history(PROCESSORS, None)
    queue = made.forecast(none, snapshot)
    at, row = site_now(none, snapshot, 7.0 * DAY)
    assert (row >= 0).all()
    planned = made.source.planned(at, at.pending)
    np.testing.assert_allclose(10.0 ** queue.told.sources[:, 0], np.maximum(planned, 1.0))
    assert (queue.told.forecasts.seconds[:, 0] < planned).all()
    assert "taken to run as long as their limits" in queue.documents([0])[0]["note"]
    assert AskedQueue(forecaster=made, history=lambda: none).advice(queue, 0) == []


def test_without_a_known_run_requests_are_those_of_the_queue(site: LiveSite, now: float) -> None:
    machine = Machine(
        kinds=(NodeKind(name="n[1-2]", count=2, resources=(16.0, 0.0, 0.0)),),
        partitions=(MachinePartition(name="batch", kinds=(0,), is_default=True),),
    )
    snapshot = site.queue(now, now - HOUR)
    at, row = site_now(no_history(PROCESSORS, machine), snapshot, 7.0 * DAY)
    asked = at.prepared.log.requests
    cpus = asked.of("cpus")[at.pending[row]]
    np.testing.assert_array_equal(cpus, snapshot.pending.jobs.processors)


def test_a_start_that_is_to_come_changes_no_forecast(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    """Neither live nor in a look back: starts behind the look are moved, and all stays."""
    later = site.log.start > now
    other = LiveSite(
        log=replace(site.log, start=np.where(later, site.log.start + 5 * HOUR, site.log.start))
    )
    told = []
    for number, each in enumerate((site, other)):
        (tmp_path / str(number)).mkdir()
        made = forecaster(tmp_path / str(number))
        prepared = each.history(np.inf)
        at = site_in_log(prepared, now, 7.0 * DAY)
        draws = made.replayed(at, at.pending, 4, np.inf)
        told.append(made.joined(at, at.pending, draws).forecasts.seconds)
    np.testing.assert_array_equal(told[0], told[1])


def test_who_runs_now_ran_in_the_past_that_is_foretold_again(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    """Accounting has runs that have ended; without the others the machine was too empty."""
    run_time = site.log.run_time.copy()
    long = np.flatnonzero((site.log.start < now - 2 * DAY) & (site.log.processors == 16))[-3:]
    run_time[long] = 30 * DAY  # they run on with the others, on more than there is
    grown = LiveSite(log=replace(site.log, run_time=run_time))
    made = forecaster(tmp_path)
    made.source = watched = FakeReplays.taking(0.0)
    deque(made.look_back(grown.history(now), grown.queue(now, now)), maxlen=0)
    truth = grown.history(np.inf)
    for seen in watched.seen:
        then = site_in_log(truth, seen.now, 7.0 * DAY)
        for rows in ("running", "pending"):
            here, there = (
                each.prepared.log.processors[getattr(each, rows)].sum() for each in (seen, then)
            )
            assert here == there
    assert watched.seen[-1].prepared.log.run_time.max() > DAY
    rows = made.kept.rows(0.0)
    assert rows.known.all()
    np.testing.assert_array_equal(rows.start, grown.start_of(rows.job))


def test_what_is_told_live_is_scored_as_jobs_start(
    site: LiveSite, now: float, experienced: Forecaster
) -> None:
    last, given = now - HOUR, {}
    for look in np.arange(now, now + 12 * HOUR, 20 * MINUTE).tolist():
        queue = experienced.forecast(site.history(look), site.queue(look, last))
        last = look
        for place in np.flatnonzero(queue.place >= 0).tolist():
            assert queue.documents([place])[0]["forecast"]["start"] > look
            given.setdefault(int(queue.snapshot.pending.jobs.job_id[place]), look)
    rows = experienced.kept.rows(now)
    assert set(rows.job.tolist()) == set(given)
    started = {job for job in given if site.start_of(np.array([job]))[0] <= last}
    assert set(rows.job[rows.known].tolist()) == started
    np.testing.assert_array_equal(rows.start[rows.known], site.start_of(rows.job[rows.known]))
    assert not rows.gone.any()


def test_a_job_that_is_cancelled_is_no_outcome(site: LiveSite, now: float, tmp_path: Path) -> None:
    made = forecaster(tmp_path)
    snapshot = site.queue(now, now - HOUR)
    made.forecast(site.history(now), snapshot)
    job = int(snapshot.pending.jobs.job_id[0])
    others = snapshot.pending.select(np.arange(1, len(snapshot.pending)))
    made.settle(replace(snapshot, pending=others, now=now + 60.0))
    rows = made.kept.rows(0.0)
    assert rows.gone[rows.job == job].all()
    assert not rows.known.any()
    assert not rows.gone[rows.job != job].any()


def test_a_wait_that_the_user_made_longer_is_no_outcome(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    """Neither the queue nor accounting scores such a forecast; one that is given later counts."""
    made = forecaster(tmp_path)
    look = site.queue(now, now - HOUR)
    made.forecast(site.history(now), look)
    pending, jobs = look.pending, look.pending.jobs
    held, dependent, later, longer, wider = np.arange(len(jobs)) == np.arange(5)[:, None]
    changed = replace(
        pending,
        held=held,
        own_doing=dependent,
        jobs=replace(
            jobs,
            eligible=np.where(later, now + DAY, jobs.eligible),
            time_limit=jobs.time_limit * np.where(longer, 2.0, 1.0),
            processors=jobs.processors + wider,
        ),
    )
    made.settle(replace(look, now=now + HOUR, pending=changed))
    again = replace(look, now=now + 2 * HOUR)
    made.forecast(site.history(now), again)
    started = StartedJobs(jobs=jobs, start=np.full(len(jobs), now + 60 * HOUR))
    made.settle(replace(again, now=now + 61 * HOUR, started=started))
    made.settle_by(site.history(np.inf))
    rows = made.kept.rows(0.0)
    of_user = np.isin(rows.job, jobs.job_id[:5]) & (rows.moment == now)
    assert of_user.sum() == 5
    np.testing.assert_array_equal(rows.gone, of_user)
    np.testing.assert_array_equal(rows.known, ~of_user)
    np.testing.assert_array_equal(np.sort(rows.job[rows.moment == again.now]), jobs.job_id[:5])


def test_what_no_look_saw_start_accounting_tells(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    made = forecaster(tmp_path)
    snapshot = site.queue(now, now - HOUR)
    made.forecast(site.history(now), snapshot)
    later = now + 10.0 * DAY
    look = site.queue(later, later)
    made.settle(replace(look, running=look.running.select(np.empty(0, dtype=np.int64))))
    assert made.kept.rows(0.0).gone.any()
    made.settle_by(site.history(later))
    rows = made.kept.rows(0.0)
    ended = site.log.start + site.log.run_time <= later
    known = ended[rows.job - 1]
    assert known.any()
    np.testing.assert_array_equal(rows.known, known)
    np.testing.assert_array_equal(rows.start[known], site.start_of(rows.job[known]))


def test_held_jobs_and_those_of_their_own_doing_are_told_why(
    site: LiveSite, now: float, experienced: Forecaster
) -> None:
    snapshot = site.queue(now, now - HOUR)
    held, own, wide, later = np.arange(len(snapshot.pending)) == np.arange(4)[:, None]
    jobs = snapshot.pending.jobs
    jobs = replace(
        jobs,
        processors=jobs.processors + 10_000 * wide,
        eligible=np.where(later, now + DAY, jobs.eligible),
    )
    pending = replace(snapshot.pending, jobs=jobs, held=held, own_doing=own)
    queue = experienced.forecast(site.history(now), replace(snapshot, pending=pending))
    *why, nothing = (each["why_not"] for each in queue.documents([0, 1, 2, 3, 4]))
    for said, word in zip(why, ("held", "dependency", "never holds it", "begin time"), strict=True):
        assert word in said
    assert nothing is None


def test_the_tasks_of_an_array_all_wait(
    site: LiveSite, now: float, experienced: Forecaster
) -> None:
    snapshot = site.queue(now, now - HOUR)
    tasks = np.ones(len(snapshot.pending), dtype=np.int64)
    tasks[0] = 40
    many = replace(snapshot, pending=replace(snapshot.pending, tasks=tasks))
    assert len(site_now(site.history(now), many, DAY)[0].pending) == len(tasks) + 39
    alone = experienced.forecast(site.history(now), snapshot)
    queue = experienced.forecast(site.history(now), many)
    last = queue.place[-1]
    assert queue.told.forecasts.median[last] > alone.told.forecasts.median[alone.place[-1]]
    assert queue.ahead[-1] == alone.ahead[-1] + 39


@pytest.mark.parametrize("goes", [True, False])
def test_memory_of_a_job_that_is_not_submitted_goes_with_its_processors_where_it_says_so(
    site: LiveSite, now: float, goes: bool
) -> None:
    snapshot = site.queue(now, now - HOUR)
    jobs = snapshot.pending.jobs
    total = np.column_stack([jobs.processors, np.zeros((len(jobs), 2))]).astype(np.float64)
    requests = ResourceRequests.of_totals(total, nodes=np.ones(len(jobs), dtype=np.int64))
    known = replace(
        snapshot, pending=replace(snapshot.pending, jobs=replace(jobs, requests=requests))
    )
    words = {"processors": 6, "memory": 12000.0, "gpus": 2, "memory_per_cpu": goes}
    asked = with_job(known, AskedJob.of_document(words)).pending.jobs.requests
    assert asked.total[-1].tolist() == [6, 12000, 2]
    assert asked.memory_per_cpu.tolist() == [False] * len(jobs) + [goes]


def test_what_past_waits_taught_outlives_another_numbering(site: LiveSite, now: float) -> None:
    """A new account moves the numbers of all behind it; names stay."""
    at = site_in_log(site.history(np.inf), now, 7.0 * DAY)
    log = at.prepared.log
    moved = replace(
        log,
        account=log.account + 1,
        accounts=("astronomy", *log.accounts),
        partition=log.partition + 1,
        partitions=("any", *log.partitions),
    )
    other = replace(at, prepared=replace(at.prepared, log=moved))
    past = PastWaits.of_site(at, np.random.default_rng(1))
    told, told_other = past.forecasts(at), past.forecasts(other)
    np.testing.assert_array_equal(told.seconds, told_other.seconds)
