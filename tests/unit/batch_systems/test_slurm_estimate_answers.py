"""What each release of Slurm answers on TimeMin, reservations and limits, as recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.settings import parse_settings, release_numbers
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.obstacles import Surroundings, obstacle_of
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.preconditions import limits_on_minutes
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.reservations import parse_reservations
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.waiting_jobs import (
    WaitingJob,
    parse_waiting,
)
from slurm_rl_plugin.batch_systems.slurm.submission.expected_start import parse_partitions
from slurm_rl_plugin.units import HOUR

ANSWERS = sorted((Path(__file__).parents[2] / "assets" / "slurm").iterdir())
BARRED = {
    "heterogeneous": "heterogeneous",
    "split array": "2 records",
    "no limit known": "no time limit",
    "nice": "deadline",
}


@pytest.fixture(params=ANSWERS, ids=lambda path: path.name)
def answers(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def waiting(answers: Path) -> dict[int, WaitingJob]:
    return parse_waiting(answers.joinpath("waiting.txt").read_text())


@pytest.fixture
def jobs(answers: Path) -> dict[str, int]:
    numbers: dict[str, int] = json.loads(answers.joinpath("jobs.json").read_text())
    return numbers


def around(answers: Path, now: float) -> Surroundings:
    return Surroundings(
        now=now,
        backfill_interval=2.0,
        longest={
            each.name: each.longest
            for each in parse_partitions(answers.joinpath("partitions.txt").read_text())
        },
        reservations=parse_reservations(answers.joinpath("reservations.txt").read_text()),
    )


def test_estimates_stand_by_the_numbers_of_a_snapshot(
    waiting: dict[int, WaitingJob], jobs: dict[str, int]
) -> None:
    told = {name: waiting[jobs[name]].estimate for name in ("plain", "array", "split array")}
    assert told == {"plain": 180, "array": 0, "split array": 240}
    assert not {jobs["ended"], jobs["running"]} & waiting.keys()
    assert len(waiting[jobs["array"]].records) == 1  # 20 lines
    assert len(waiting[jobs["heterogeneous"]].records) == 3


def test_who_may_have_none_says_why(
    answers: Path, waiting: dict[int, WaitingJob], jobs: dict[str, int]
) -> None:
    own, later = sorted(around(answers, 0.0).reservations, key=lambda each: each.start)
    before = around(answers, own.start + 60)
    said = {
        name: obstacle_of(waiting[number], before)
        for name, number in jobs.items()
        if number in waiting
    }
    assert said.keys() > BARRED.keys()
    for name, words in said.items():
        assert BARRED.get(name, "") in (words or "")
        assert (words is not None) == (name in BARRED), name
    (asked,) = [job for job in waiting.values() if job.records[0].reservations]
    assert asked.records[0].reservations == ("own",)
    assert obstacle_of(asked, around(answers, own.end - 60)) is not None
    plain = waiting[jobs["plain"]]
    into = "its time limit reaches into reservation maintenance"
    assert obstacle_of(plain, around(answers, later.start - 300)) == into


def test_reservations_and_limits_are_told(answers: Path) -> None:
    assert parse_reservations(answers.joinpath("reservations-none.txt").read_text()) == []
    kept = {
        each.name: each
        for each in parse_reservations(answers.joinpath("reservations.txt").read_text())
    }
    assert kept["own"].end - kept["own"].start == HOUR
    assert "MAINT" in kept["maintenance"].flags
    text = answers.joinpath("limits.txt").read_text()
    fault = limits_on_minutes(text, safe=True).fault or ""
    assert fault.startswith("GrpTRESRunMins of Account physics")
    none = text.replace("=cpu=60(", "=cpu=N(")
    assert limits_on_minutes(none, safe=True).fault is None
    budget = none.replace("GrpTRESMins=cpu=N(", "GrpTRESMins=cpu=60(")
    assert limits_on_minutes(budget, safe=False).fault is None
    assert "GrpTRESMins of" in (limits_on_minutes(budget, safe=True).fault or "")
    of_a_job = none.replace("MaxTRESMinsPJ=", "MaxTRESMinsPJ=cpu=60")
    assert "MaxTRESMinsPJ of" in (limits_on_minutes(of_a_job, safe=False).fault or "")


def test_the_scheduler_is_told(answers: Path) -> None:
    settings = parse_settings(answers.joinpath("config.txt").read_text())
    assert (settings.scheduler_type, settings.select_type) == (
        "sched/backfill",
        "select/cons_tres",
    )
    assert settings.partition_limits == "NO"
    assert settings.backfill_interval == 2.0
    assert release_numbers(settings.release)[:2] == release_numbers(answers.name)
    assert settings.release_number == release_numbers(answers.name)
