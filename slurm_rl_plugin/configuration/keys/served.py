"""Keys of what is served and asked between hosts: [metrics], [forecast], [offer] and [route]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slurm_rl_plugin.brokers.registry import BROKERS
from slurm_rl_plugin.configuration.keys.key import key


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """What every section has that serves."""

    address: str = key(default="127.0.0.1", meaning="address to serve on")
    port: int = key(default=0, least=0, most=65535, meaning="port; 0 takes any free one")
    tls_certificate: str = key(
        default="",
        meaning="certificate in PEM form, for HTTPS; empty for HTTP",
        note="Needs `tls_key`; followed by those that link it to its authority. What replaces the "
        "file later is taken by itself.",
    )
    tls_key: str = key(
        default="",
        meaning="key of the certificate in PEM form",
        note="Without a passphrase; only the user of the service should be able to read it.",
    )
    tls_client_ca: str = key(
        default="",
        meaning="clients must have a certificate of this authority; empty for any client",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSection(_Served):
    """Where what the daemon did can be read."""

    AT_START: ClassVar[bool] = True

    address: str = key(
        default="127.0.0.1",
        meaning="address to serve /metrics on",
        note="Elsewhere than on the loopback address, serve it by TLS.",
    )
    port: int = key(default=9343, least=0, most=65535, meaning="port; 0 takes any free one")
    max_accounts: int = key(default=200, least=1, meaning="accounts with series of their own")
    textfile: str = key(
        default="",
        meaning="file for node_exporter's textfile collector, written after each cycle; empty "
        "for none",
        note="Its name ends in `.prom`.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSection(_Served):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferSection(_Served):
    """What the offer service tells, to whom, and at which price."""

    address: str = key(
        default="127.0.0.1",
        meaning="address to serve /offer on",
        note="Elsewhere than on the loopback address it is served by TLS only.",
    )
    port: int = key(default=9344, least=0, most=65535, meaning="port; 0 takes any free one")
    token_file: str = key(
        default="/etc/slurm-rl/offer-token",
        least=1,
        meaning="the token that whoever asks must give, 32 characters at least",
        note="Make it with `openssl rand -hex 32`; a new one in the file counts at once.",
    )
    requests_per_minute: float = key(
        default=60.0,
        least=1,
        meaning="requests that one address may make in the long run",
        note="A third of them without a pause. All users of a login node are one address.",
    )
    timeout: float = key(
        default=5.0,
        least=0.1,
        most=60,
        meaning="seconds until a will-run test is killed, and that a request waits for its turn",
    )
    keep: float = key(
        default=5.0,
        least=0,
        meaning="seconds for which the answer of a will-run test is given again",
    )
    tests_at_once: int = key(default=2, least=1, most=16, meaning="most will-run tests at a time")
    busy_share: float = key(
        default=0.1,
        least=0.001,
        most=1,
        meaning="most of the time of each that tests may take",
        note="With 0.1 a test of 30 ms is followed by a pause of 270 ms, one of 2 s by 18 s.",
    )
    account: str = key(
        default="",
        meaning="account under which will-run tests are made; empty for the job's own",
        note="Slurm tests as the user of the service ([which user](brokers.md#which-user-asks)).",
    )
    price: str = key(
        default="0",
        least=1,
        meaning="formula of the price: numbers, + - * / **, min, max, abs, sqrt, log, exp",
        note="Over the owner's variables ([table](brokers.md#variables)), or MF1 to MF6. Those of "
        "the schedule have the service run squeue once a minute at most.",
    )
    utility_model: str = key(
        default="",
        meaning="model of slurm-rl train --algorithm site-utility, whose utilities the site "
        "publishes; empty for none",
        note="Computed at most once a minute while somebody asks. Where it is empty, or knows "
        "nothing of such jobs, the time utility of the expected wait is offered.",
    )
    forward_hops: int = key(
        default=0,
        least=0,
        most=8,
        meaning="how often a request may be forwarded from here on; 0 forwards none",
        note="Forwarded to the sites of [route] sites_file only, for offers only "
        "([forwarding](brokers.md#forwarding)).",
    )
    bind_seconds: float = key(
        default=0.0,
        least=0,
        most=3600,
        meaning="seconds for which an accepted offer waits for its job; 0 binds none",
        note="By an advance reservation, for which slurmrl-offer must be an Operator of Slurm "
        "([binding](brokers.md#binding)).",
    )
    bind_most: int = key(default=2, least=1, most=64, meaning="most reservations at a time")
    bind_part: float = key(
        default=0.05,
        least=0.001,
        most=1,
        meaning="most of the site's processors that all reservations hold together",
    )
    bind_file: str = key(
        default="/var/lib/slurm-rl-offer/bound.json",
        least=1,
        meaning="reservations that stand, to take back after a crash",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSection:
    """How `slurm-rl route` asks and chooses."""

    sites_file: str = key(
        default="/etc/slurm-rl/sites.toml",
        meaning="the sites that route asks; empty for those of the user's own file only",
        note="A [[site]] each: [sites](brokers.md#the-sites).",
    )
    broker: str = key(default="earliest", choices=BROKERS, meaning="who ranks the sites")
    shared_experience: str = key(
        default="",
        meaning="folder of the waits that users share, for broker learning; empty for none",
        note="Root's, with the sticky bit: [shared experience](brokers.md#shared-experience).",
    )
    formula: str = key(
        default="-StartTime / 60 - JobCost",
        least=1,
        meaning="what an offer is worth to the market's user; higher is better",
        note="Over the user's variables ([table](brokers.md#variables)), or UF1 to UF5.",
    )
    timeout: float = key(
        default=10.0,
        least=0.1,
        meaning="seconds that the sites have to answer, all together",
    )
    hops: int = key(
        default=0,
        least=0,
        most=8,
        meaning="how often the sites may forward a request; 0 asks the listed sites only",
        note="For sites that [forward](brokers.md#forwarding); one of 0.1.0 refuses such requests.",
    )
    bind: bool = key(
        default=False,
        meaning="whether --submit first asks the chosen site to bind its offer",
        note="A site that does not is submitted to as always.",
    )
    submit_timeout: float = key(
        default=60.0, least=1, meaning="seconds until sbatch or sacct is killed"
    )
