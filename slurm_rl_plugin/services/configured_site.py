"""The batch system of a configured site, and the live state of its daemon.

Rollback (`release`, `disable`, `status`) needs no more than this: nothing here may import a policy
or its inference library.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from slurm_rl_plugin import __version__
from slurm_rl_plugin.batch_systems.port import AdapterParts, BatchSystem, LimitKeys
from slurm_rl_plugin.batch_systems.registry import BatchSystemChoice, choose_batch_system
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.sections import OFF, reserved_amounts
from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.hook.outstanding import limits_path
from slurm_rl_plugin.serving.tls import TlsFiles, reading_context
from slurm_rl_plugin.whole_file import UNREADABLE

logger = logging.getLogger(__name__)
#: Seconds that a daemon may take to answer.
TIMEOUT = 2.0
#: Bytes of the longest answer that is read.
LONGEST_ANSWER = 50_000_000
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound to


def chosen_batch_system(configuration: Configuration) -> BatchSystemChoice:
    """Which one is taken here, and why."""
    return choose_batch_system(configuration.sections.batch_system.adapter, os.environ)


def written_influence(configuration: Configuration) -> float:
    """Hours of age that our first place adds to the site's own priority; inf for no bound."""
    is_bounded = chosen_batch_system(configuration).kind.bounds_order
    return configuration.cycle_settings.influence if is_bounded else math.inf


def build_batch_system(
    configuration: Configuration, calls: list[tuple[str, float]], *, learns_from_runs: bool = False
) -> BatchSystem:
    """The adapter for the batch system that [batch_system] names, or that is found here."""
    settings = configuration.sections.batch_system
    state_file = Path(configuration.sections.hook.state_file)
    choice, reserve = chosen_batch_system(configuration), configuration.sections.reserve
    amounts = reserved_amounts(reserve.most_resources) if configuration.is_whole else ()
    limit = LimitKeys(
        mechanism=None if reserve.mechanism == OFF else reserve.mechanism,
        qos=reserve.qos,
        license=reserve.license,
        reservation=reserve.reservation,
        queues=tuple(reserve.queues),
        resources=tuple(amounts),
        # what of a faulty configuration is a default is not known to be the site's
        is_known=configuration.is_whole,
    )
    logger.info("batch_system=%s because=%s", choice.kind.name, choice.because)
    parts = AdapterParts(
        adapter=settings.adapter,
        shares=configuration.shares,
        classifier=configuration.classifier,
        clock=time.time,  # noqa: TID251 - the composition root hands out the clock
        timeout=float(settings.timeout),
        environment=dict(os.environ),
        on_call=calls.append,
        history_days=float(settings.history_days) if learns_from_runs else 0.0,
        host=socket.gethostname(),
        state_file=state_file,
        limits_file=limits_path(state_file),
        limit=limit,
    )
    return choice.kind.build(parts)


def daemon_state(configuration: Configuration) -> LiveState | str:
    """The live state of the daemon, or one sentence that says why there is none."""
    where = configuration.sections.metrics
    if where.port == 0:
        return "[metrics] port is 0, any free one, so the daemon cannot be found"
    found = read_live_state(where.address, where.port, configuration.tls_of("metrics"))
    if isinstance(found, str):
        return found
    own = os.path.realpath(configuration.sections.hook.state_file)
    if found.state_file == own:
        return found
    return f"the daemon at port {where.port} has state file {found.state_file}, not {own}"


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
    document: Any = None
    try:
        with direct.open(url, timeout=TIMEOUT) as answer:
            document = json.loads(answer.read(LONGEST_ANSWER))
        return LiveState.of_document(document)
    except OSError as error:
        if not isinstance(error, urllib.error.HTTPError):
            return f"no daemon answers at {url} ({getattr(error, 'reason', None) or error})"
        fault: Exception = error
    except (HTTPException, *UNREADABLE) as error:
        fault = error
    if isinstance(document, dict) and document.get("version", __version__) != __version__:
        release = str(document["version"])[:40]
        return f"the daemon at {url} is of release {release}, not {__version__}: restart it"
    return f"the server at {url} is not a slurm-rl daemon of this release ({fault})"
