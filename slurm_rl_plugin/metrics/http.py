"""The metrics endpoint: /metrics on one address, in a thread that is never waited for."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from slurm_rl_plugin.errors import ConfigurationError


def serve_metrics(registry: CollectorRegistry, address: str, port: int) -> int:
    """Serve a registry over HTTP.

    Args:
        registry: what to serve.
        address: to listen on; 127.0.0.1 unless the site decides otherwise.
        port: 0 takes any free one.

    Returns:
        The port in use.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    try:
        server, _ = start_http_server(port, addr=address, registry=registry)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"metrics cannot listen on {address}:{port} ({error}): set [metrics] port to "
            "a free one."
        ) from None
    return int(server.server_port)
