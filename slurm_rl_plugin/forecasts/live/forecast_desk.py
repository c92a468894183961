"""Answers who asks when a job starts: what may be told to whom, from the last forecast."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from slurm_rl_plugin.errors import ForecastRefused
from slurm_rl_plugin.forecasts.live.foretold_queue import ForetoldQueue

NOT_FOUND = "404 Not Found"
_BAD = "400 Bad Request"
_NOT_YET, _TOO_OFTEN = "503 Service Unavailable", "429 Too Many Requests"
#: Number of the form of documents.
FORM = 1
#: Seconds after which a look is called old.
_OLD = 600.0
#: Seconds that a question waits for those before it: for as many as one client may ask at once.
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks.

    Attributes:
        user: login name; "" for one that has none.
        sees_all: may ask for jobs of everybody: root, the service's own user, a portal.
        client: where he asks from, whose questions count together.
    """

    user: str
    sees_all: bool
    client: str


class QuestionPace(Protocol):
    """For how long each client may have the queue played forward; any thread may ask."""

    def pause(self, client: str) -> float:
        """Take one question; seconds after which he may ask it, 0 where he may now."""

    def spent(self, client: str, seconds: float) -> None:
        """Note what a question that was taken has cost, its wait for others left out."""


@dataclass(slots=True, kw_only=True)
class ForecastDesk:
    """Tells each asker what he may see; any thread may ask.

    Attributes:
        others: whether users may ask for the jobs of others.
        clock: seconds since the epoch.
        monotonic: clock of durations, seconds.
        pace: for how long a client may have the queue played forward.
        new_job: foretells a job that is not submitted, by a document of what it asks for.
        advice: what other requests of a pending job, by its place, would bring.
    """

    others: bool
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    pace: QuestionPace
    new_job: Callable[[ForetoldQueue, Mapping[str, Any]], dict[str, Any]]
    advice: Callable[[ForetoldQueue, int], list[dict[str, Any]]]
    _queue: ForetoldQueue | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def renew(self, queue: ForetoldQueue) -> None:
        """Take a new forecast of the whole queue."""
        self._queue = queue

    def of_job(self, asker: Asker, job: int, *, advice: bool = False) -> dict[str, Any]:
        """What is told of one job.

        Args:
            asker: who asks.
            job: its number.
            advice: whether also what other requests of it would bring.

        Raises:
            ForecastRefused: it does not wait, or is not the asker's to see; both in the same words.
        """
        queue = self._ready()
        place = queue.place_of(job)
        if place is None or not self._may_see(asker, queue.user_of(place)):
            raise ForecastRefused(
                NOT_FOUND,
                f"job {job} does not wait in the last look at the queue, or is not yours to see: "
                "`squeue --me` lists yours.",
            )
        document = self._document(queue, [place])
        if advice and document["jobs"][0]["forecast"] is not None:
            with self._turn(asker):
                document["jobs"][0]["advice"] = self.advice(queue, place)
        return document

    def of_user(self, asker: Asker, user: str) -> dict[str, Any]:
        """What is told of all pending jobs of a user.

        Raises:
            ForecastRefused: they are not the asker's to see.
        """
        queue = self._ready()
        if not self._may_see(asker, user):
            raise ForecastRefused(
                NOT_FOUND, f"jobs of {user!r} are not yours to see: ask for your own."
            )
        return self._document(queue, queue.users_jobs(user))

    def of_all(self, asker: Asker) -> dict[str, Any]:
        """What is told of all pending jobs that the asker may see."""
        queue = self._ready()
        everybody = range(len(queue.snapshot.pending))
        return self._document(
            queue, [each for each in everybody if self._may_see(asker, queue.user_of(each))]
        )

    def of_new_job(self, asker: Asker, request: Mapping[str, Any]) -> dict[str, Any]:
        """What is told of a job that is not submitted.

        Raises:
            ForecastRefused: a request that is not understood, or nothing is told of such jobs.
        """
        queue = self._ready()
        if queue.too_little:
            raise ForecastRefused(_NOT_YET, queue.too_little)
        with self._turn(asker):
            found = self.new_job(queue, {**request, "user": asker.user or request.get("user", "")})
        if not self._may_count(asker, queue, request.get("account", "")):
            found["jobs"][0]["ahead_of_account"] = None
        return self._head(queue) | found

    @contextmanager
    def _turn(self, asker: Asker) -> Iterator[None]:
        """One question at a time plays the queue forward, and nobody waits long for his turn.

        Raises:
            ForecastRefused: others are before it, or he has asked too much.
        """
        pause, cost = self.pace.pause(asker.client), 0.0
        if pause > 0.0:
            words = f"that is a lot of questions: ask again in {math.ceil(pause)} s."
            raise ForecastRefused(_TOO_OFTEN, words)
        try:
            if not self._lock.acquire(timeout=_PATIENCE):
                raise ForecastRefused(_NOT_YET, "others ask just now: ask again in a minute.")
            begin = self.monotonic()
            try:
                yield
            finally:
                cost = self.monotonic() - begin
                self._lock.release()
        finally:
            self.pace.spent(asker.client, cost)

    def _may_see(self, asker: Asker, user: str) -> bool:
        return asker.sees_all or self.others or (user != "" and asker.user == user)

    def _may_count(self, asker: Asker, queue: ForetoldQueue, account: object) -> bool:
        """Whether he may hear how many jobs of an account wait: with PrivateData it is secret."""
        if asker.sees_all or self.others:
            return True
        return asker.user != "" and queue.has_job_of(asker.user, str(account))

    def _ready(self) -> ForetoldQueue:
        if self._queue is None:
            raise ForecastRefused(
                _NOT_YET, "nothing is foretold yet: the service waits for a look of the daemon's."
            )
        return self._queue

    def _document(self, queue: ForetoldQueue, places: list[int]) -> dict[str, Any]:
        return self._head(queue) | {"jobs": [queue.document(each) for each in places]}

    def _head(self, queue: ForetoldQueue) -> dict[str, Any]:
        age = self.clock() - queue.snapshot.now
        old = None
        if not -_OLD <= age <= _OLD:
            old = (
                f"the last look at the queue is {age / 60:.0f} minutes old by this clock: the "
                "daemon may not be running, or a clock has jumped."
            )
        return {"form": FORM, "foretold": queue.snapshot.now, "old": old}


def number_of_job(text: str) -> int:
    """Read the job that a query asks for.

    Raises:
        ForecastRefused: it is no whole number.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ForecastRefused(_BAD, f"{text[:40]!r} is no number of a job.")
    return int(text)
