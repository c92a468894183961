"""Keys of what the site wants and shows: [reward], [guard_rails] and [metrics]."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.configuration.keys import tls
from slurm_rl_plugin.configuration.keys.key import key


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSection:
    """What a model of this site must have been trained towards."""

    time_utility: float = key(default=0.25, least=0, meaning="weight of time utility")
    responsiveness: float = key(default=0.25, least=0, meaning="weight of responsiveness")
    fairness: float = key(default=0.5, least=0, meaning="weight of fairness")
    tail: float = key(
        default=0.0,
        least=0,
        meaning="weight of the longest wait",
        note="Relative to FIFO's longest wait.",
    )
    batch_delay: float = key(
        default=0.0,
        least=0,
        meaning="weight of what held processors cost batch jobs: their mean wait over that under "
        "shortest job first, as far as it exceeds 1.1",
    )
    slowdown: float = key(
        default=10.0,
        least=0,
        meaning="weight of the mean bounded slowdown",
        note="Over that of smallest area first with requested times, as a logarithm; at 10 hardly "
        "anything else counts.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRailsSection:
    """What no policy may do."""

    starvation_hours: float = key(
        default=336.0,
        least=0,
        meaning="a job that has accrued more waiting goes first; 0 for no bound",
        note="The longest waiting first of all; not while a job waits by its own doing. The last "
        "resort: models protect jobs long before (docs/protection.md). Before a rule that "
        "protects none give 72, or `protected:` in [policy] model.",
    )
    exempt_accounts: list[str] = key(default=[], meaning="accounts that are never touched")
    exempt_partitions: list[str] = key(default=[], meaning="partitions that are never touched")
    exempt_qos: list[str] = key(default=[], meaning="QOS that are never touched")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSection:
    """Where what the daemon did can be read."""

    address: str = key(
        default="127.0.0.1",
        at_start=True,
        meaning="address to serve /metrics on",
        note="Elsewhere than on the loopback address, serve it by TLS.",
    )
    port: int = key(
        default=9343,
        least=0,
        most=65535,
        at_start=True,
        meaning="port; 0 takes any free one",
    )
    max_accounts: int = key(
        default=200, least=1, at_start=True, meaning="accounts with series of their own"
    )
    tls_certificate: str = tls.tls_certificate(
        "Followed by those that link it to its authority.", at_start=True
    )
    tls_key: str = tls.tls_key(
        "Without a passphrase; only the user of the daemon should be able to read it.",
        at_start=True,
    )
    tls_client_ca: str = tls.tls_client_ca(at_start=True)
    textfile: str = key(
        default="",
        at_start=True,
        meaning="file for node_exporter's textfile collector, written after each cycle; empty "
        "for none",
        note="Its name ends in `.prom`.",
    )
