"""Who hears what from the forecast service, and how often he may make it work."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.cli.forecasts.forecast_assembly import question_pace
from slurm_rl_plugin.errors import ForecastRefused
from slurm_rl_plugin.forecasts.live import forecast_desk
from slurm_rl_plugin.forecasts.live.asked_queue import QUESTION_SECONDS
from slurm_rl_plugin.forecasts.live.forecast_desk import Asker, ForecastDesk, QuestionPace
from slurm_rl_plugin.forecasts.live.forecast_pages import ForecastPages


class OneQueue:
    """A foretold queue of one job of ann's."""

    too_little = ""

    class snapshot:  # noqa: N801 - stands for an attribute
        now = 1000.0
        pending = (1,)

    def place_of(self, job: int) -> int | None:
        return 0 if job == 7 else None

    def user_of(self, place: int) -> str:
        return ("ann",)[place]

    def users_jobs(self, user: str) -> list[int]:
        return [0] if user == "ann" else []

    def has_job_of(self, user: str, account: str) -> bool:
        return (user, account) == ("ann", "physics")

    def document(self, place: int) -> dict[str, Any]:
        return {"job": 7 + place, "forecast": {"start": 2000.0}}


@dataclass(slots=True)
class Pace:
    """Lets nobody or everybody ask, and notes what it is told."""

    wait: float
    cost: list[tuple[str, float]] = field(default_factory=list)

    def pause(self, client: str) -> float:
        return self.wait

    def spent(self, client: str, seconds: float) -> None:
        self.cost.append((client, seconds))


def pages(*, others: bool = False, pace: QuestionPace | None = None) -> ForecastPages:
    desk = ForecastDesk(
        others=others,
        clock=lambda: 1000.0,
        monotonic=time.monotonic,
        pace=Pace(0.0) if pace is None else pace,
        new_job=lambda queue, request: {"jobs": [{**request, "ahead_of_account": 3}]},
        advice=lambda queue, place: [{"words": "ask for less"}],
    )
    desk.renew(OneQueue())  # type: ignore[arg-type]
    return ForecastPages(
        desk=desk,
        scores=lambda: {"given": 1},
        metrics=lambda: (b"slurm_rl_forecasts_given 1\n", "text/plain"),
        name_of=lambda number: {0: "root", 1: "ann", 2: "ben"}.get(number, ""),
        trusted=frozenset({0}),
        is_token=lambda header: header == "Bearer right",
    )


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


ANN, BEN, ROOT = ({"REMOTE_ADDR": f"uid:{number}"} for number in (1, 2, 0))


def test_the_own_job_is_told_and_that_of_another_is_as_unknown() -> None:
    assert asked(pages(), "job=7", **ANN)[1]["jobs"][0]["job"] == 7
    status, other = asked(pages(), "job=7", **BEN)
    assert status == "404 Not Found"
    assert other["error"] == asked(pages(), "job=8", **BEN)[1]["error"].replace("8", "7")


def test_jobs_of_others_are_told_where_the_site_lets_see() -> None:
    assert asked(pages(others=True), "job=7", **BEN)[0] == "200 OK"
    assert asked(pages(), "all=1", **BEN)[1]["jobs"] == []
    assert asked(pages(), "user=ann", **BEN)[0] == "404 Not Found"


def test_root_and_a_portal_hear_all() -> None:
    assert len(asked(pages(), "all=1", **ROOT)[1]["jobs"]) == 1
    token = {"REMOTE_ADDR": "127.0.0.1", "HTTP_AUTHORIZATION": "Bearer right"}
    assert len(asked(pages(), "user=ann", **token)[1]["jobs"]) == 1


def test_without_a_token_the_port_tells_metrics_alone() -> None:
    stranger = {"REMOTE_ADDR": "10.0.0.1"}
    assert asked(pages(), "job=7", **stranger)[0] == "401 Unauthorized"
    assert asked(pages(), "", page="/scores", **stranger)[0] == "401 Unauthorized"
    assert asked(pages(), "", page="/metrics", **stranger)[1].startswith(b"slurm_rl_")


def test_a_user_asks_as_himself_whatever_he_writes() -> None:
    body = json.dumps({"user": "ann", "processors": 1}).encode()
    assert asked(pages(), "", body=body, **BEN)[1]["jobs"][0]["user"] == "ben"


def test_how_many_jobs_an_account_has_waiting_hears_who_has_one_of_it() -> None:
    body = json.dumps({"account": "physics", "user": "ann"}).encode()

    def told(who: Mapping[str, str], *, others: bool = False) -> int | None:
        answer = asked(pages(others=others), "", body=body, **who)[1]
        found: int | None = answer["jobs"][0]["ahead_of_account"]
        return found

    assert told(ANN) == 3
    assert told(BEN) is None
    assert told({"REMOTE_ADDR": "uid:9"}) is None  # a number without a name
    assert told(ROOT) == 3
    assert told(BEN, others=True) == 3


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
    clock, pace = [0.0], Pace(0.0)
    service = pages(pace=pace)
    desk, document = service.desk, {"job": 7, "ahead_of_account": 0}

    def new_job(queue: object, request: Mapping[str, Any]) -> dict[str, Any]:
        clock[0] += 9.0
        return {"jobs": [document]}

    desk.monotonic, desk.new_job = lambda: clock[0], new_job
    assert asked(service, "", body=b"{}", **ANN)[0] == "200 OK"
    assert pace.cost == [("uid:1", 9.0)]


def test_one_client_cannot_keep_the_others_waiting() -> None:
    """He asks as often as he can, each question as long as one may be."""
    now = [0.0]
    pace, longest = question_pace(lambda: now[0]), QUESTION_SECONDS
    at_once = 0
    while pace.pause("uid:1") == 0.0:
        at_once += 1
    assert at_once * longest < forecast_desk._PATIENCE  # who comes then waits for these
    for _ in range(at_once):
        pace.spent("uid:1", longest)
    held = 0.0
    for now[0] in np.arange(0.0, 3600.0, 1.0).tolist():
        if pace.pause("uid:1") == 0.0:
            held += longest
            pace.spent("uid:1", longest)
    assert held <= 3600.0 / 4
    assert pace.pause("uid:2") == 0.0


def test_short_questions_may_be_asked_often() -> None:
    now = [0.0]
    pace = question_pace(lambda: now[0])
    for now[0] in np.arange(0.0, 600.0, 5.0).tolist():
        assert pace.pause("uid:1") == 0.0
        pace.spent("uid:1", 0.2)


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b'{"a":' * 5000, b"x" * 9000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    assert asked(pages(), "", body=body, **ANN)[0] == "400 Bad Request"


def test_nobody_waits_for_ever_behind_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast_desk, "_PATIENCE", 0.01)
    desk = pages().desk
    ann, ben = (Asker(user=name, sees_all=False, client=name) for name in ("ann", "ben"))
    with desk._turn(ben), pytest.raises(ForecastRefused, match="others ask just now"):
        desk.of_new_job(ann, {})
    assert desk.of_new_job(ann, {})["jobs"]


def test_before_the_first_look_it_says_so() -> None:
    service = pages()
    service.desk._queue = None
    assert asked(service, "job=7", **ANN)[0] == "503 Service Unavailable"


def test_an_old_look_is_said() -> None:
    service = pages()
    service.desk.clock = lambda: 1000.0 + 25 * 60
    assert "25 minutes old" in asked(service, "job=7", **ANN)[1]["old"]
