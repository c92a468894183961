"""Answers requests with JSON documents: refusals and faults have one form in every service."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.errors import RequestRefused

logger = logging.getLogger(__name__)

#: Bytes of the longest body of a request.
LONGEST_BODY = 8192
#: A WSGI application (PEP 3333).
Pages = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
#: What a client is told that asks too often.
TOO_OFTEN = "429 Too Many Requests"


@dataclass(frozen=True, slots=True)
class Page:
    """The body of an answer."""

    body: bytes
    kind: str = "application/json"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Page:
        """A document as JSON."""
        return cls(json.dumps(document).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class JsonPages:
    """A WSGI application that answers with pages or with a refusal in JSON."""

    service: str
    answer: Callable[[Mapping[str, Any]], Page]
    refused: Callable[[str], None] | None = None

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request, whatever it is."""
        more: list[tuple[str, str]] = []
        try:
            status, page = "200 OK", self.answer(environ)
        except RequestRefused as error:
            status, page = error.status, Page.of({"error": str(error)})
            if self.refused is not None:
                self.refused(status)
            if error.retry_after is not None:
                more.append(("Retry-After", str(math.ceil(error.retry_after))))
            if status.startswith("401"):
                more.append(("WWW-Authenticate", "Bearer"))
        except Exception:  # our bug must show in the log, not end the thread without a word
            logger.exception("%s=broken", self.service)
            status = "500 Internal Server Error"
            page = Page.of({"error": "see the log of the service."})
        headers = [
            ("Content-Type", page.kind),
            ("Content-Length", str(len(page.body))),
            ("Cache-Control", "no-store"),
        ]
        start_response(status, [*headers, *more])
        return [page.body]


def body_of(environ: Mapping[str, Any]) -> bytes:
    """The body of a request, of at most LONGEST_BODY bytes."""
    length = length_of(str(environ.get("CONTENT_LENGTH") or ""))
    if length is None:
        raise RequestRefused("411 Length Required", "give Content-Length.")
    if length > LONGEST_BODY:
        words = f"the body is longer than {LONGEST_BODY} bytes."
        raise RequestRefused("413 Content Too Large", words)
    body: bytes = environ["wsgi.input"].read(length)
    if len(body) < length:
        raise RequestRefused("400 Bad Request", "the body ends too early.")
    return body


def length_of(text: str) -> int | None:
    """Bytes that a header `Content-Length` names; None where it names none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
