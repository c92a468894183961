"""Asks the forecast service: at its socket on this host, or by its address and token."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from slurm_rl_plugin.brokers.live.remote_site import service_address
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import ConfigurationError, RequestRefused, SlurmRLError
from slurm_rl_plugin.serving.clients import read_token

#: Seconds that an answer may take; a question about another request plays the queue forward.
_TIMEOUT = 60.0
#: Bytes of the longest answer: 100,000 jobs.
_LONGEST = 128 * 1024**2


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a socket of this host."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceClient:
    """Where the service is."""

    socket: str
    url: str = ""
    token_file: str = ""

    def get(self, **query: str | int) -> dict[str, Any]:
        """The answer of GET /start."""
        return self._asked("GET", "/start?" + urlencode(query), None)

    def post(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of POST /start; raises as `get` does."""
        return self._asked("POST", "/start", json.dumps(request).encode())

    def _asked(self, method: str, page: str, body: bytes | None) -> dict[str, Any]:
        connection = self._connection()
        try:
            bearer = f"Bearer {read_token(Path(self.token_file))}" if self.url else ""
            headers = {"Authorization": bearer} if bearer else {}
            connection.request(method, page, body=body, headers=headers)
            response = connection.getresponse()
            found = json.loads(response.read(_LONGEST))
            if not isinstance(found, dict):
                raise ValueError("its answer is not that of a forecast service")
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"the forecast service at {self.url or self.socket} does not answer "
                f"({getattr(error, 'strerror', None) or error}): ask the administrator "
                "whether `slurm-rl forecast` runs on this host, or give --url and --token-file."
            ) from None
        finally:
            connection.close()
        if response.status != 200:
            raise RequestRefused(str(response.status), str(found.get("error", "no reason")))
        answer: dict[str, Any] = found
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if not self.url:
            return _SocketConnection(self.socket)
        where = service_address(self.url)
        host = where.hostname or ""
        if where.scheme == "http":
            return http.client.HTTPConnection(host, where.port, timeout=_TIMEOUT)
        return http.client.HTTPSConnection(
            host, where.port, timeout=_TIMEOUT, context=ssl.create_default_context()
        )


def forecast_start(configuration: Configuration, job: int) -> dict[str, Any] | None:
    """The document of one job; None if no service answers."""
    client = _client(configuration)
    if client is None:
        return None
    try:
        found: dict[str, Any] = client.get(job=job)["jobs"][0]
    except SlurmRLError:  # the explanation is whole without it
        return None
    return found


def forecast_starts(configuration: Configuration) -> dict[int, float]:
    """Median start of each job with a calibrated forecast, seconds since the epoch."""
    client = _client(configuration) or ServiceClient(
        socket=configuration.sections.forecast.socket or "(none)"
    )
    return {
        int(each["job"]): float(each["forecast"]["start"])
        for each in client.get(all=1)["jobs"]
        if each["forecast"] is not None and each.get("calibrated", True)
    }


def _client(configuration: Configuration) -> ServiceClient | None:
    path = configuration.sections.forecast.socket
    return ServiceClient(socket=path) if path and Path(path).exists() else None
