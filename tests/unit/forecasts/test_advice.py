"""Questions that play the queue forward, and what is advised."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.limits import (
    KILLED as KILLED_IN_ALL,
)
from slurm_rl_plugin.forecasts.limits import (
    LimitRule,
    RunsAlike,
    chosen_rule,
    killed_at_most,
    limits_report,
    runs_alike,
)
from slurm_rl_plugin.forecasts.live.asked_queue import (
    KILLED,
    QUESTION_SECONDS,
    AskedJob,
    AskedQueue,
    advice_for,
    variants_of,
)
from slurm_rl_plugin.forecasts.live.forecast_queue import ForecastQueue
from slurm_rl_plugin.forecasts.live.sources import rule_order
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from tests.case_files import rows
from tests.unit.forecasts.live_site import (
    FakeReplays,
    LiveSite,
    forecaster,
    last_days,
    live_site,
)

RUNS = np.linspace(0.5 * HOUR, 1.0 * HOUR, 1000)


def asked_queue(
    folder: Path, site: LiveSite, now: float, took: float
) -> tuple[AskedQueue, ForecastQueue, FakeReplays]:
    """What answers, the forecast of its queue, and the replays that it uses."""
    history, made = site.history(now), forecaster(folder)
    queue = made.forecast(history, site.queue(now, now - HOUR))
    made.source = replays = FakeReplays.taking(took)
    made.monotonic = replays.clock
    return AskedQueue(forecaster=made, history=lambda: history), queue, replays


REQUEST: dict[str, Any] = {
    "user": "ann",
    "account": "physics",
    "processors": 16,
    "time_limit": 32 * HOUR,
    "advice": True,
}


@pytest.mark.parametrize(("took", "speaks"), [(0.01, True), (0.7, True), (3.0, False), (30, False)])
def test_all_replays_of_a_question_have_one_time(
    site: LiveSite, now: float, tmp_path: Path, took: float, speaks: bool
) -> None:
    """Whatever one takes, the question ends, but for a replay that is under way.

    A slow queue has fewer draws; nothing is said of too few.
    """
    asked, queue, source = asked_queue(tmp_path, site, now, took)
    job = asked.new_job(queue, REQUEST)["jobs"][0]
    assert job["forecast"]["start"] > now
    assert [each["sooner"] > 0.0 for each in job["advice"]] == [True] * len(job["advice"])
    assert bool(job["advice"]) == speaks
    assert source.clock.now <= max(QUESTION_SECONDS, took) + took
    before = source.clock.now
    asked.advice(queue, 0)
    assert source.clock.now - before <= max(QUESTION_SECONDS, took) + took


@pytest.mark.parametrize("rule", ["fifo", "sjf"])
def test_a_job_that_is_not_submitted_stands_where_the_order_puts_it(
    site: LiveSite, now: float, tmp_path: Path, rule: str
) -> None:
    """It has no priority yet, and not everybody goes first."""
    asked, queue, source = asked_queue(tmp_path, site, now, 1.0)
    asked.forecaster.source = replace(source, order=rule_order(rule))
    waiting = queue.snapshot.pending.jobs
    found = {}
    for limit in (60.0, 5.0 * HOUR, 300.0 * HOUR):
        request = {**REQUEST, "time_limit": limit, "advice": False}
        job = asked.new_job(queue, request)["jobs"][0]
        before = waiting.time_limit <= limit if rule == "sjf" else np.ones(len(waiting), np.bool_)
        physics = waiting.account == queue.snapshot.accounts.index("physics")
        assert job["ahead"] == before.sum()
        assert job["ahead_of_account"] == (before & physics).sum()
        found[limit] = job["ahead"]
    assert found[60.0] == (0 if rule == "sjf" else len(waiting))


def test_whose_jobs_are_of_an_account_is_seen_wherever_they_are(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    _, queue, _ = asked_queue(tmp_path, site, now, 1.0)
    look = queue.snapshot
    nobody = np.empty(0, dtype=np.int64)
    running = look.running.jobs
    user, account = look.users[running.user[0]], look.accounts[running.account[0]]
    alone = replace(queue, snapshot=replace(look, pending=look.pending.select(nobody)))
    assert alone.has_job_of(user, account)
    assert not alone.has_job_of("eve", account)
    assert not alone.has_job_of(user, "chemistry")


@pytest.mark.parametrize("text", ["1" + "0" * 400, "-1" + "0" * 400, "1e999", "NaN", "true", '"4"'])
@pytest.mark.parametrize("name", ["processors", "nodes", "time_limit", "memory", "gpus"])
def test_what_is_no_number_within_bounds_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(RequestRefused, match=rf"^{name} is no number from") as refused:
        AskedJob.of_document(json.loads(f'{{"{name}": {text}}}'))
    assert refused.value.status.startswith("400")


@rows("questions", "half", "case")
def test_on_half_of_the_processors_a_job_runs_twice_as_long(case: list[Any]) -> None:
    limit, processors, *expected = case
    found = variants_of(limit * HOUR, processors, RUNS)
    half = [each for each in found if "processors" in each.asks]
    assert len(half) == bool(expected)
    for each, (asks, (least, most), words) in zip(half, [expected], strict=False):
        hours = {"processors": 1.0, "time_limit": HOUR}
        assert each.asks == pytest.approx({name: asks[name] * hours[name] for name in asks})
        assert least <= each.killed <= most <= KILLED
        assert each.words.endswith(words)


@pytest.mark.parametrize(("sooner", "said"), [(5.0 * HOUR, True), (0.5 * HOUR, False)])
def test_fewer_processors_are_advised_where_the_job_ends_sooner(sooner: float, said: bool) -> None:
    """It runs up to an hour longer: half an hour at its start is none gained at its end."""
    site = live_site(days=6.0)
    now = float(last_days(site, 1.0, HOUR)[0])
    while len((queue := site.queue(now, now)).pending) == 0:
        now += HOUR
    jobs = queue.pending.jobs
    jobs.processors[0], jobs.time_limit[0] = 8, DAY

    def waits(other: QueueSnapshot) -> FloatArray:
        fewer = other.pending.jobs.processors[0] == 4
        return np.full(20, 6.0 * HOUR - sooner * fewer)

    advice = advice_for(queue, 0, RUNS, np.full(20, 6.0 * HOUR), waits)
    assert [each["asks"] for each in advice] == ([{"processors": 4.0}] if said else [])


def log_of(run_time: np.ndarray, user: np.ndarray, *, limit: float = 10 * HOUR) -> JobLog:
    """Jobs an hour apart that start at once."""
    count = len(run_time)
    submit = HOUR * np.arange(count, dtype=np.float64)
    return JobLog(
        job_id=np.arange(1, count + 1),
        submit=submit,
        eligible=submit,
        processors=np.ones(count, dtype=np.int64),
        time_limit=np.full(count, limit),
        account=user % 2,
        user=user,
        partition=np.zeros(count, dtype=np.int64),
        start=submit,
        run_time=run_time,
        accounts=("physics", "biology"),
        users=tuple(f"u{each}" for each in range(int(user.max()) + 1)),
        partitions=("batch",),
        kind="sacct",
    )


def steady(seed: int = 1, count: int = 4000) -> JobLog:
    """Users whose jobs all run half an hour, give or take a little."""
    rng = np.random.default_rng(seed)
    return log_of(rng.uniform(1700.0, 1900.0, count), rng.integers(0, 30, count))


def test_only_runs_that_have_ended_are_known() -> None:
    log = log_of(np.array([600.0, 5000.0, 700.0, 800.0]), np.zeros(4, dtype=np.int64))
    past, known = runs_alike(log)
    assert past.seen.tolist() == [0, 1, 1, 3]  # the second still runs when the third comes
    assert past.longest[1:].tolist() == [600.0, 600.0, 5000.0]
    assert list(known.values()) == [[600.0, 700.0, 800.0, 5000.0]]


def test_steady_jobs_are_advised_and_safe() -> None:
    report = limits_report(steady(), days=7.0)
    assert report["held_out"]["advised"] > 1000
    assert report["held_out"]["killed"] <= KILLED_IN_ALL
    assert report["held_out"]["over_run_time"] < 2.0
    first = report["templates"][0]
    assert 1900.0 <= first["advised"] < 0.8 * first["limit"]


def test_jobs_of_any_length_are_not_advised() -> None:
    rng = np.random.default_rng(2)
    wild = log_of(10.0 ** rng.uniform(1.0, 4.5, 4000), rng.integers(0, 30, 4000))
    assert limits_report(wild, days=7.0)["rule"] is None


def test_whose_runs_have_grown_is_told_nothing() -> None:
    grown = np.repeat([1800.0, 3600.0], 100)
    past = runs_alike(log_of(grown, np.zeros(200, dtype=np.int64)))[0]
    told = LimitRule(fewest=10, alike=1.5, margin=1.1).advised(past, np.full(200, 10 * HOUR))
    assert np.isfinite(told[20:100]).all()
    assert np.isnan(told[102:]).all()  # the longest is now twice the median
    rule, hardly_shorter = LimitRule(fewest=10, alike=2.0, margin=1.1), np.full(4000, 2100.0)
    assert np.isnan(rule.advised(runs_alike(steady())[0], hardly_shorter)).all()


def test_kills_of_one_template_count_as_one_and_few_jobs_tell_nothing() -> None:
    spread = np.zeros(4000, dtype=np.bool_)
    spread[::250] = True
    together = np.zeros(4000, dtype=np.bool_)
    together[:16] = True
    template = np.repeat(np.arange(40), 100)
    assert spread.sum() == together.sum()
    counts = np.ones(4000)
    assert killed_at_most(together, template, counts) > killed_at_most(spread, template, counts)
    nobody = np.zeros(4000, dtype=np.bool_)
    assert killed_at_most(nobody[:299], np.arange(299), counts[:299]) == 1.0  # too few
    assert killed_at_most(nobody, np.zeros(4000, dtype=np.int64), counts) == 1.0


@pytest.mark.parametrize("of_eve", [0, 1000, 20_000])
def test_no_user_makes_a_rule_safe_for_all_by_short_runs(of_eve: int) -> None:
    """Of the others' jobs 3 % run five times as long as any before; those of one user never do."""
    count = 2000 + of_eve
    user = np.where(np.arange(count) < 2000, np.arange(count) % 30, 30)
    usual = np.where(user < 30, 1800.0, 5.0)
    run_time = np.where((user < 30) & (np.arange(count) % 33 == 0), 5.0 * usual, usual)
    everybody = np.ones(count, dtype=np.bool_)
    past = RunsAlike(
        template=np.where(user < 30, user, 30 + np.arange(count) % 40),
        seen=np.full(count, 50),
        middle=usual,
        longest=usual,
    )
    assert chosen_rule(log_of(run_time, user), past, everybody) is None


def test_accounts_are_told_what_they_ask_and_use() -> None:
    log = log_of(np.full(40, HOUR), np.arange(40) % 2, limit=4 * HOUR)
    accounts = limits_report(log, days=30.0)["accounts"]
    assert [each["account"] for each in accounts] == ["physics", "biology"]
    assert accounts[0]["asked_hours"] == pytest.approx(80.0)
    assert accounts[0]["used_hours"] == pytest.approx(20.0)
    assert accounts[0]["limit_over_run_time"] == 4.0
