"""Expected starts and utilities of a batch system that must never feel that it is asked.

The same question is asked once in a few seconds, whoever asks; few questions are on their way at a
time; after each its place stays empty, so that all of them together take a small share of the batch
system's time, the smaller the slower it is; and after a question without an answer none is asked
for a while. Utilities are made anew while somebody asks for them, by a thread beside, at most once
a minute: the last ones serve as long as they are fresh.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slurm_rl_plugin.domain.site import JobRequest, PublishedUtilities
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    RequestRefused,
    SlurmRLError,
)

BUSY = "503 Service Unavailable"
#: Answers that are kept.
MOST_KEPT = 1024
#: Seconds without a question after one that had no answer.
REST = 10.0
#: Seconds that a place stays empty at most.
LONGEST_PAUSE = 60.0
logger = logging.getLogger(__name__)

#: Seconds between two publications at least.
PERIOD = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLimits:
    """Bounds on how often and how long the batch system is asked for expected starts."""

    keep: float = 5.0  #: seconds for which an answer is given again
    at_once: int = 2  #: questions that are on their way at a time
    #: Of the time of each place that may be spent with questions, in (0, 1].
    busy_share: float = 0.1
    patience: float = 5.0  #: seconds that a request waits for a place


@dataclass(slots=True)
class _Question:
    """A question to the batch system that is on its way, or its answer."""

    done: threading.Event = field(default_factory=threading.Event)
    start: float | None = None
    error: SlurmRLError | None = None
    until: float = 0.0

    def answer(self) -> float | None:
        if self.error is not None:
            raise self.error
        return self.start


@dataclass(slots=True)
class RecentStarts:
    """Asks for starts within limits; safe for threads."""

    #: The batch system, which tells seconds since the epoch, or None where it would take the job
    #: and knows no time.
    ask: Callable[[JobRequest], float | None]
    limits: StartLimits
    monotonic: Callable[[], float]
    _questions: OrderedDict[JobRequest, _Question] = field(default_factory=OrderedDict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _places: list[float] = field(init=False)  #: when each empty place may be taken
    _rest_until: float = 0.0

    def __post_init__(self) -> None:
        self._places = [0.0] * self.limits.at_once

    def expected_start(self, request: JobRequest) -> float | None:
        """Seconds since the epoch; None where the batch system says none.

        Raises:
            BatchSystemError: as the batch system, a kept answer included.
            RequestRefused: no place in time, or the batch system rests.
        """
        asked = replace(request, job=replace(request.job, user=""))  # not part of the question
        with self._changed:
            question = self._questions.get(asked)
            if question is None or (question.done.is_set() and question.until < self.monotonic()):
                question = self._questions[asked] = _Question()
                self._questions.move_to_end(asked)
                while len(self._questions) > MOST_KEPT:
                    self._questions.popitem(last=False)
                mine = True
            else:
                mine = False
        if mine:
            self._find_out(asked, question)
        elif not question.done.wait(2.0 * self.limits.patience):
            raise RequestRefused(BUSY, "the batch system is slow: ask again.", retry_after=5.0)
        return question.answer()

    def _find_out(self, request: JobRequest, question: _Question) -> None:
        try:
            self._take_place()
            began = self.monotonic()
            try:
                question.start = self.ask(request)
            finally:
                took = self.monotonic() - began
                pause = min(took * (1.0 / self.limits.busy_share - 1.0), LONGEST_PAUSE)
                with self._changed:
                    self._places.append(self.monotonic() + pause)
                    self._changed.notify_all()
        except BatchSystemUnavailable as error:
            question.error = error
            self._rest_until = self.monotonic() + REST
        except (BatchSystemError, RequestRefused) as error:
            question.error = error
        except BaseException:
            question.error = RequestRefused("500 Internal Server Error", "see the log of the site.")
            raise
        finally:
            kept = 0.0 if isinstance(question.error, RequestRefused) else self.limits.keep
            question.until = self.monotonic() + kept
            question.done.set()

    def _take_place(self) -> None:
        end = self.monotonic() + self.limits.patience
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
    """Tells what the site publishes; safe for threads."""

    make: Callable[[], PublishedUtilities]  #: a publication of now; may take a while, or fail
    patience: float  #: seconds that whoever asks waits where nothing fresh is there
    busy_share: float  #: most of the time that may be spent with making them, in (0, 1]
    clock: Callable[[], float]  #: seconds since the epoch
    monotonic: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: PublishedUtilities | None = None
    _due: float = -math.inf
    _done: threading.Event = field(default_factory=threading.Event)  #: set where none is being made

    def __post_init__(self) -> None:
        self._done.set()

    def current(self) -> PublishedUtilities | None:
        """What is published now; None where nothing fresh is there in time."""
        self.renew()
        if self._fresh() is None:
            self._done.wait(self.patience)
        return self._fresh()

    def utility(self, request: JobRequest, interactive: bool) -> float | None:
        """The utility of one more such job; None where nothing fresh is published for it."""
        published = self.current()
        if published is None:
            return None
        return published.of("interactive" if interactive else "batch", request.job.account)

    def renew(self) -> None:
        """Begin a new publication where one is due; nobody waits for it here."""
        with self._lock:
            if not self._done.is_set() or self.monotonic() < self._due:
                return
            self._done.clear()
        try:
            threading.Thread(target=self._renew, daemon=True).start()
        except RuntimeError as error:  # no more threads: or nobody would ever try again
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
        except Exception:  # our bug must show in the log, not end the thread without a word
            logger.exception("utilities=broken")
        finally:
            ended = self.monotonic()
            pause = (ended - began) * (1.0 / self.busy_share - 1.0)
            with self._lock:
                self._due = max(began + PERIOD, ended + pause)
                self._done.set()
