"""Reads a daemon's own metrics back over HTTP, for a health check."""

from __future__ import annotations

import math
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING

from slurm_rl_plugin.serving.tls import TlsFiles, reading_context

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: Seconds that a daemon may take to answer.
TIMEOUT = 2.0
#: Bytes of the longest answer that is read.
LONGEST_ANSWER = 50_000_000
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound to


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMetrics:
    """What a daemon's metrics tell of it: its mode, its cycles, its model, its limit."""

    mode: str  #: one of MODES; "" where it says none
    up: bool  #: the last cycle worked
    fallback: bool  #: the policy is not used
    last_success: float  #: seconds since the epoch; 0 before the first good cycle
    cycles: int  #: run since the daemon started
    failures: dict[str, int] = field(default_factory=dict)  #: reason -> failed cycles
    writes: int = 0  #: factors
    model: dict[str, str] = field(default_factory=dict)  #: labels
    batch_limit: int | None = None  #: processors that all batch jobs may use; None for no limit
    batch_limit_fails: bool = False  #: it could not be set
    #: Part of the last fortnight's service to wrong accounts; None until enough is known.
    misdelivered: float | None = None
    #: Account -> its service over its entitlement in that fortnight.
    entitlement: dict[str, float] = field(default_factory=dict)
    #: Account -> doublings by which its usage is lowered for the policy, above 0.
    lifts: dict[str, float] = field(default_factory=dict)


def read_served_metrics(
    address: str, port: int, tls: TlsFiles | None = None
) -> ServedMetrics | str:
    """The metrics of the daemon at an address, or one sentence that says why there are none.

    Of the daemon's `tls` files only its own certificate is read, and trusted.
    """
    host = _EVERYWHERE.get(address, address)
    host = f"[{host}]" if ":" in host else host
    url = f"{'http' if tls is None else 'https'}://{host}:{port}/metrics"
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
            text = answer.read(LONGEST_ANSWER).decode()
        return _parsed(text)
    except ImportError as error:
        return f"the daemon's metrics cannot be read without prometheus_client ({error})"
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        return f"no daemon answers at {url} ({reason})"
    except (HTTPException, ValueError, KeyError) as error:
        return f"what answers at {url} is no slurm-rl daemon ({error})"


def _parsed(text: str) -> ServedMetrics:
    """The daemon's metrics, from the text that it served."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    return served_metrics(text_string_to_metric_families(text))


def served_metrics(families: Iterable[Metric]) -> ServedMetrics:
    """Picks what a health check needs."""
    values: dict[str, float] = {}
    mode, model, failures, writes = "", {}, {}, 0
    entitlement: dict[str, float] = {}
    lifts: dict[str, float] = {}
    for sample in (each for family in families for each in family.samples):
        if sample.name == "slurm_rl_mode" and sample.value:
            mode = sample.labels["slurm_rl_mode"]
        elif sample.name == "slurm_rl_model_info":
            model = dict(sample.labels)
        elif sample.name == "slurm_rl_cycle_failures_total" and sample.value:
            failures[sample.labels["reason"]] = int(sample.value)
        elif sample.name == "slurm_rl_adjustments_total":
            writes += int(sample.value)
        elif sample.name == "slurm_rl_entitlement_ratio":
            entitlement[sample.labels["account"]] = sample.value
        elif sample.name == "slurm_rl_account_lift_doublings" and sample.value:
            lifts[sample.labels["account"]] = sample.value
        elif not sample.labels:
            values[sample.name] = sample.value
    limit = values.get("slurm_rl_batch_limit_processors", math.inf)  # not of an earlier release
    return ServedMetrics(
        mode=mode,
        up=bool(values["slurm_rl_up"]),
        fallback=bool(values["slurm_rl_fallback_active"]),
        last_success=values["slurm_rl_last_success_timestamp_seconds"],
        cycles=int(values["slurm_rl_cycles_total"]),
        failures=failures,
        writes=writes,
        model=model,
        batch_limit=None if math.isinf(limit) else int(limit),
        batch_limit_fails=bool(values.get("slurm_rl_batch_limit_failing", 0.0)),
        misdelivered=values.get("slurm_rl_misdelivered_ratio"),
        entitlement=entitlement,
        lifts=lifts,
    )
