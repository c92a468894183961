"""The configuration, section by section: each key with its type, default, bounds and help.

The help of a key is the text below its field, and the note on a section its docstring, in Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_type_hints

from slurm_rl_plugin.accounting.slurm.resources import parse_memory
from slurm_rl_plugin.batch_systems.registry import ADAPTERS, AUTO, LIMITS
from slurm_rl_plugin.brokers.registry import BROKERS
from slurm_rl_plugin.configuration.key import Key, key, keys_of
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING
from slurm_rl_plugin.domain.job_groups import GROUPS
from slurm_rl_plugin.domain.resources import GPUS, MEMORY
from slurm_rl_plugin.hook.cycle_report import CycleSettings
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL

#: The defaults of a cycle.
_CYCLE = CycleSettings()
#: Nothing limits batch jobs.
OFF = "off"
#: Names of resources in batch systems -> our own.
_NAMES = {"gres/gpu": GPUS, "gpus": GPUS, "ngpus": GPUS, "mem": MEMORY, "memory": MEMORY}
_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSection:
    """What the daemon does in a cycle, and the files that it writes."""

    mode: str = key("shadow", choices=("shadow", "active"))
    """Shadow decides and reports but writes nothing; active writes factors. Start with shadow."""
    cycle: float = key(30.0, least=0.1)
    """Maximum seconds between cycles. After a longer cycle the daemon pauses for as long as the
    cycle took."""
    soonest_cycle: float = key(0.0, least=0)
    """Minimum seconds between cycles when jobs have come, started or ended; 0 for half of the
    scheduler's own interval. That interval is the shorter of `sched_interval` and `bf_interval`."""
    busy_share: float = key(0.1, least=0.001, most=1)
    """Maximum part of the time for which our calls may occupy the batch system. With 0.1, a cycle
    whose calls took 2 s is followed by the next after 20 s, or after `cycle` if that is sooner.
    Queries for new jobs between cycles may take the same part again."""
    influence_hours: float = key(72.0, least=0)
    """Hours of waiting that the first place in our order adds to the site's own priority; 0: our
    order replaces age, size and fair share in that priority. Slurm only. On PBS our order always
    comes first, and the site's own terms decide between jobs of equal score."""
    site_points: bool = key(_CYCLE.site_points)
    """With influence_hours = 0, keep the priority points of QOS, partition and association. Slurm
    only: see [how far our order goes](slurm.md#how-far-our-order-goes-and-how-often)."""
    beside_controllers: bool = key(False)
    """A daemon runs next to each controller, and only the daemon of the active controller acts. See
    [two controllers](slurm.md#two-controllers)."""
    max_writes: int = key(_CYCLE.max_writes, least=0)
    """Maximum writes in one cycle. The jobs that start first are written first."""
    disable_file: str = key("/etc/slurm-rl/DISABLE")
    """While this file exists, the daemon writes nothing and rolls back its factors. Empty for no
    such file. `slurm-rl disable`, `pause` and `enable` make and remove it; a pause applies [until
    its end](operators.md#turn-it-off)."""
    state_file: str = key("/var/lib/slurm-rl/state.json", least=1, at_start=True)
    """File that lists the jobs that carry our factor. Its folder must be writable; it also holds
    the daemon's lock and the memory of the policy. Change it only while the daemon is stopped."""
    audit_file: str = key("/var/log/slurm-rl/audit.jsonl")
    """File with one JSON line for each cycle and each write; empty for none. A cycle whose line
    cannot be written changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystemSection:
    """How the daemon reaches the batch system."""

    adapter: str = key(AUTO, choices=(AUTO, *ADAPTERS))
    """How the daemon reaches the batch system. slurm uses pyslurm. auto uses pyslurm if it fits the
    installed Slurm, and pbs if OpenPBS answers and no Slurm is installed. Details:
    [install](install.md#pyslurm-or-commands), [OpenPBS](pbs.md)."""
    timeout: float = key(10.0, least=0.1)
    """Seconds until a command is killed. A run of `scontrol` gets 0.01 s more for each write,
    `sacct` 50 s; the child process that runs pyslurm is killed after the same times."""
    history_days: float = key(30.0, least=0)
    """Days of past runs that the daemon reads from accounting when it starts; 0 for none. Only for
    a model that predicts run times ([with your Slurm](slurm.md#what-is-remembered))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySection:
    """What orders the queue, and what happens if it fails."""

    model: str = key(SHIPPED_MODEL, least=1)
    """Path of an .onnx model, or the name of a shipped model or of a rule. Rules: $rules, and
    `reserve:N`: interactive jobs first, N processors kept free of batch jobs. Shipped models:
    $models."""
    fallback: str = key(_CYCLE.fallback, choices=("fifo", "site"))
    """What happens when the model fails: order by submission, or roll back our factors."""
    inference_deadline: float = key(_CYCLE.inference_deadline, least=0.001)
    """Maximum seconds for a decision. A late decision is discarded; a decision that hangs is not
    interrupted."""
    breaker_failures: int = key(_CYCLE.breaker_failures, least=1)
    """Failures in a row after which the model is not used for some cycles."""
    breaker_rest: int = key(_CYCLE.breaker_rest, least=0)
    """Cycles in which the model is then not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalsSection:
    """The weights of the order, in force at the next cycle after a reload.

    They act without training on models with a linear score, such as the shipped one
    ([order](order.md)). Measured effects: [what a step of each
    does](research/order-measured.md#what-a-step-does).
    """

    shares: float = key(POINTS_A_DOUBLING, least=0, most=100)
    """Points that a job loses for each doubling of its account's usage over its share, and gains
    for each halving; 0 for none. If all accounts have equal shares, as by default in batch systems,
    shares count only if this key is given."""
    short_jobs: float = key(1.0, least=0, most=10)
    """Weight of the predicted run time; 1 as the model was trained, 0 for none."""
    wide_jobs: float = key(1.0, least=0, most=10)
    """Weight of the size of a job, which lifts wide jobs; 1 as the model was trained."""
    longest_wait: float = key(1.0, least=0, most=10)
    """Weight of a wait beyond half of the longest recent wait at the site; 1 as the model was
    trained."""
    interactive: float = key(0.0, least=0, most=100)
    """Points that a job of the interactive class gains; 1 point counts as 2.7 times the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSection:
    """What training maximises; `slurm-rl train --config` records the weights in the model.

    A weight that you do not give follows from `[goals]`: `slowdown` is 10 times `short_jobs`,
    `groups` 10 times `wide_jobs`, `tail` 2 times `longest_wait`; `fairness` is `shares` / (`shares`
    + 16), and `time_utility` is the rest divided by 2 + `interactive`. Goals also act without
    training; training applies them to its queues, so that no goal counts twice. `slurm-rl check`
    fails, and the daemon logs a warning, if the model was trained for other weights than those that
    you give. The first three weights sum to 1 and must be given together. The defaults are those of
    the default model ([objective](research/definitions.md#objective-of-training)).
    """

    time_utility: float = key(0.25, least=0)
    """Weight of time utility."""
    responsiveness: float = key(0.25, least=0)
    """Weight of responsiveness."""
    fairness: float = key(0.5, least=0)
    """Weight of fairness."""
    tail: float = key(2.0, least=0)
    """Weight of the longest wait. Relative to the longest wait under FIFO."""
    batch_delay: float = key(0.0, least=0)
    """Weight of the cost of kept processors to batch jobs: their mean wait over their mean wait
    under shortest job first, above a ratio of 1.1."""
    slowdown: float = key(10.0, least=0)
    """Weight of the mean bounded slowdown. Relative to smallest area first with requested times, as
    a logarithm."""
    groups: float = key(10.0, least=0)
    """Weight of the losses of groups of jobs by width and time limit: their mean wait over their
    mean wait under the site's own priority, above a ratio of 1.05."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRailsSection:
    """Bounds on every policy.

    The daemon also never changes held jobs, jobs with a priority set by hand, and jobs that cannot
    start yet.
    """

    starvation_hours: float = key(336.0, least=0)
    """Accrued waiting after which a job goes first within its account; 0 for no bound. The longest
    waiting job goes first; a job that its own user delays does not. No account gets the place of
    another account."""
    exempt_accounts: list[str] = key([])
    """Accounts whose jobs the daemon never changes."""
    exempt_partitions: list[str] = key([])
    """Partitions whose jobs the daemon never changes."""
    exempt_qos: list[str] = key([])
    """QOS whose jobs the daemon never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSection:
    """Groups of jobs that are guarded against long waits.

    A group is late if its jobs that started in the last fortnight, at least 100, waited for more
    than 1.2 times its target. The target is given here or measured by an experiment: [who guards
    the groups](order.md#who-guards-the-groups).
    """

    wait_hours: dict[str, float] = key({}, choices=GROUPS, least=0.01)
    """Target of the mean wait of each group, in hours; while a group waits longer, the waits of its
    jobs count more. Such as `{ "half or more" = 6.0 }`, from the groups of `slurm-rl evaluate`
    under your own order. A group without a key has the target that an experiment measured. A job is
    in two groups, by width and by time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveSection:
    """Processors kept free of batch jobs, so that interactive jobs start at once; off by default.

    A model may say how many ([reserve](reserve.md)).
    """

    mechanism: str = key(OFF, choices=(OFF, *LIMITS))
    """What limits batch jobs: in Slurm a QOS or licenses, in PBS max_run_res of queues; off keeps
    nothing free. Which to choose, and how to set it up: [reserve](reserve.md)."""
    most_processors: int = key(0, least=0)
    """Maximum processors kept free of batch jobs, in addition to those that interactive jobs use;
    batch jobs are those that no [[job_class]] rule calls interactive."""
    widest_batch_job: int = key(1, least=1)
    """Batch jobs of this many processors always fit: the limit is never lower."""
    most_resources: list[str] = key([])
    """Maximum of other resources kept free, such as gres/gpu=2 or mem=64G, in proportion to the
    processors kept free. For mechanism qos, and for max_run_res, where they are ngpus and mem."""
    widest_batch_resources: list[str] = key([])
    """Batch jobs that ask for this much of other resources always fit, such as gres/gpu=4."""
    change_seconds: float = key(60.0, least=1)
    """Minimum seconds between two changes of the limit. The daemon does not wait to lift the limit
    for a starving job, in fallback, or when it stops."""
    lift_hours: float = key(24.0, least=0)
    """Wait after which a batch job of several processors lifts the limit until it starts, and goes
    first; 0 for none. Set it longer than such jobs wait on a good day, or the limit is lifted most
    of the time."""
    idle_minutes: float = key(60.0, least=0)
    """Minutes without a new interactive job after which nothing is kept free; 0 to keep it
    always."""
    narrow_first: bool = key(False)
    """While processors are kept free, batch jobs wider than widest_batch_job wait behind the
    narrower ones, until lift_hours. Otherwise a wide job blocks those behind it and then does not
    fit below the limit itself."""
    account_share: float = key(0.5, least=0, most=1)
    """Part of most_processors that the interactive jobs of one account may hold, rounded up;
    further jobs count as batch; 1 for no bound. Details: [who may use
    it](reserve.md#who-may-use-it)."""
    user_share: float = key(0.33, least=0, most=1)
    """The same for the interactive jobs of one user."""
    qos: str = key("")
    """QOS of the batch jobs, for mechanism qos. It must belong to this cluster alone: clusters with
    one database share their QOS."""
    license: str = key("slot")
    """License that batch jobs ask for, one for each processor, for mechanism licenses."""
    reservation: str = key("slurm-rl-reserve")
    """Name of our reservation of these licenses, which no job may use."""
    queues: list[str] = key([])
    """Execution queues of the batch jobs, for mechanism max_run_res."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """Keys of every section that serves pages."""

    address: str = key("127.0.0.1")
    """Address to serve on."""
    port: int = key(0, least=0, most=65535)
    """Port; 0 takes any free one."""
    tls_certificate: str = key("")
    """Certificate in PEM form, for HTTPS; empty for HTTP. Needs `tls_key`. The file may continue
    with the certificates that link it to its authority. A new file is loaded without a restart."""
    tls_key: str = key("")
    """Key of the certificate in PEM form, without a passphrase. Only the user of the service should
    be able to read it."""
    tls_client_ca: str = key("")
    """Clients must have a certificate of this authority; empty for any client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSection(_Served):
    """Where the daemon serves metrics: [metrics](metrics.md)."""

    AT_START: ClassVar[bool] = True

    address: str = key("127.0.0.1")
    """Address to serve /metrics on. Use TLS on any address except the loopback address."""
    port: int = key(9343, least=0, most=65535)
    max_accounts: int = key(200, least=1)
    """Maximum accounts with their own time series."""
    textfile: str = key("")
    """File for node_exporter's textfile collector, written after each cycle; empty for none. Its
    name ends in `.prom`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSection(_Served):
    """The service `slurm-rl forecast`, which reads this section when it starts.

    The daemon reads only `queue_file`: [when jobs start](when-jobs-start.md).
    """

    queue_file: str = key("", at_start=True)
    """File in which the daemon writes the queue of each cycle for the forecast service; empty for
    none. Such as `/var/lib/slurm-rl/queue.npz`. It is replaced as a whole, and its group may read
    it. The service does not query the batch system for what this file has."""
    every: float = key(60.0, least=1)
    """Seconds between two forecasts of the whole queue."""
    draws: int = key(24, least=4, most=500)
    """Maximum replays of the queue for each forecast. Fewer, but at least 4, if they would take
    longer than half of `every`."""
    history_days: float = key(42.0, least=2)
    """Days of accounting from which run times, arrivals and waits are learned."""
    log: str = key("")
    """An accounting log to learn from, read again every hour; empty reads Slurm's accounting with
    sacct."""
    kept_file: str = key("/var/lib/slurm-rl-forecast/forecasts.sqlite", least=1)
    """File in which forecasts are kept until their jobs have started, and scored."""
    kept_days: float = key(42.0, least=2)
    """Days for which forecasts are kept."""
    socket: str = key("/run/slurm-rl-forecast/socket")
    """Socket for users of this host; empty for none. The kernel names the user of each connection,
    so users need no token."""
    address: str = key("127.0.0.1")
    """Address to serve portals and Prometheus on; empty for none. Any address except the loopback
    address needs TLS."""
    port: int = key(9345, least=0, most=65535)
    token_file: str = key("")
    """File with the token with which a portal may ask for any user; without it, no portal may.
    `/metrics` needs no token. Make it with `openssl rand -hex 32`; a new token in the file applies
    at once."""
    user_header: str = key("")
    """Header in which the portal's proxy names the signed-in user, as `X-Forwarded-User`; empty
    for none. It is believed only with the token, and refused from any other client."""
    others: bool = key(False)
    """Whether users may see forecasts of the jobs of others; root and the service's own user always
    may. Leave it off if Slurm's PrivateData has jobs."""
    notice_file: str = key("")
    """File with the current waits as text, without jobs or users, such as in /etc/motd.d; empty for
    none. The package makes /run/slurm-rl-notice/starts for it: a folder of root's, in which the
    service may change only that file, because root reads it at each login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferSection(_Served):
    """The offer service, which reads this section at its start: [brokers](research/brokers.md)."""

    address: str = key("127.0.0.1")
    """Address to serve /offer on. Any address except the loopback address needs TLS."""
    port: int = key(9344, least=0, most=65535)
    token_file: str = key("/etc/slurm-rl/offer-token", least=1)
    """File with the token that a client must send, at least 32 characters. Make it with `openssl
    rand -hex 32`; a new token in the file applies at once."""
    requests_per_minute: float = key(60.0, least=1)
    """Maximum requests a minute of one client address, on average. A third of them may come without
    a pause. All users of a login node have one address."""
    timeout: float = key(5.0, least=0.1, most=60)
    """Seconds until a will-run test is killed. Also the seconds that a request waits for its
    turn."""
    keep: float = key(5.0, least=0)
    """Seconds for which the result of a will-run test is used again."""
    tests_at_once: int = key(2, least=1, most=16)
    """Maximum will-run tests at a time."""
    busy_share: float = key(0.1, least=0.001, most=1)
    """Maximum part of the time that will-run tests may take, for each of tests_at_once. With 0.1, a
    test of 30 ms is followed by a pause of 270 ms, a test of 2 s by 18 s."""
    account: str = key("")
    """Account of will-run tests; empty for the job's own. Slurm tests as the user of the service
    ([which user](research/brokers.md#which-user-asks))."""
    price: str = key("0", least=1)
    """Formula of the price: numbers, + - * / **, min, max, abs, sqrt, log, exp. It uses the owner's
    variables ([table](research/brokers.md#variables)), or is one of MF1 to MF6. For variables of
    the schedule the service runs squeue at most once a minute."""
    utility_model: str = key("")
    """Model of slurm-rl train --algorithm site-utility, whose utilities the site publishes; empty
    for none. Computed at most once a minute, and only for requests. Without a model, or for jobs
    that it does not know, the offer has the time utility of the expected wait."""
    forward_hops: int = key(0, least=0, most=8)
    """How many times sites may forward a request from here; 0 for none. The service forwards only
    requests for offers, and only to the sites of [route] sites_file
    ([forwarding](research/brokers.md#forwarding))."""
    bind_seconds: float = key(0.0, least=0, most=3600)
    """Seconds for which an accepted offer waits for its job; 0 to bind no offers. An offer is bound
    by an advance reservation, for which slurmrl-offer must be an Operator of Slurm
    ([binding](research/brokers.md#binding))."""
    bind_most: int = key(2, least=1, most=64)
    """Maximum reservations at a time."""
    bind_part: float = key(0.05, least=0.001, most=1)
    """Maximum part of the site's processors that all reservations together hold."""
    bind_file: str = key("/var/lib/slurm-rl-offer/bound.json", least=1)
    """File that lists our reservations, so that a restart after a crash removes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSection:
    """The command `slurm-rl route`, which users run: [brokers](research/brokers.md#for-users)."""

    sites_file: str = key("/etc/slurm-rl/sites.toml")
    """File of the sites to ask; empty for only those of the user's own file. Each site
    is a [[site]]: [sites](research/brokers.md#the-sites)."""
    broker: str = key("earliest", choices=BROKERS)
    """The broker that ranks the sites."""
    shared_experience: str = key("")
    """Folder of the waits that users share, for broker learning; empty for none. It belongs to root
    and has the sticky bit: [shared experience](research/brokers.md#shared-experience)."""
    formula: str = key("-StartTime / 60 - JobCost", least=1)
    """Formula of the value of an offer to the market's user; higher is better. It uses the user's
    variables ([table](research/brokers.md#variables)), or is one of UF1 to UF5."""
    timeout: float = key(10.0, least=0.1)
    """Seconds for all sites together to answer."""
    hops: int = key(0, least=0, most=8)
    """How many times the sites may forward a request; 0 asks only the listed sites. Needs sites
    that [forward](research/brokers.md#forwarding); a site of release 0.1.0 refuses such
    requests."""
    bind: bool = key(False)
    """Whether --submit first asks the chosen site to bind its offer. If the site does not bind it,
    the job is submitted as usual."""
    submit_timeout: float = key(60.0, least=1)
    """Seconds until sbatch or sacct is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """Every section with its keys."""

    hook: HookSection = field(default_factory=HookSection)
    batch_system: BatchSystemSection = field(default_factory=BatchSystemSection)
    policy: PolicySection = field(default_factory=PolicySection)
    goals: GoalsSection = field(default_factory=GoalsSection)
    reward: RewardSection = field(default_factory=RewardSection)
    guard_rails: GuardRailsSection = field(default_factory=GuardRailsSection)
    guard: GuardSection = field(default_factory=GuardSection)
    reserve: ReserveSection = field(default_factory=ReserveSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    forecast: ForecastSection = field(default_factory=ForecastSection)
    offer: OfferSection = field(default_factory=OfferSection)
    route: RouteSection = field(default_factory=RouteSection)

    @classmethod
    def of(cls, values: Mapping[str, Mapping[str, Any]]) -> Sections:
        """The given sections, and the defaults of the others."""
        made = get_type_hints(cls)
        return cls(**{name: made[name](**found) for name, found in values.items()})


#: Section -> key -> its definition, from which all else is made.
KEYS: dict[str, dict[str, Key]] = {
    name: keys_of(section) for name, section in get_type_hints(Sections).items()
}


def reserved_amounts(words: Iterable[str]) -> dict[str, int]:
    """Amounts by resource; memory in MiB.

    Args:
        words: such as `gres/gpu=2`, `ngpus=2` or `mem=64G`.
    """
    found: dict[str, int] = {}
    for word in words:
        name, _, value = word.partition("=")
        resource = _NAMES.get(name.strip().lower())
        if resource is None or resource in found:
            raise ValueError(word)
        amount = value.strip()
        if resource == GPUS and not _COUNT.fullmatch(amount):
            raise ValueError(word)
        found[resource] = int(amount) if resource == GPUS else int(parse_memory(amount))
        if not found[resource]:
            raise ValueError(word)
    return found
