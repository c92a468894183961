"""Keys of the service that foretells when jobs start: [forecast]."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.configuration.keys import tls
from slurm_rl_plugin.configuration.keys.key import key


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSection:
    """Where the daemon leaves the queue, what the service makes of it, and who may ask."""

    queue_file: str = key(
        default="",
        at_start=True,
        meaning="where the daemon leaves each look at the queue for the forecast service; empty "
        "for nowhere",
        note="As `/var/lib/slurm-rl/queue.npz`. Written beside, then renamed; its group may read "
        "it. The service asks the batch system nothing that the daemon has looked at.",
    )
    every: float = key(
        default=60.0, least=1, meaning="seconds between two forecasts of the whole queue"
    )
    draws: int = key(
        default=24,
        least=4,
        most=500,
        meaning="replays of the queue for each forecast, most",
        note="Fewer where they would take longer than half of `every`, four at least.",
    )
    history_days: float = key(
        default=42.0,
        least=2,
        meaning="days of accounting that run times, arrivals and waits are learned from",
    )
    log: str = key(
        default="",
        meaning="an accounting log to learn from, read again each hour; empty asks Slurm's "
        "accounting by sacct",
    )
    kept_file: str = key(
        default="/var/lib/slurm-rl-forecast/forecasts.sqlite",
        least=1,
        meaning="where forecasts are kept until their jobs have started, and scored",
    )
    kept_days: float = key(default=42.0, least=2, meaning="days for which they are kept")
    socket: str = key(
        default="/run/slurm-rl-forecast/socket",
        meaning="socket that users of this host ask at; empty for none",
        note="The kernel tells the service who asks, so nobody needs a token.",
    )
    address: str = key(
        default="127.0.0.1",
        meaning="address to serve portals and Prometheus on; empty for none",
        note="Elsewhere than on the loopback address it is served by TLS only.",
    )
    port: int = key(default=9345, least=0, most=65535, meaning="port; 0 takes any free one")
    tls_certificate: str = tls.tls_certificate()
    tls_key: str = tls.tls_key()
    tls_client_ca: str = tls.tls_client_ca()
    token_file: str = key(
        default="",
        meaning="the token with which a portal may ask for any user; empty lets none ask",
        note="`/metrics` needs none. Make it with `openssl rand -hex 32`; a new one in the file "
        "counts at once.",
    )
    others: bool = key(
        default=False,
        meaning="whether users may ask for jobs of others; root and the service's own user may",
        note="Leave it off where Slurm's PrivateData has jobs.",
    )
    notice_file: str = key(
        default="",
        meaning="text on the waits of now, without jobs or users, as in /etc/motd.d; "
        "empty for none",
        note="The package makes /run/slurm-rl-notice/starts for it: a folder of root's, in which "
        "the service may change that file alone, because root reads it at each login.",
    )
