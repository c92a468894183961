"""Reads a daemon's live state over HTTP, for a health check."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException

from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.serving.tls import TlsFiles, reading_context

#: Seconds that a daemon may take to answer.
TIMEOUT = 2.0
#: Bytes of the longest answer that is read.
LONGEST_ANSWER = 50_000_000
#: What `LiveState.of_document` and json raise for another document.
_NO_STATE = (ValueError, KeyError, TypeError, RecursionError)
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound to


def read_live_state(address: str, port: int, tls: TlsFiles | None = None) -> LiveState | str:
    """The state of the daemon at an address, or one sentence that says why there is none.

    Of the daemon's `tls` files only its own certificate is read, and trusted.
    """
    host = _EVERYWHERE.get(address, address)
    host = f"[{host}]" if ":" in host else host
    url = f"{'http' if tls is None else 'https'}://{host}:{port}/state"
    if tls is not None and tls.client_authority is not None:
        return f"the daemon at {url} wants a client's certificate (tls_client_ca): ask Prometheus"
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if tls is not None:
        try:
            context = reading_context(tls.certificate)
        except OSError as error:
            return f"tls_certificate {tls.certificate} cannot be read ({error.strerror or error})"
        handlers.append(urllib.request.HTTPSHandler(context=context))
    direct = urllib.request.build_opener(*handlers)
    try:
        with direct.open(url, timeout=TIMEOUT) as answer:
            return LiveState.of_document(json.loads(answer.read(LONGEST_ANSWER)))
    except OSError as error:
        if not isinstance(error, urllib.error.HTTPError):
            return f"no daemon answers at {url} ({getattr(error, 'reason', None) or error})"
        fault: Exception = error
    except (HTTPException, *_NO_STATE) as error:
        fault = error
    return f"the server at {url} is not a slurm-rl daemon of this release ({fault})"
