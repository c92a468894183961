"""What the forecast service of this host says, for operators; nothing where none runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.forecasts.service_client import ServiceClient
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import SlurmRLError


def foretold_start(configuration: Configuration, job: int) -> dict[str, Any] | None:
    """What is told of one job; None where nothing is."""
    client = _client(configuration)
    if client is None:
        return None
    try:
        found: dict[str, Any] = client.get(job=job)["jobs"][0]
    except SlurmRLError:  # the explanation is whole without it
        return None
    return found


def foretold_starts(configuration: Configuration) -> dict[int, float]:
    """Median start of each job of which something is told, seconds since the epoch.

    Raises:
        ConfigurationError: no service answers.
        RequestRefused: it says why it tells nothing.
    """
    client = _client(configuration) or ServiceClient(
        socket=configuration.sections.forecast.socket or "(none)"
    )
    return {
        int(each["job"]): float(each["forecast"]["start"])
        for each in client.get(all=1)["jobs"]
        if each["forecast"] is not None
    }


def _client(configuration: Configuration) -> ServiceClient | None:
    path = configuration.sections.forecast.socket
    return ServiceClient(socket=path) if path and Path(path).exists() else None
