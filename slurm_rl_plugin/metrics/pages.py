"""The pages of the daemon's port: /metrics, /state as JSON, / for people; and the textfile."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.html_pages.pages import security_headers
from slurm_rl_plugin.metrics.admin_page import port_page
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.serving.page_server import Pages, serve_pages
from slurm_rl_plugin.serving.tls import TlsFiles
from slurm_rl_plugin.whole_file import write_whole

logger = logging.getLogger(__name__)


def check_textfile(path: Path) -> None:
    """Refuse a name that node_exporter does not read."""
    if path.suffix != ".prom":
        raise ConfigurationError(
            f"[metrics] textfile {path} is not read by node_exporter: give it a name that ends in "
            ".prom."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTextfile:
    """Replaced after each cycle; removed when the daemon stops.

    A killed daemon leaves a file that always says "up"; node_textfile_mtime_seconds shows its age.
    """

    path: Path
    registry: CollectorRegistry

    def __post_init__(self) -> None:
        check_textfile(self.path)

    def write(self) -> None:
        """Replace the file; a failure is logged, as nothing that orders jobs depends on it."""
        try:
            # node_exporter is another user
            write_whole(self.path, generate_latest(self.registry), sync=False, for_all=True)
        except OSError as error:
            logger.warning("textfile=failed path=%s reason=%s", self.path, error)

    def remove(self) -> None:
        """Remove the file; it may be missing."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("textfile=left path=%s reason=%s", self.path, error)


def serve_metrics(
    metrics: CycleMetrics, address: str, port: int, tls: TlsFiles | None = None
) -> int:
    """Serve them in threads that end with the process; the port in use, see `serve_pages`."""
    return serve_pages(metrics_pages(metrics), address, port, tls, section="metrics")


def metrics_pages(metrics: CycleMetrics) -> Pages:
    """The pages of one daemon; one page is made at a time, so that many clients cost no more."""
    scraped: Pages = make_wsgi_app(metrics.registry)
    making = threading.Lock()

    def pages(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO") or "/"
        if path not in ("/", "/metrics", "/state"):
            words = "see /, /metrics and /state\n"
            return _say(start_response, "404 Not Found", "text/plain", words)
        if method != "GET":
            return _say(start_response, "405 Method Not Allowed", "text/plain", "use GET\n")
        try:
            with making:
                if path == "/metrics":
                    return _metrics(scraped, environ, start_response)
                state = metrics.state
                if path == "/state":
                    document = json.dumps(state.document())
                    return _say(start_response, "200 OK", "application/json", document)
                page = port_page(state, time.time())  # noqa: TID251 - the time of the page
        except Exception:  # our bug must show in the log, not end the thread without a word
            logger.exception("metrics=broken path=%s", path)
            return _say(start_response, "500 Internal Server Error", "text/plain", "see the log\n")
        return _say(start_response, "200 OK", "text/html", page)

    return pages


def _metrics(
    metrics: Pages, environ: dict[str, Any], start_response: Callable[..., Any]
) -> Iterable[bytes]:
    try:
        return metrics(environ, start_response)
    except (
        TypeError,
        ValueError,
    ):  # an Accept that prometheus_client does not read; its client's fault
        return metrics({**environ, "HTTP_ACCEPT": ""}, start_response)


def _say(start_response: Callable[..., Any], status: str, kind: str, text: str) -> Iterable[bytes]:
    headers = [("Content-Type", f"{kind}; charset=utf-8"), ("Cache-Control", "no-store")]
    start_response(status, [*headers, *security_headers()])
    return [text.encode()]
