"""What the daemon of a configured site says of itself at its metrics endpoint."""

from __future__ import annotations

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.metrics.served import ServedMetrics, read_served_metrics


def daemon_metrics(configuration: Configuration) -> ServedMetrics | str:
    """The daemon's own words, or one sentence that says why there are none."""
    where = configuration.sections.metrics
    if where.port == 0:
        return "[metrics] port is 0, any free one, so the daemon cannot be asked"
    return read_served_metrics(where.address, where.port, configuration.tls)
