"""The pages of the forecast service: the users' page, /start (GET and POST), /scores, /metrics.

RequestRefused says why a client gets no answer: the service does not understand the request, the
client may not see what it asks for, or it asks too often.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from slurm_rl_plugin.errors import RequestRefused, SlurmRLError
from slurm_rl_plugin.forecasts.live.asked_queue import QUESTION_SECONDS
from slurm_rl_plugin.forecasts.live.forecast_queue import ForecastQueue
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows
from slurm_rl_plugin.forecasts.live.users_page import MOST_STARTED, STARTED_SINCE, users_page
from slurm_rl_plugin.html_pages.pages import HTML, render, security_headers
from slurm_rl_plugin.serving.clients import LOCAL_USER, NAMELESS, RequestRate
from slurm_rl_plugin.serving.page_server import TOO_OFTEN, JsonPages, Page, body_of

NOT_FOUND = "404 Not Found"
_BAD = "400 Bad Request"
_WHO = "401 Unauthorized"
_NOT_YET = "503 Service Unavailable"
#: Number of the form of documents.
FORM = 1
#: Seconds after which a look is called old.
_OLD = 600.0
#: Seconds that a question waits for those before it: for as many as one client may ask at once.
_PATIENCE = 30.0
#: Questions that wait for their turn at most: each holds one of the service's 64 connections, and
#: the others are for metrics and for answers that are there already.
MOST_WAITING = 8
PAGE, START, SCORES, METRICS = "/", "/start", "/scores", "/metrics"
#: Headers that proxies add: a proxy that names no user must not lend browsers its token.
_OF_PROXIES = ("HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP", "HTTP_FORWARDED")
#: Login names that the portal's proxy may give.
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@$+-]{0,255}", re.ASCII)
#: Seconds of each minute for which one client may have the queue played forward, and without a
#: pause: the others have three quarters of the time.
_SECONDS_A_MINUTE, _AT_ONCE = 15.0, 2.0 * QUESTION_SECONDS
#: What a question counts as at least, seconds.
_LEAST_OF_QUESTION = 1.0
#: The same of writing out what is forecast already, processor seconds, and what a request for it
#: counts as at least: 240 requests a minute of a client whose jobs are few.
_READING_SECONDS_A_MINUTE, _READING_AT_ONCE, _LEAST_OF_READING = 3.0, 3.0, 1.0 / 80.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks."""

    user: str  #: login name; "" for a user without one, who has no jobs
    sees_all: bool  #: may ask for all jobs: root, the service's own user, a portal
    client: str  #: all requests of one client count together


@dataclass(frozen=True, slots=True)
class SecondsOfWork:
    """How many seconds of work one client may cause; safe for threads."""

    rate: RequestRate  #: of seconds
    most: float  #: seconds that one question may take
    least: float  #: seconds that a question counts as at least

    def pause(self, client: str) -> float:
        """Take the seconds that a question may cost; seconds to wait before it, 0 for none."""
        return self.rate.pause(client, self.most)

    def spent(self, client: str, seconds: float) -> None:
        """Return the seconds that a granted question did not take.

        Users without a login name share one share, which is half of a user's.
        """
        counted = max(seconds, self.least) * (2.0 if client == NAMELESS else 1.0)
        self.rate.give_back(client, self.most - counted)


def _take(pace: SecondsOfWork, asker: Asker) -> None:
    pause = pace.pause(asker.client)
    if pause > 0.0:
        words = f"that is a lot of questions: ask again in {math.ceil(pause)} s."
        raise RequestRefused(TOO_OFTEN, words, retry_after=pause)


