"""Keys of what the site wants and shows: [goals], [reward], [guard_rails], [guard], [metrics]."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.configuration.keys import tls
from slurm_rl_plugin.configuration.keys.key import key
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING
from slurm_rl_plugin.domain.job_groups import GROUPS


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalsSection:
    """What counts in the order, and how much; in force at the next cycle after a reload."""

    shares: float = key(
        default=POINTS_A_DOUBLING,
        least=0,
        most=100,
        meaning="points that a job loses for each doubling of what its account has used over its "
        "share, and gains for each halving; 0 for none",
        note="Where all accounts have equal shares, as batch systems give them by default, nothing "
        "counts unless this key is given.",
    )
    short_jobs: float = key(
        default=1.0,
        least=0,
        most=10,
        meaning="how much the predicted run time counts; 1 as the model was trained, 0 not at all",
    )
    wide_jobs: float = key(
        default=1.0,
        least=0,
        most=10,
        meaning="how much the size of a job counts, which lifts wide ones; 1 as the model was "
        "trained",
    )
    longest_wait: float = key(
        default=1.0,
        least=0,
        most=10,
        meaning="how much a wait counts beyond half of the longest wait that the site has known "
        "lately; 1 as the model was trained",
    )
    interactive: float = key(
        default=0.0,
        least=0,
        most=100,
        meaning="points that a job of the interactive class gains; 1 is worth 2.7 times the wait",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSection:
    """What a model of this site must have been trained towards."""

    time_utility: float = key(default=0.25, least=0, meaning="weight of time utility")
    responsiveness: float = key(default=0.25, least=0, meaning="weight of responsiveness")
    fairness: float = key(default=0.5, least=0, meaning="weight of fairness")
    tail: float = key(
        default=2.0,
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
        note="Over that of smallest area first with requested times, as a logarithm.",
    )
    groups: float = key(
        default=10.0,
        least=0,
        meaning="weight of what groups of jobs lose, widths and time limits: their mean wait over "
        "that under the site's own priority, as far as it exceeds 1.05",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRailsSection:
    """What no policy may do."""

    starvation_hours: float = key(
        default=336.0,
        least=0,
        meaning="a job that has accrued more waiting goes first of its account; 0 for no bound",
        note="The longest waiting first; not while a job waits by its own doing. No account gets "
        "another one's place by it.",
    )
    exempt_accounts: list[str] = key(default=[], meaning="accounts that are never touched")
    exempt_partitions: list[str] = key(default=[], meaning="partitions that are never touched")
    exempt_qos: list[str] = key(default=[], meaning="QOS that are never touched")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSection:
    """What groups of jobs are guarded against waiting for too long."""

    wait_hours: dict[str, float] = key(
        default={},
        choices=GROUPS,
        least=0.01,
        meaning="hours that the jobs of a group should wait on average; while they wait longer, "
        "their waits count more",
        note='Such as `{ "half or more" = 6.0 }`, from what `slurm-rl evaluate` says of groups '
        "under your own order. A group that is not named has the target that an experiment "
        "measured. A job is in two groups, by width and by time limit.",
    )


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
