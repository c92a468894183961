"""What binds is written down first, bounded, and taken back whatever happens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.brokers.live.bound_offers import PREFIX, BindingLimits, BoundOffers
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ConfigurationError,
    JobNotAccepted,
    RequestRefused,
)

JOB = job_request({"processors": 4, "time_limit": 600, "account": "physics"})
LIMITS = BindingLimits(seconds=60.0, most=2, part=0.1)


class Site:
    """Reservations by name; those in `used` have a job."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.stand: dict[str, int] = {}
        self.used: set[str] = set()
        self.fault: Exception | None = None

    def reserve(self, name: str, request: JobRequest, start: float, idle: float) -> None:
        assert name in self.file.read_text()  # written down before it is made
        if not isinstance(self.fault, JobNotAccepted):
            self.stand[name] = request.processors
        if self.fault is not None:
            raise self.fault

    def release(self, name: str) -> bool:
        if self.fault is not None:
            raise self.fault
        if name in self.used:
            return False
        self.stand.pop(name, None)
        return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bound.json"


@pytest.fixture
def site(file: Path) -> Site:
    return Site(file)


class Now:
    """A clock."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def bound(site: Site, file: Path, now: Now) -> BoundOffers:
    return BoundOffers(site, file, LIMITS, now)


def written(file: Path) -> list[str]:
    return [name for name, _ in json.loads(file.read_text())["bound"]]


def test_what_nobody_uses_in_time_is_taken_back(
    bound: BoundOffers, site: Site, file: Path, now: Now
) -> None:
    made = bound.accept(JOB, 2000.0, 100)
    assert (made.name.startswith(PREFIX), made.until) == (True, 1060.0)
    assert list(site.stand) == written(file) == [made.name]
    now.time = 1059.0
    bound.renew()
    assert list(site.stand) == [made.name]
    now.time = 1060.0
    bound.renew()
    assert (site.stand, written(file)) == ({}, [])


def test_what_a_job_uses_stays_until_the_job_has_ended(
    bound: BoundOffers, site: Site, file: Path, now: Now
) -> None:
    made = bound.accept(JOB, 2000.0, 100)
    site.used.add(made.name)
    now.time = 5000.0
    bound.renew()
    bound.renew(everything=True)
    assert list(site.stand) == written(file) == [made.name]
    site.used.clear()
    bound.renew()
    assert (site.stand, written(file)) == ({}, [])


def test_a_number_and_a_part_of_the_machine_bound_what_binds(bound: BoundOffers) -> None:
    with pytest.raises(RequestRefused, match="binds no more"):
        bound.accept(JOB, 2000.0, 39)  # a tenth of it is less than four
    bound.accept(JOB, 2000.0, 80)
    bound.accept(JOB, 2000.0, 80)
    with pytest.raises(RequestRefused, match="binds no more"):
        bound.accept(JOB, 2000.0, 8000)


def test_an_offer_binds_for_an_account_and_a_time(bound: BoundOffers, site: Site) -> None:
    for job in (
        replace(JOB.job, account=""),
        replace(JOB.job, time_limit=float("nan")),
    ):
        with pytest.raises(RequestRefused, match="account and a time_limit"):
            bound.accept(replace(JOB, job=job), 2000.0, 100)
    assert site.stand == {}


def test_what_slurm_refuses_holds_no_place(bound: BoundOffers, site: Site, file: Path) -> None:
    site.fault = JobNotAccepted("Requested nodes are busy")
    for _ in range(5):
        with pytest.raises(RequestRefused, match="nodes are busy"):
            bound.accept(JOB, 2000.0, 100)
    site.fault = None
    bound.accept(JOB, 2000.0, 100)


def test_what_was_perhaps_made_is_taken_back(bound: BoundOffers, site: Site, file: Path) -> None:
    site.fault = BatchSystemUnavailable("no answer in 5 s")
    with pytest.raises(RequestRefused, match="no answer"):
        bound.accept(JOB, 2000.0, 100)
    bound.renew()  # still without an answer: it stays on file
    assert len(site.stand) == len(written(file)) == 1
    site.fault = None
    bound.renew()
    assert (site.stand, written(file)) == ({}, [])


def test_what_a_killed_process_left_is_taken_back_at_the_next_start(
    bound: BoundOffers, site: Site, file: Path, now: Now
) -> None:
    used, free = bound.accept(JOB, 2000.0, 100), bound.accept(JOB, 2000.0, 100)
    site.used.add(used.name)
    later = BoundOffers(site, file, LIMITS, now)
    later.renew()
    assert free.name not in site.stand
    assert list(site.stand) == written(file) == [used.name]


def test_without_a_place_for_the_file_nothing_is_made(tmp_path: Path, now: Now) -> None:
    file = tmp_path / "none" / "bound.json"
    site = Site(file)
    with pytest.raises(RequestRefused, match="cannot keep its state"):
        BoundOffers(site, file, LIMITS, now).accept(JOB, 2000.0, 100)
    assert site.stand == {}


@pytest.mark.parametrize("text", ["", "{}", '{"bound": [["root-maintenance", 5]]}', "[]"])
def test_a_damaged_file_is_told_and_touches_no_reservation(
    file: Path, site: Site, now: Now, text: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="scontrol show reservation"):
        BoundOffers(site, file, LIMITS, now)
