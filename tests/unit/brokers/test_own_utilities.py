"""What a site publishes of itself is made beside those who ask, seldom, and never blocks them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.recent_starts import PERIOD, OwnUtilities
from slurm_rl_plugin.domain.site import PublishedUtilities
from slurm_rl_plugin.errors import BatchSystemUnavailable

REQUEST = job_request({"processors": 1, "account": "physics"})
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
        clock: Callable[[], float] = lambda: self.now  # noqa: E731
        return OwnUtilities(
            make=self.make,
            patience=patience,
            busy_share=busy_share,
            clock=clock,
            monotonic=clock,
        )


def running() -> Site:
    site = Site()
    site.go.set()
    return site


def wait_for_next(own: OwnUtilities) -> None:
    assert own._done.wait(LONG)


def test_the_first_who_asks_waits_for_it_and_the_next_minute_takes_the_same() -> None:
    site = running()
    own = site.own()
    assert own.utility(REQUEST, False) == 0.51
    assert own.utility(REQUEST, True) is None
    site.now += PERIOD - 1.0
    assert own.utility(REQUEST, False) == 0.51
    assert site.made == 1


def test_after_a_minute_the_last_one_serves_while_the_next_is_made() -> None:
    site = running()
    own = site.own()
    own.current()
    site.now += PERIOD
    site.go.clear()  # the batch system hangs
    assert own.utility(REQUEST, False) == 0.51
    site.go.set()
    wait_for_next(own)
    assert own.utility(REQUEST, False) == 0.52


def test_nobody_waits_longer_than_his_patience_and_one_is_made_at_a_time() -> None:
    site = Site()
    own = site.own(patience=0.01)
    assert [own.current() for _ in range(5)] == [None] * 5
    site.go.set()
    wait_for_next(own)
    assert own.current() is not None
    assert site.made == 1


def test_what_is_too_old_is_not_told() -> None:
    site = running()
    own = site.own()
    own.current()
    site.now += 301.0
    site.fault = BatchSystemUnavailable("squeue gives no answer")
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


def test_a_bug_ends_one_publication_and_no_more() -> None:
    site = running()
    site.fault = RuntimeError("ours")
    own = site.own()
    assert own.current() is None
    site.now, site.fault = site.now + PERIOD, None
    assert own.current() is not None


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
