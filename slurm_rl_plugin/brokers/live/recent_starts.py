"""Expected starts and utilities, with a bounded load on the batch system.

Equal queries of all clients are sent once in a few seconds, and few are outstanding at a time.
After each query its slot pauses, so that queries take a bounded share of the batch system's time,
and after a query without a response none is sent for a while. While clients request utilities, a
thread renews them at most once a minute; the last ones are served as long as they are fresh.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from slurm_rl_plugin.domain.site import JobRequest, PublishedUtilities
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    RequestRefused,
    SlurmRLError,
)

BUSY = "503 Service Unavailable"
#: Number of kept responses.
MOST_KEPT = 1024
#: Seconds without a query after one without a response.
REST = 10.0
#: Longest pause of a slot, seconds.
LONGEST_PAUSE = 60.0
logger = logging.getLogger(__name__)

#: Minimum time between two publications, seconds.
PERIOD = 60.0


@dataclass(slots=True)
class _Question:
    """A query to the batch system, and its response or error."""

    answer: Future[float | None] = field(default_factory=Future)
    until: float = math.inf  #: when it is no longer used; known with the response


@dataclass(slots=True)
class RecentStarts:
    """Queries expected starts within limits; thread-safe."""

    #: Asks the batch system: seconds since the epoch, or None if it accepts the job without a time.
    ask: Callable[[JobRequest], float | None]
    monotonic: Callable[[], float]
    keep: float = 5.0  #: seconds for which a response is reused
    at_once: int = 2  #: maximum number of outstanding queries
    busy_share: float = 0.1  #: maximum share of time that each slot spends with queries, in (0, 1]
    patience: float = 5.0  #: seconds that a request waits for a slot
    _questions: OrderedDict[JobRequest, _Question] = field(default_factory=OrderedDict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _places: list[float] = field(init=False)  #: when each free slot may be used
    _rest_until: float = 0.0

    def __post_init__(self) -> None:
        self._places = [0.0] * self.at_once

    def expected_start(self, request: JobRequest) -> float | None:
        """Seconds since the epoch; None if the batch system gives none.

        Raises:
            BatchSystemError: from the batch system, also kept from an earlier query.
            RequestRefused: no slot in time, or a pause after a query without a response.
        """
        asked = replace(request, job=replace(request.job, user=""))  # not part of the query
        with self._changed:
            question = self._questions.get(asked)
            mine = question is None or question.until < self.monotonic()
            if question is None or mine:
                question = self._questions[asked] = _Question()
                self._questions.move_to_end(asked)
                while len(self._questions) > MOST_KEPT:
                    self._questions.popitem(last=False)
        if mine:
            self._find_out(asked, question)
        try:
            return question.answer.result(2.0 * self.patience)
        except TimeoutError:
            words = "the batch system is slow: ask again."
            raise RequestRefused(BUSY, words, retry_after=5.0) from None

    def _find_out(self, request: JobRequest, question: _Question) -> None:
        try:
            self._take_place()
            began = self.monotonic()
            try:
                question.answer.set_result(self.ask(request))
            finally:
                took = self.monotonic() - began
                pause = min(took * (1.0 / self.busy_share - 1.0), LONGEST_PAUSE)
                with self._changed:
                    self._places.append(self.monotonic() + pause)
                    self._changed.notify_all()
        except BatchSystemUnavailable as error:
            self._rest_until = self.monotonic() + REST
            question.answer.set_exception(error)
        except (BatchSystemError, RequestRefused) as error:
            question.answer.set_exception(error)
        except BaseException:
            fault = RequestRefused("500 Internal Server Error", "see the log of the site.")
            question.answer.set_exception(fault)
            raise
        finally:
            kept = 0.0 if isinstance(question.answer.exception(), RequestRefused) else self.keep
            question.until = self.monotonic() + kept

    def _take_place(self) -> None:
        end = self.monotonic() + self.patience
        with self._changed:
            while True:
                now = self.monotonic()
                if now < self._rest_until:
                    raise RequestRefused(
                        BUSY,
                        "the batch system did not answer: ask again later.",
                        retry_after=self._rest_until - now,
                    )
                first = min(self._places, default=end)
                if self._places and first <= now:
                    self._places.remove(first)
                    return
                if now >= end:
                    raise RequestRefused(BUSY, "too many ask at once: ask again.", retry_after=5.0)
                self._changed.wait(max(min(first, end) - now, 0.001))


@dataclass(slots=True, kw_only=True)
class OwnUtilities:
    """The site's publications; thread-safe."""

    make: Callable[[], PublishedUtilities]  #: makes a publication; may be slow, or fail
    patience: float  #: seconds that a request waits for a fresh publication
    busy_share: float  #: maximum share of time for making publications, in (0, 1]
    clock: Callable[[], float]  #: seconds since the epoch
    monotonic: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: PublishedUtilities | None = None
    _due: float = -math.inf
    _done: threading.Event = field(default_factory=threading.Event)  #: set while none is being made

    def __post_init__(self) -> None:
        self._done.set()

    def current(self) -> PublishedUtilities | None:
        """The current publication; None without a fresh one in time."""
        self.renew()
        if self._fresh() is None:
            self._done.wait(self.patience)
        return self._fresh()

    def utility(self, request: JobRequest, interactive: bool) -> float | None:
        """The utility of one more such job; None without a fresh publication for it."""
        published = self.current()
        if published is None:
            return None
        return published.of("interactive" if interactive else "batch", request.job.account)

    def renew(self) -> None:
        """Begin a new publication if one is due, without waiting for it."""
        with self._lock:
            if not self._done.is_set() or self.monotonic() < self._due:
                return
            self._done.clear()
        try:
            threading.Thread(target=self._renew, daemon=True).start()
        except RuntimeError as error:  # no more threads: allow another attempt later
            logger.warning("utilities=none reason=%s", error)
            with self._lock:
                self._due = self.monotonic() + PERIOD
                self._done.set()

    def _fresh(self) -> PublishedUtilities | None:
        made = self._made
        return made if made is not None and made.fresh_at(self.clock()) else None

    def _renew(self) -> None:
        began = self.monotonic()
        try:
            self._made = self.make()
        except SlurmRLError as error:
            logger.warning("utilities=none reason=%s", error)
        except Exception:  # a bug must appear in the log, not end the thread silently
            logger.exception("utilities=broken")
        finally:
            ended = self.monotonic()
            pause = (ended - began) * (1.0 / self.busy_share - 1.0)
            with self._lock:
                self._due = max(began + PERIOD, ended + pause)
                self._done.set()