@dataclass(slots=True, kw_only=True)
class ForecastPages:
    """The WSGI application of the forecast service: shows each client what it may see."""

    others: bool  #: whether users may ask for the jobs of others
    clock: Callable[[], float]  #: seconds since the epoch
    monotonic: Callable[[], float]  #: clock of durations, seconds
    #: Forecasts a job that is not submitted, by a document of what it asks for.
    new_job: Callable[[ForecastQueue, Mapping[str, Any]], dict[str, Any]]
    #: What other requests of a pending job, by its place, would bring.
    advice: Callable[[ForecastQueue, int], list[dict[str, Any]]]
    scores: Callable[[], dict[str, Any]]  #: how good forecasts have been, as a document
    metrics: Callable[[], tuple[bytes, str]]  #: the same as Prometheus's text, and its content type
    trusted: frozenset[int]  #: numbers of users that see everything
    #: Whether a header `Authorization` bears the site's token; it sees everything.
    is_token: Callable[[str], bool]
    #: First forecasts of a user's jobs that started since a time: user, time, how many at most.
    started: Callable[[str, float, int], GivenRows]
    #: The WSGI key of the header in which the portal names its user; "" for none.
    user_key: str = ""
    #: For how long a client may have the queue played forward.
    pace: SecondsOfWork = field(init=False)
    #: For how long it may have existing forecasts written out, processor seconds.
    reading: SecondsOfWork = field(init=False)
    _queue: ForecastQueue | None = None
    #: user, None for all of them -> the jobs of the last forecast in JSON.
    _written: dict[str | None, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _places: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(MOST_WAITING + 1)
    )

    def __post_init__(self) -> None:
        def rate(per_minute: float, at_once: float) -> RequestRate:
            return RequestRate(per_minute=per_minute, at_once=at_once, monotonic=self.monotonic)

        of_questions = rate(_SECONDS_A_MINUTE, _AT_ONCE)
        self.pace = SecondsOfWork(of_questions, QUESTION_SECONDS, _LEAST_OF_QUESTION)
        of_reading = rate(_READING_SECONDS_A_MINUTE, _READING_AT_ONCE)
        self.reading = SecondsOfWork(of_reading, _LEAST_OF_READING, _LEAST_OF_READING)

    def renew(self, queue: ForecastQueue) -> None:
        """Take a new forecast of the whole queue."""
        with self._writing:
            self._queue, self._written = queue, {}

    def of_job(self, asker: Asker, job: int, *, advice: bool = False) -> dict[str, Any]:
        """The document of one job."""
        queue = self._ready()
        place = queue.place_of(job)
        if place is None or not self._may_see(asker, queue.user_of(place)):
            raise RequestRefused(
                NOT_FOUND,
                f"job {job} does not wait in the last look at the queue, or is not yours to see: "
                "`squeue --me` lists yours.",
            )
        document = self._head(queue) | {"jobs": queue.documents([place])}
        if advice and document["jobs"][0]["forecast"] is not None:
            with self._turn(asker):
                document["jobs"][0]["advice"] = self.advice(queue, place)
        return document

    def of_user(self, asker: Asker, user: str) -> bytes:
        """The document of all pending jobs of a user, in JSON."""
        if not self._may_see(asker, user):
            raise RequestRefused(
                NOT_FOUND, f"jobs of {user!r} are not yours to see: ask for your own."
            )
        return self._of(asker, user)

    def _of(self, asker: Asker, user: str | None) -> bytes:
        """The jobs of a user, None for all users', written once for each forecast."""
        with self._reading_for(asker):
            with self._writing:  # many requests must not write the same jobs
                queue = self._ready()
                jobs = self._written.get(user)
                if jobs is None:
                    places = queue.users_jobs(user)
                    jobs = json.dumps(queue.documents(places)).encode()
                    if places:  # names of users are what a client sends
                        self._written[user] = jobs
            return json.dumps(self._head(queue)).encode()[:-1] + b', "jobs": ' + jobs + b"}\n"

    @contextmanager
    def _reading_for(self, asker: Asker) -> Iterator[None]:
        """What is done within counts as the client's reading."""
        _take(self.reading, asker)
        begin = time.thread_time()
        try:
            yield
        finally:
            self.reading.spent(asker.client, time.thread_time() - begin)

    def of_new_job(self, asker: Asker, request: Mapping[str, Any]) -> dict[str, Any]:
        """The document of a job that is not submitted."""
        queue = self._ready()
        # whose runs and shares count: the asker's, and for a portal any user's
        user = request.get("user", "") if asker.sees_all and not asker.user else asker.user
        with self._turn(asker):
            found = self.new_job(queue, {**request, "user": user})
        # with PrivateData only a user with a job of the account may hear how many of it wait
        may_count = asker.sees_all or self.others
        account = str(request.get("account", ""))
        if not (may_count or (asker.user != "" and queue.has_job_of(asker.user, account))):
            found["jobs"][0]["ahead_of_account"] = None
        return self._head(queue) | found

    @contextmanager
    def _turn(self, asker: Asker) -> Iterator[None]:
        """One question at a time simulates the queue, and no client waits long for its turn."""
        _take(self.pace, asker)
        busy = RequestRefused(_NOT_YET, "others ask just now: ask again in a minute.")
        cost = 0.0
        with ExitStack() as held:
            held.callback(lambda: self.pace.spent(asker.client, cost))
            if not self._places.acquire(blocking=False):
                raise busy
            held.callback(self._places.release)
            if not self._lock.acquire(timeout=_PATIENCE):
                raise busy
            held.callback(self._lock.release)
            begin = self.monotonic()
            try:
                yield
            finally:
                cost = self.monotonic() - begin

    def _may_see(self, asker: Asker, user: str) -> bool:
        return asker.sees_all or self.others or (user != "" and asker.user == user)

    def _ready(self) -> ForecastQueue:
        if self._queue is None:
            raise RequestRefused(
                _NOT_YET, "there is no forecast yet: the service waits for the daemon's snapshot."
            )
        return self._queue

    def _head(self, queue: ForecastQueue) -> dict[str, Any]:
        age = self.clock() - queue.snapshot.now
        old = None
        if not -_OLD <= age <= _OLD:
            work = f"{queue.unready}, or " if queue.unready else ""  # it may take many minutes
            old = (
                f"the last snapshot of the queue is {age / 60:.0f} minutes old by this clock: "
                f"{work}the daemon may not be running, or a clock has jumped."
            )
        return {"form": FORM, "foretold": queue.snapshot.now, "old": old}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request, whatever it is."""
        pages = JsonPages("forecast", self._page, refusal=_refusal)
        return pages(environ, start_response)

    def _page(self, environ: Mapping[str, Any]) -> Page:
        path = str(environ.get("PATH_INFO") or "/")
        if path == METRICS:  # they name no job and no user
            return Page(*self.metrics())
        asker = self._asker(environ)
        if path == SCORES:
            return Page.of(self.scores())
        if path == START:
            return self._start(asker, environ)
        if path == PAGE:
            return self._users_page(asker, environ)
        raise RequestRefused(NOT_FOUND, "ask /, /start, /scores or /metrics.")

    def _users_page(self, asker: Asker, environ: Mapping[str, Any]) -> Page:
        asked = parse_qs(str(environ.get("QUERY_STRING", "")))
        user = asked.get("user", [asker.user])[-1]
        if not user:
            raise RequestRefused(_BAD, "Name a user: add ?user=NAME to the address.")
        if not self._may_see(asker, user):
            raise RequestRefused(NOT_FOUND, f"The jobs of {user!r} are not yours to see.")
        advice = {}
        if "advice" in asked:
            found = self.of_job(asker, _job_number(asked["advice"][-1]), advice=True)["jobs"][0]
            advice = {found["job"]: found.get("advice", [])}
        with self._reading_for(asker):
            queue, now = self._ready(), self.clock()
            page = users_page(
                queue,
                user,
                is_own=user == asker.user,
                started=self._started(user, now),
                scores=self.scores(),
                advice=advice,
                now=now,
                old=self._head(queue)["old"],
            )
        return Page(page.encode(), HTML, security_headers())

    def _started(self, user: str, now: float) -> GivenRows | None:
        """The user's last starts; None if their file cannot be read, as /start needs none."""
        try:
            return self.started(user, now - STARTED_SINCE, MOST_STARTED)
        except SlurmRLError:  # the next forecast of the queue logs it
            return None

    def _start(self, asker: Asker, environ: Mapping[str, Any]) -> Page:
        if environ["REQUEST_METHOD"] == "POST":
            try:
                request = json.loads(body_of(environ))
            except (ValueError, RecursionError):
                request = None
            if not isinstance(request, dict):
                raise RequestRefused(_BAD, "the body is no JSON object.")
            return Page.of(self.of_new_job(asker, request))
        asked = parse_qs(str(environ.get("QUERY_STRING", "")))
        if "job" in asked:
            job = _job_number(asked["job"][-1])
            return Page.of(self.of_job(asker, job, advice="advice" in asked))
        if "user" in asked:
            return Page(self.of_user(asker, asked["user"][-1]))
        if "all" in asked:
            return Page(self._of(asker, None if asker.sees_all or self.others else asker.user))
        return Page(self.of_user(asker, asker.user))

    def _asker(self, environ: Mapping[str, Any]) -> Asker:
        address = str(environ.get("REMOTE_ADDR", ""))
        has_token = self.is_token(str(environ.get("HTTP_AUTHORIZATION", "")))
        if self.user_key and not environ.keys().isdisjoint((self.user_key, *_OF_PROXIES)):
            named = str(environ.get(self.user_key, ""))
            if not has_token:
                raise RequestRefused(_WHO, "Only the portal, with its token, may name a user.")
            if _LOGIN.fullmatch(named) is None:
                raise RequestRefused(_WHO, "The portal names no user.")
            return Asker(user=named, sees_all=False, client=f"portal:{named}")
        if address.startswith(LOCAL_USER):
            user = str(environ.get("REMOTE_USER", ""))
            sees_all = int(address.removeprefix(LOCAL_USER)) in self.trusted
            client = address if user or sees_all else NAMELESS
            return Asker(user=user, sees_all=sees_all, client=client)
        if has_token:
            return Asker(user="", sees_all=True, client=address)
        raise RequestRefused(_WHO, "Give the site's token.")


def _job_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise RequestRefused(_BAD, f"{text[:40]!r} is no number of a job.")
    return int(text)


def _refusal(environ: Mapping[str, Any], error: RequestRefused) -> Page:
    """A refusal: for people on the users' page, else as JSON."""
    if str(environ.get("PATH_INFO") or PAGE) != PAGE:
        return Page.of({"error": str(error)})
    text = render(
        "refused.html",
        title="No forecast",
        reason=str(error),
        status=error.status.partition(" ")[0],
    )
    return Page(text.encode(), HTML, security_headers())
