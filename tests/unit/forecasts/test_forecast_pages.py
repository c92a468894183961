"""Who hears what from the forecast service, and how much work each client may cause."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.live import forecast_pages
from slurm_rl_plugin.forecasts.live.asked_queue import QUESTION_SECONDS
from slurm_rl_plugin.forecasts.live.forecast_pages import (
    Asker,
    ForecastPages,
)
from tests.case_files import rows
from tests.unit.forecasts.live_site import Clock


class OneQueue:
    """A forecast of a queue with one job of ann's."""

    unready = ""

    class snapshot:  # noqa: N801 - replaces an attribute
        now = 1000.0
        pending = (1,)

    def place_of(self, job: int) -> int | None:
        return 0 if job == 7 else None

    def user_of(self, place: int) -> str:
        return ("ann",)[place]

    def users_jobs(self, user: str | None) -> list[int]:
        return [0] if user in ("ann", None) else []

    def has_job_of(self, user: str, account: str) -> bool:
        return (user, account) == ("ann", "physics")

    written = 0

    def documents(self, places: list[int]) -> list[dict[str, Any]]:
        self.written += 1
        return [{"job": 7 + place, "forecast": {"start": 2000.0}} for place in places]


@dataclass(slots=True)
class Pace:
    """Refuses or admits all clients, and notes its arguments."""

    wait: float
    cost: list[tuple[str, float]] = field(default_factory=list)

    def pause(self, client: str) -> float:
        return self.wait

    def spent(self, client: str, seconds: float) -> None:
        self.cost.append((client, seconds))


