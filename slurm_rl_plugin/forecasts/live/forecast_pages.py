"""The pages of the forecast service: GET and POST /start, GET /scores, GET /metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.live.forecast_desk import (
    NOT_FOUND,
    Asker,
    ForecastDesk,
    number_of_job,
)
from slurm_rl_plugin.serving.clients import LOCAL_USER, NAMELESS
from slurm_rl_plugin.serving.json_pages import JsonPages, Page, body_of

START, SCORES, METRICS = "/start", "/scores", "/metrics"


@dataclass(slots=True, kw_only=True)
class ForecastPages:
    """The WSGI application of the forecast service.

    Attributes:
        desk: decides who is told what.
        scores: how good forecasts have been, as a document.
        metrics: the same as Prometheus's text, and its content type.
        trusted: numbers of users that see everything.
        is_token: whether a header `Authorization` bears the site's token; it sees everything.
    """

    desk: ForecastDesk
    scores: Callable[[], dict[str, Any]]
    metrics: Callable[[], tuple[bytes, str]]
    trusted: frozenset[int]
    is_token: Callable[[str], bool]

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request, whatever it is."""
        return JsonPages("forecast", self._page)(environ, start_response)

    def _page(self, environ: Mapping[str, Any]) -> Page:
        path = str(environ.get("PATH_INFO") or "/")
        if path == METRICS:  # they name no job and no user
            return Page(*self.metrics())
        asker = self._asker(environ)
        if path == SCORES:
            return Page.of(self.scores())
        if path == START:
            return self._start(asker, environ)
        raise RequestRefused(NOT_FOUND, "ask /start, /scores or /metrics.")

    def _start(self, asker: Asker, environ: Mapping[str, Any]) -> Page:
        if environ["REQUEST_METHOD"] == "POST":
            return Page.of(self.desk.of_new_job(asker, _object(body_of(environ))))
        asked = parse_qs(str(environ.get("QUERY_STRING", "")))
        if "job" in asked:
            number = number_of_job(asked["job"][-1])
            return Page.of(self.desk.of_job(asker, number, advice="advice" in asked))
        if "user" in asked:
            return Page(self.desk.of_user(asker, asked["user"][-1]))
        if "all" in asked:
            return Page(self.desk.of_all(asker))
        return Page(self.desk.of_user(asker, asker.user))

    def _asker(self, environ: Mapping[str, Any]) -> Asker:
        address = str(environ.get("REMOTE_ADDR", ""))
        if address.startswith(LOCAL_USER):
            user = str(environ.get("REMOTE_USER", ""))
            sees_all = int(address.removeprefix(LOCAL_USER)) in self.trusted
            client = address if user or sees_all else NAMELESS
            return Asker(user=user, sees_all=sees_all, client=client)
        if self.is_token(str(environ.get("HTTP_AUTHORIZATION", ""))):
            return Asker(user="", sees_all=True, client=address)
        raise RequestRefused("401 Unauthorized", "give the site's token.")


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RequestRefused("400 Bad Request", "the body is no JSON object.")
    return found
