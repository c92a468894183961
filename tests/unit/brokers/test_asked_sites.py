"""Who may ask a site, how often it asks its batch system, and what it binds and publishes."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_rl_plugin.brokers.live.bound_offers import PREFIX, BoundOffers
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.recent_starts import (
    PERIOD,
    REST,
    OwnUtilities,
    RecentStarts,
)
from slurm_rl_plugin.domain.site import JobRequest, PublishedUtilities
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ConfigurationError,
    JobNotAccepted,
    RequestRefused,
)
from slurm_rl_plugin.serving.clients import MOST_CLIENTS, RequestRate, read_token

REQUEST = job_request({"processors": 1, "user": "alice"})


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class BatchSystem:
    """Counts questions, and how many are on their way at a time."""

    def __init__(self, clock: Clock | None = None, takes: float = 0.0) -> None:
        self.asked: list[JobRequest] = []
        self.most = 0
        self.error: Exception | None = None
        self._clock, self._takes = clock, takes
        self._at_once = 0
        self._lock = threading.Lock()

    def __call__(self, request: JobRequest) -> float:
        with self._lock:
            self.asked.append(request)
            self._at_once += 1
            self.most = max(self.most, self._at_once)
        if self._clock is not None:
            self._clock.now += self._takes
        else:
            time.sleep(self._takes)
        with self._lock:
            self._at_once -= 1
        if self.error is not None:
            raise self.error
        return float(len(self.asked))


def named(name: str) -> JobRequest:
    return replace(REQUEST, job=replace(REQUEST.job, name=name))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_same_question_is_asked_once_in_a_while_whoever_asks(clock: Clock) -> None:
    system = BatchSystem(clock)
    starts = RecentStarts(system, clock, keep=5.0, busy_share=1.0)
    bobs = replace(REQUEST, job=replace(REQUEST.job, user="bob"))
    assert [starts.expected_start(each) for each in (REQUEST, bobs, REQUEST)] == [1.0, 1.0, 1.0]
    clock.now += 5.1
    assert starts.expected_start(REQUEST) == 2.0
    system.error = JobNotAccepted("no")  # a refusal is kept as well
    for _ in range(2):
        with pytest.raises(JobNotAccepted):
            starts.expected_start(named("other"))
    assert [each.job.user for each in system.asked] == ["", "", ""]  # nothing of the user's


def test_few_are_on_their_way_at_a_time_and_all_are_answered() -> None:
    system = BatchSystem(takes=0.02)
    starts = RecentStarts(system, time.monotonic, at_once=2, busy_share=1.0, patience=30.0)
    found: list[float | None] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(starts.expected_start(named(str(n % 12)))))
        for n in range(48)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == 48
    assert len(system.asked) == 12  # who asks the same waits for the same answer
    assert system.most <= 2


def test_a_place_stays_empty_the_longer_the_slower_the_answer_was(clock: Clock) -> None:
    system = BatchSystem(clock, takes=2.0)
    starts = RecentStarts(system, clock, at_once=1, busy_share=0.1, patience=0.0)
    starts.expected_start(named("first"))
    clock.now += 17.9
    with pytest.raises(RequestRefused, match="too many ask at once"):
        starts.expected_start(named("second"))
    clock.now += 0.2
    starts.expected_start(named("second"))
    assert len(system.asked) == 2


def test_nothing_is_asked_for_a_while_after_no_answer(clock: Clock) -> None:
    system = BatchSystem(clock)
    starts = RecentStarts(system, clock, keep=0.0, busy_share=1.0)
    system.error = BatchSystemUnavailable("gone")
    with pytest.raises(BatchSystemUnavailable):
        starts.expected_start(REQUEST)
    system.error = None
    clock.now += REST - 1.0
    with pytest.raises(RequestRefused) as refused:
        starts.expected_start(named("other"))
    assert refused.value.retry_after == pytest.approx(1.0)
    clock.now += 1.1
    assert starts.expected_start(REQUEST) == 2.0


def test_a_fault_of_ours_leaves_no_place_taken(clock: Clock) -> None:
    system = BatchSystem(clock)
    starts = RecentStarts(system, clock, keep=0.0, at_once=1, busy_share=1.0, patience=0.0)
    system.error = ZeroDivisionError()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            starts.expected_start(REQUEST)
        clock.now += 1.0
    system.error = None
    assert starts.expected_start(REQUEST) == 4.0


REQUEST_UTILITIES = job_request({"processors": 1, "account": "physics"})
#: Seconds for which a thread is waited for; nothing here takes as long.
LONG = 30.0


@dataclass
class Site:
    """A clock that is set by hand, and publications that are as good as it says."""

    now: float = 1000.0
    made: int = 0
    takes: float = 0.0
    fault: Exception | None = None
    go: threading.Event = field(default_factory=threading.Event)

    def make(self) -> PublishedUtilities:
        assert self.go.wait(LONG)
        began, self.now = self.now, self.now + self.takes
        self.made += 1
        if self.fault is not None:
            raise self.fault
        return PublishedUtilities(
            site="north",
            time=began,
            valid_for=300.0,
            model="ab",
            utilities={"batch": {"physics": 0.5 + self.made / 100}},
        )

    def own(self, patience: float = LONG, busy_share: float = 1.0) -> OwnUtilities:
        def clock() -> float:
            return self.now

        return OwnUtilities(
            make=self.make, patience=patience, busy_share=busy_share, clock=clock, monotonic=clock
        )


def running() -> Site:
    site = Site()
    site.go.set()
    return site


def wait_for_next(own: OwnUtilities) -> None:
    assert own._done.wait(LONG)


def test_who_asks_first_waits_and_the_last_one_serves_while_the_next_is_made() -> None:
    site = running()
    own = site.own()
    assert own.utility(REQUEST_UTILITIES, False) == 0.51
    assert own.utility(REQUEST_UTILITIES, True) is None
    site.now += PERIOD - 1.0
    assert own.utility(REQUEST_UTILITIES, False) == 0.51
    assert site.made == 1
    site.now += 1.0
    site.go.clear()  # the batch system hangs
    assert own.utility(REQUEST_UTILITIES, False) == 0.51
    site.go.set()
    wait_for_next(own)
    assert own.utility(REQUEST_UTILITIES, False) == 0.52


def test_nobody_waits_longer_than_his_patience_and_one_is_made_at_a_time() -> None:
    site = Site()
    own = site.own(patience=0.01)
    assert [own.current() for _ in range(5)] == [None] * 5
    site.go.set()
    wait_for_next(own)
    assert own.current() is not None
    assert site.made == 1


@pytest.mark.parametrize("fault", [BatchSystemUnavailable("no answer"), RuntimeError("ours")])
def test_what_is_too_old_is_not_told_and_a_fault_ends_one_publication(fault: Exception) -> None:
    site = running()
    own = site.own()
    own.current()
    site.now += 301.0
    site.fault = fault
    assert own.current() is None
    assert own.current() is None
    assert site.made == 2  # none is tried again at once
    site.now, site.fault = site.now + PERIOD, None
    assert own.current() is not None


def test_a_slow_batch_system_is_asked_the_more_seldom() -> None:
    site = running()
    site.takes = 20.0
    own = site.own(busy_share=0.1)
    own.current()
    site.now += 179.0
    own.current()
    wait_for_next(own)
    assert site.made == 1
    site.now += 2.0
    own.current()
    wait_for_next(own)
    assert site.made == 2


def test_a_thread_that_cannot_be_begun_is_tried_again_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = running()
    own = site.own()
    with monkeypatch.context() as patch:

        def refused(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", refused)
        assert own.current() is None
        assert own._done.is_set()
    assert own.current() is None  # none is tried again at once
    site.now += PERIOD
    assert own.current() is not None


JOB = job_request({"processors": 4, "time_limit": 600, "account": "physics"})
LIMITS = {"seconds": 60.0, "most": 2, "part": 0.1}


class BoundSite:
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
def site(file: Path) -> BoundSite:
    return BoundSite(file)


@pytest.fixture
def bound(site: BoundSite, file: Path, clock: Clock) -> BoundOffers:
    return BoundOffers(site.reserve, site.release, file, clock, **LIMITS)


def written(file: Path) -> list[str]:
    return [name for name, _ in json.loads(file.read_text())["bound"]]


def test_what_nobody_uses_in_time_is_taken_back(
    bound: BoundOffers, site: BoundSite, file: Path, clock: Clock
) -> None:
    made = bound.accept(JOB, 2000.0, 100)
    assert (made.name.startswith(PREFIX), made.until) == (True, 1060.0)
    assert list(site.stand) == written(file) == [made.name]
    clock.now = 1059.0
    bound.renew()
    assert list(site.stand) == [made.name]
    clock.now = 1060.0
    bound.renew()
    assert (site.stand, written(file)) == ({}, [])


def test_what_a_job_uses_stays_until_the_job_has_ended(
    bound: BoundOffers, site: BoundSite, file: Path, clock: Clock
) -> None:
    made = bound.accept(JOB, 2000.0, 100)
    site.used.add(made.name)
    clock.now = 5000.0
    bound.renew()
    bound.renew(everything=True)
    assert list(site.stand) == written(file) == [made.name]
    site.used.clear()
    bound.renew()
    assert (site.stand, written(file)) == ({}, [])


def test_a_number_and_a_part_of_the_machine_bound_what_binds(
    bound: BoundOffers, site: BoundSite
) -> None:
    for job in (replace(JOB.job, account=""), replace(JOB.job, time_limit=float("nan"))):
        with pytest.raises(RequestRefused, match="account and a time_limit"):
            bound.accept(replace(JOB, job=job), 2000.0, 100)
    with pytest.raises(RequestRefused, match="binds no more"):
        bound.accept(JOB, 2000.0, 39)  # a tenth of it is less than four
    assert site.stand == {}
    bound.accept(JOB, 2000.0, 80)
    bound.accept(JOB, 2000.0, 80)
    with pytest.raises(RequestRefused, match="binds no more"):
        bound.accept(JOB, 2000.0, 8000)


def test_what_slurm_refuses_holds_no_place(bound: BoundOffers, site: BoundSite, file: Path) -> None:
    site.fault = JobNotAccepted("Requested nodes are busy")
    for _ in range(5):
        with pytest.raises(RequestRefused, match="nodes are busy"):
            bound.accept(JOB, 2000.0, 100)
    site.fault = None
    bound.accept(JOB, 2000.0, 100)


def test_what_was_perhaps_made_is_taken_back(
    bound: BoundOffers, site: BoundSite, file: Path
) -> None:
    site.fault = BatchSystemUnavailable("no answer in 5 s")
    with pytest.raises(RequestRefused, match="no answer"):
        bound.accept(JOB, 2000.0, 100)
    bound.renew()  # still without an answer: it stays on file
    assert len(site.stand) == len(written(file)) == 1
    site.fault = None
    bound.renew()
    assert (site.stand, written(file)) == ({}, [])


def test_without_a_place_for_the_file_nothing_is_made(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "none" / "bound.json"
    site = BoundSite(file)
    with pytest.raises(RequestRefused, match="cannot keep its state"):
        BoundOffers(site.reserve, site.release, file, clock, **LIMITS).accept(JOB, 2000.0, 100)
    assert site.stand == {}


@pytest.mark.parametrize("text", ["", "{}", '{"bound": [["root-maintenance", 5]]}', "[]"])
def test_a_damaged_file_is_told_and_touches_no_reservation(
    file: Path, site: BoundSite, clock: Clock, text: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="scontrol show reservation"):
        BoundOffers(site.reserve, site.release, file, clock, **LIMITS)


def test_what_a_request_cost_is_known_behind_it(clock: Clock) -> None:
    rate = RequestRate(per_minute=60.0, at_once=6.0, monotonic=clock)
    assert [rate.pause("a", 4.0) for _ in range(2)] == [0.0, 2.0]
    rate.give_back("a", 3.0)
    assert rate.pause("a", 4.0) == 0.0
    rate.give_back("a", -5.0)  # it cost more than was taken: he owes that
    assert rate.pause("a", 4.0) == 8.0
    rate.give_back("a", 100.0)
    assert [rate.pause("a", 6.0) for _ in range(2)] == [0.0, 6.0]


def test_a_network_of_ipv6_is_one_client_and_a_mapped_address_that_of_ipv4() -> None:
    rate = RequestRate(per_minute=60.0, at_once=1.0, monotonic=Clock())
    assert rate.pause("2001:db8::1") == 0.0
    assert rate.pause("2001:db8::2") > 0.0
    assert rate.pause("2001:db8:0:1::2") == 0.0
    assert rate.pause("10.0.0.1") == 0.0
    assert rate.pause("::ffff:10.0.0.1") > 0.0
    assert rate.pause("fe80::1%eth0") == 0.0


def test_clients_that_are_remembered_are_bounded() -> None:
    rate = RequestRate(per_minute=60.0, at_once=1.0, monotonic=Clock())
    for number in range(MOST_CLIENTS + 10):
        rate.pause(f"client-{number}")
    assert len(rate._left) == MOST_CLIENTS


@pytest.mark.parametrize("text", ["", "short\n", "x" * 40 + " y", "é" * 40, "x" * 600])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigurationError, match="holds no token"):
        read_token(tmp_path / "token")