def pages(
    *,
    others: bool = False,
    pace: Any = None,
    reading: Any = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> ForecastPages:
    served = ForecastPages(
        others=others,
        clock=lambda: 1000.0,
        monotonic=monotonic,
        new_job=lambda queue, request: {"jobs": [{**request, "ahead_of_account": 3}]},
        advice=lambda queue, place: [{"words": "ask for less"}],
        scores=lambda: {"given": 1},
        metrics=lambda: (b"slurm_rl_forecasts_given 1\n", "text/plain"),
        trusted=frozenset({0}),
        is_token=lambda header: header == "Bearer right",
        started=lambda user, since, most: pytest.fail("asked for no page"),
        user_key="HTTP_X_FORWARDED_USER",
    )
    served.pace, served.reading = pace or served.pace, reading or served.reading
    served.renew(OneQueue())  # type: ignore[arg-type]
    return served


def slow_pages(took: float, pace: Any = None) -> ForecastPages:
    """Pages whose questions take some seconds by a clock."""
    clock = Clock()
    served = pages(pace=pace, monotonic=clock)

    def new_job(queue: object, request: Mapping[str, Any]) -> dict[str, Any]:
        clock.now += took
        return {"jobs": [{}]}

    served.new_job = new_job
    return served


def asked(
    service: ForecastPages, query: str, *, page: str = "/start", body: bytes = b"", **more: str
) -> tuple[str, Any]:
    environ: Mapping[str, Any] = {
        "PATH_INFO": page,
        "QUERY_STRING": query,
        "REQUEST_METHOD": "POST" if body else "GET",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **more,
    }
    said: list[str] = []
    (answer,) = service(dict(environ), lambda status, headers: said.append(status))
    return said[0], answer if page == "/metrics" else json.loads(answer)


ANN, BEN, ROOT, NAMELESS = (
    {"REMOTE_ADDR": f"uid:{number}", "REMOTE_USER": name}
    for number, name in ((1, "ann"), (2, "ben"), (0, "root"), (100_000, ""))
)


STRANGER = {"REMOTE_ADDR": "10.0.0.1"}
PORTAL = {**STRANGER, "HTTP_AUTHORIZATION": "Bearer right"}
WHO = {"ann": ANN, "ben": BEN, "root": ROOT, "nameless": NAMELESS, "portal": PORTAL}
WHO["stranger"] = STRANGER


@rows("pages", "seen", "who target others status jobs")
def test_who_sees_which_jobs(who: str, target: str, others: bool, status: int, jobs: int) -> None:
    page, _, query = target.partition("?")
    said, answer = asked(pages(others=others), query, page=page, **WHO[who])
    assert said.startswith(str(status))
    assert len(answer.get("jobs", [])) == jobs


def test_a_job_of_another_is_as_one_that_is_not_there_and_metrics_are_for_all() -> None:
    unknown, other = (asked(pages(), f"job={job}", **BEN)[1]["error"] for job in (8, 7))
    assert other == unknown.replace("8", "7")
    assert asked(pages(), "", page="/metrics", **STRANGER)[1].startswith(b"slurm_rl_")


@rows("pages", "new_job", "who others user counts")
def test_whose_job_is_asked_about(who: str, others: bool, user: str, counts: bool) -> None:
    body = json.dumps({"account": "physics", "user": "ann"}).encode()
    (job,) = asked(pages(others=others), "", body=body, **WHO[who])[1]["jobs"]
    assert (job["user"], job["ahead_of_account"]) == (user, 3 if counts else None)


def test_jobs_are_written_once_for_each_forecast() -> None:
    service = pages(others=True)
    queue: Any = service._queue
    for query in ("all=1", "user=ann", "all=1", "user=ann"):
        assert len(asked(service, query, **ANN)[1]["jobs"]) == 1
    assert queue.written == 2
    for number in range(50):  # names that a client makes up are not kept
        assert asked(service, f"user=x{number}", **ANN)[1]["jobs"] == []
    assert set(service._written) == {None, "ann"}
    service.renew(queue)
    assert service._written == {}


def test_what_reading_costs_is_counted_and_bounded() -> None:
    reading = Pace(0.0)
    assert asked(pages(reading=reading), "", **ANN)[0] == "200 OK"
    assert [client for client, _ in reading.cost] == ["uid:1"]
    status, answer = asked(pages(reading=Pace(2.5)), "all=1", **ANN)
    assert status == "429 Too Many Requests"
    assert "ask again in 3 s" in answer["error"]
    now = [0.0]
    pace = pages(monotonic=lambda: now[0]).reading
    asks = 0
    for now[0] in np.arange(0.0, 600.0, 0.01).tolist():
        if pace.pause("uid:1") == 0.0:
            pace.spent("uid:1", 0.5)  # a document of a queue of many thousand jobs
            asks += 1
    assert asks * 0.5 <= 600.0 / 20 + 4.0


def test_few_questions_wait_at_a_time() -> None:
    """Each holds a connection; the others are kept for metrics and for what is there already."""
    service = pages()
    with ThreadPoolExecutor(forecast_pages.MOST_WAITING) as pool, service._turn(_asker("ben")):
        waiting = [
            pool.submit(asked, service, "", body=b"{}", REMOTE_ADDR=f"uid:{n}", REMOTE_USER=f"u{n}")
            for n in range(forecast_pages.MOST_WAITING)
        ]
        while service._places._value:
            time.sleep(0.001)
        assert asked(service, "", body=b"{}", **ANN)[0] == "503 Service Unavailable"
        assert asked(service, "job=7", **ANN)[0] == "200 OK"
    assert {each.result()[0] for each in waiting} == {"200 OK"}
    assert asked(service, "", body=b"{}", **ANN)[0] == "200 OK"


@pytest.mark.parametrize("query", ["job=7&advice=1", ""])
def test_what_plays_the_queue_forward_is_asked_seldom(query: str) -> None:
    body = b"" if query else b'{"processors": 1}'
    pace = Pace(3.2)
    status, answer = asked(pages(pace=pace), query, body=body, **ANN)
    assert status == "429 Too Many Requests"
    assert "ask again in 4 s" in answer["error"]
    assert asked(pages(pace=pace), "job=7", **ANN)[0] == "200 OK"  # costs nothing
    assert pace.cost == []


def test_a_question_counts_as_what_it_took_and_not_as_the_wait_for_others() -> None:
    pace = Pace(0.0)
    assert asked(slow_pages(9.0, pace), "", body=b"{}", **ANN)[0] == "200 OK"
    assert pace.cost == [("uid:1", 9.0)]


def test_one_client_cannot_keep_the_others_waiting() -> None:
    """He asks as often as he can, each question as long as one may be."""
    now = [0.0]
    pace, longest = pages(monotonic=lambda: now[0]).pace, QUESTION_SECONDS
    at_once = 0
    while pace.pause("uid:1") == 0.0:
        at_once += 1
    assert at_once * longest < forecast_pages._PATIENCE  # who comes then waits for these
    for _ in range(at_once):
        pace.spent("uid:1", longest)
    held = 0.0
    for now[0] in np.arange(0.0, 3600.0, 1.0).tolist():
        if pace.pause("uid:1") == 0.0:
            held += longest
            pace.spent("uid:1", longest)
    assert held <= 3600.0 / 4
    assert pace.pause("uid:2") == 0.0


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"[]", 400), (b"{", 400), (b"\xff", 400), (b'{"a":' * 1500, 400), (b"x" * 9000, 413)],
)
def test_a_body_that_is_no_object_is_refused(body: bytes, status: int) -> None:
    assert asked(pages(), "", body=body, **ANN)[0].startswith(str(status))


def test_nobody_waits_for_ever_behind_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast_pages, "_PATIENCE", 0.01)
    desk = pages()
    with desk._turn(_asker("ben")), pytest.raises(RequestRefused, match="others ask just now"):
        desk.of_new_job(_asker("ann"), {})
    assert desk.of_new_job(_asker("ann"), {})["jobs"]


def _asker(name: str) -> Asker:
    return Asker(user=name, sees_all=False, client=name)


def test_an_old_look_is_said() -> None:
    service = pages()
    service.clock = lambda: 1000.0 + 25 * 60
    assert "25 minutes old" in asked(service, "job=7", **ANN)[1]["old"]
    service._queue.unready = "accounting is still being read"  # type: ignore[union-attr,misc]
    old = asked(service, "job=7", **ANN)[1]["old"]
    assert "clock: accounting is still being read, or the daemon" in old
