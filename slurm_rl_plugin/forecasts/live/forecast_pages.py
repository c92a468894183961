"""The pages of the forecast service: GET and POST /start, GET /scores, GET /metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from slurm_rl_plugin.domain.client_address import LOCAL_USER
from slurm_rl_plugin.errors import ForecastRefused
from slurm_rl_plugin.forecasts.live.forecast_desk import (
    NOT_FOUND,
    Asker,
    ForecastDesk,
    number_of_job,
)

logger = logging.getLogger(__name__)

#: Bytes of the longest body.
_LONGEST_BODY = 8192
_BAD, _NOBODY = "400 Bad Request", "401 Unauthorized"
START, SCORES, METRICS = "/start", "/scores", "/metrics"


@dataclass(slots=True, kw_only=True)
class ForecastPages:
    """The WSGI application of the forecast service.

    Attributes:
        desk: knows what may be told to whom.
        scores: how good forecasts have been, as a document.
        metrics: the same as Prometheus's text, and its content type.
        name_of: login name of a user's number; "" for none.
        trusted: numbers of users that see everything.
        is_token: whether a header `Authorization` bears the site's token; it sees everything.
    """

    desk: ForecastDesk
    scores: Callable[[], dict[str, Any]]
    metrics: Callable[[], tuple[bytes, str]]
    name_of: Callable[[int], str]
    trusted: frozenset[int]
    is_token: Callable[[str], bool]

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request, whatever it is."""
        kind = "application/json"
        try:
            page, status = str(environ.get("PATH_INFO") or "/"), "200 OK"
            if page == METRICS:  # they name no job and no user
                body, kind = self.metrics()
            else:
                document = self._document(self._asker(environ), page, environ)
                body = json.dumps(document).encode() + b"\n"
        except ForecastRefused as error:
            status, body = error.status, json.dumps({"error": str(error)}).encode() + b"\n"
        except Exception:  # our bug must show in the log, not end the thread without a word
            logger.exception("forecast=broken")
            status = "500 Internal Server Error"
            body = b'{"error": "see the log of the service."}\n'
        headers = [
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ]
        start_response(status, headers)
        return [body]

    def _asker(self, environ: Mapping[str, Any]) -> Asker:
        address = str(environ.get("REMOTE_ADDR", ""))
        if address.startswith(LOCAL_USER):
            number = int(address.removeprefix(LOCAL_USER))
            user, sees_all = self.name_of(number), number in self.trusted
            return Asker(user=user, sees_all=sees_all, client=address)
        if self.is_token(str(environ.get("HTTP_AUTHORIZATION", ""))):
            return Asker(user="", sees_all=True, client=address)
        raise ForecastRefused(_NOBODY, "give the site's token.")

    def _document(self, asker: Asker, page: str, environ: Mapping[str, Any]) -> dict[str, Any]:
        if page == SCORES:
            return self.scores()
        if page != START:
            raise ForecastRefused(NOT_FOUND, "ask /start, /scores or /metrics.")
        asked = parse_qs(str(environ.get("QUERY_STRING", "")))
        if environ["REQUEST_METHOD"] == "POST":
            return self.desk.of_new_job(asker, _body(environ))
        if "job" in asked:
            number = number_of_job(asked["job"][-1])
            return self.desk.of_job(asker, number, advice="advice" in asked)
        if "user" in asked:
            return self.desk.of_user(asker, asked["user"][-1])
        if "all" in asked:
            return self.desk.of_all(asker)
        return self.desk.of_user(asker, asker.user)


def _body(environ: Mapping[str, Any]) -> dict[str, Any]:
    text = str(environ.get("CONTENT_LENGTH") or "")
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= _LONGEST_BODY):
        raise ForecastRefused(_BAD, f"give a body of at most {_LONGEST_BODY} bytes and its length.")
    try:
        found = json.loads(environ["wsgi.input"].read(int(text)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ForecastRefused(_BAD, "the body is no JSON object.")
    return found
