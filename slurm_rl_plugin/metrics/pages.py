"""The pages of the daemon's port: /metrics, /state as JSON, / for people; and the textfile."""

from __future__ import annotations

import html
import json
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app

from slurm_rl_plugin import __version__
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.live_state import LiveState
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
    """Written after each cycle, whole; taken away when the daemon stops.

    What is left of a killed daemon says "up" for ever: node_textfile_mtime_seconds tells.
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
        """Take the file away; one that is not there is no failure."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("textfile=left path=%s reason=%s", self.path, error)


_HEADERS = [
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'"),
    ("X-Content-Type-Options", "nosniff"),
]


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
                page = landing_page(state)
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
    start_response(status, [("Content-Type", f"{kind}; charset=utf-8"), *_HEADERS])
    return [text.encode()]


def landing_page(told: LiveState) -> str:
    """The page that the daemon serves at /: how it is, in HTML."""
    last = told.last_success
    when = datetime.fromtimestamp(last, UTC).isoformat(" ", "seconds") if last else "never"
    failed = ", ".join(f"{count} {reason}" for reason, count in told.failures.items())
    model = told.model.get("name", "")
    sha = told.model.get("sha256", "")
    rows = {
        "mode": told.mode,
        "last cycle": ("worked" if told.up else "failed") if told.cycles else "not yet run",
        "last success": when,
        "fallback": "active: the model is not used" if told.fallback else "no",
        "model": f"{model} {sha[:12]}".strip(),
        "cycles": f"{told.cycles}, failed: {failed or 0}",
        "factors written": str(told.writes),
        "version": __version__,
    }
    cells = "\n".join(
        f"<tr><th align=left>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>slurm-rl</title></head>\n"
        f"<body><h1>slurm-rl</h1>\n<table>\n{cells}\n</table>\n"
        '<p><a href="/metrics">metrics</a></p></body></html>\n'
    )
