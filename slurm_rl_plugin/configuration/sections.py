"""What may be configured, section by section: each key with its type, default, bounds and help.

In Markdown: the help of a key is the text below its field, and what is to be said of a section the
second paragraph of its docstring.
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
from slurm_rl_plugin.hook.cycle.settings import CycleSettings
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL

#: Has the defaults of the settings of a cycle.
_CYCLE = CycleSettings()
#: Nothing limits batch jobs.
OFF = "off"
#: Words of batch systems, and our own.
_NAMES = {"gres/gpu": GPUS, "gpus": GPUS, "ngpus": GPUS, "mem": MEMORY, "memory": MEMORY}
_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSection:
    """What the daemon does in a cycle, and the files that it keeps."""

    mode: str = key("shadow", choices=("shadow", "active"))
    """Shadow decides and reports but writes nothing; active writes factors. Start with shadow."""
    cycle: float = key(30.0, least=0.1)
    """Most seconds between cycles. A cycle that takes longer is followed by a pause as long as it
    took."""
    soonest_cycle: float = key(0.0, least=0)
    """Seconds until a cycle may follow another when jobs have come, started or ended; 0 for half of
    the scheduler's own pass. The scheduler's pass is the shorter of `sched_interval` and
    `bf_interval`."""
    busy_share: float = key(0.1, least=0.001, most=1)
    """Most of the time that the batch system may be busy with our calls. After a cycle whose calls
    took 2 s the next one begins 20 s after it, or after `cycle` if that is sooner. Looks at new
    jobs between cycles may take as much again."""
    influence_hours: float = key(72.0, least=0)
    """Hours of waiting that the first place in our order is worth, next to the site's own priority;
    0: our order replaces age, size and accounts' fair share in that priority. Slurm only. On PBS
    our order always comes first, and the site's own terms decide between jobs of one score."""
    site_points: bool = key(_CYCLE.site_points)
    """With influence_hours = 0, the priority points of QOS, partition and association keep
    counting. Slurm only: see [how far our order
    goes](slurm.md#how-far-our-order-goes-and-how-often)."""
    beside_controllers: bool = key(False)
    """A daemon runs beside each controller: only the one in charge's acts. See [two
    controllers](slurm.md#two-controllers)."""
    max_writes: int = key(_CYCLE.max_writes, least=0)
    """Most writes in one cycle. The jobs that go first come first."""
    disable_file: str = key("/etc/slurm-rl/DISABLE")
    """While this file exists, nothing is written and our factors are taken back. Empty for none.
    `slurm-rl disable`, `pause` and `enable` make and remove it; a pause counts [until its
    end](operators.md#turn-it-off)."""
    state_file: str = key("/var/lib/slurm-rl/state.json", least=1, at_start=True)
    """Where the jobs that carry a factor of ours are remembered. Its folder must be writable; the
    lock of the daemon and the memory of the policy lie beside it. Change it only while the daemon
    is stopped."""
    audit_file: str = key("/var/log/slurm-rl/audit.jsonl")
    """One JSON line a cycle and a write; empty for none. A cycle whose line cannot be written
    changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystemSection:
    """How the batch system is reached."""

    adapter: str = key(AUTO, choices=(AUTO, *ADAPTERS))
    """How the batch system is reached: slurm is by pyslurm, auto takes it where it fits, and pbs
    where OpenPBS answers and no Slurm. Which, and why: [install](install.md#pyslurm-or-commands),
    [OpenPBS](pbs.md)."""
    timeout: float = key(10.0, least=0.1)
    """Seconds until a command is killed. A run of `scontrol` gets 0.01 s more for each write,
    `sacct` 50 s; the child that runs pyslurm is killed after the same times."""
    history_days: float = key(30.0, least=0)
    """Days of past runs that a start reads from accounting; 0 for none. Only for a model that
    predicts run times ([with your Slurm](slurm.md#what-is-remembered))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySection:
    """Who orders the queue, and what happens when he fails."""

    model: str = key(SHIPPED_MODEL, least=1)
    """Path of a .onnx model, or the name of a rule such as sjf or a shipped model. Rules: $rules,
    and `reserve:N`: interactive jobs first, N processors kept free of batch jobs. Shipped models:
    $models."""
    fallback: str = key(_CYCLE.fallback, choices=("fifo", "site"))
    """When the model fails: order by submission, or take our factors back."""
    inference_deadline: float = key(_CYCLE.inference_deadline, least=0.001)
    """Seconds that a decision may take. Measured after the decision: a late one is thrown away, a
    hanging one is not interrupted."""
    breaker_failures: int = key(_CYCLE.breaker_failures, least=1)
    """Failures in a row until the model rests."""
    breaker_rest: int = key(_CYCLE.breaker_rest, least=0)
    """Cycles that it rests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalsSection:
    """What counts in the order, and how much; in force at the next cycle after a reload.

    They act without training, on models with a linear score such as the shipped one
    ([order](order.md)): [what a step of each does](research/order-measured.md#what-a-step-does).
    """

    shares: float = key(POINTS_A_DOUBLING, least=0, most=100)
    """Points that a job loses for each doubling of what its account has used over its share, and
    gains for each halving; 0 for none. Where all accounts have equal shares, as batch systems give
    them by default, nothing counts unless this key is given."""
    short_jobs: float = key(1.0, least=0, most=10)
    """How much the predicted run time counts; 1 as the model was trained, 0 not at all."""
    wide_jobs: float = key(1.0, least=0, most=10)
    """How much the size of a job counts, which lifts wide ones; 1 as the model was trained."""
    longest_wait: float = key(1.0, least=0, most=10)
    """How much a wait counts beyond half of the longest wait that the site has known lately; 1 as
    the model was trained."""
    interactive: float = key(0.0, least=0, most=100)
    """Points that a job of the interactive class gains; 1 is worth 2.7 times the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSection:
    """What a model of this site must have been trained towards.

    What training maximises: `slurm-rl train --config` records the weights in the model. A weight
    that you do not give follows from `[goals]`: `slowdown` is 10 times `short_jobs`, `groups`
    10 times `wide_jobs`, `tail` 2 times `longest_wait`; `fairness` is `shares` / (`shares` + 16),
    and `time_utility` is the rest divided by 2 + `interactive`. Goals act without training too, so
    training orders its queues with them, and none counts twice. `slurm-rl check` fails, and the
    daemon logs a warning, where the model was trained for other weights than those that you give.
    The first three sum to 1 and are given together; the defaults are those of the default model
    ([objective](research/definitions.md#objective-of-training)).
    """

    time_utility: float = key(0.25, least=0)
    """Weight of time utility."""
    responsiveness: float = key(0.25, least=0)
    """Weight of responsiveness."""
    fairness: float = key(0.5, least=0)
    """Weight of fairness."""
    tail: float = key(2.0, least=0)
    """Weight of the longest wait. Relative to FIFO's longest wait."""
    batch_delay: float = key(0.0, least=0)
    """Weight of what held processors cost batch jobs: their mean wait over that under shortest job
    first, as far as it exceeds 1.1."""
    slowdown: float = key(10.0, least=0)
    """Weight of the mean bounded slowdown. Over that of smallest area first with requested times,
    as a logarithm."""
    groups: float = key(10.0, least=0)
    """Weight of what groups of jobs lose, widths and time limits: their mean wait over that under
    the site's own priority, as far as it exceeds 1.05."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRailsSection:
    """What no policy may do.

    Held jobs, jobs with a priority set by hand and jobs that cannot start yet are never touched
    either.
    """

    starvation_hours: float = key(336.0, least=0)
    """A job that has accrued more waiting goes first of its account; 0 for no bound. The longest
    waiting first; not while a job waits by its own doing. No account gets another one's place by
    it."""
    exempt_accounts: list[str] = key([])
    """Accounts that are never touched."""
    exempt_partitions: list[str] = key([])
    """Partitions that are never touched."""
    exempt_qos: list[str] = key([])
    """QOS that are never touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSection:
    """What groups of jobs are guarded against waiting for too long.

    A group is late where its jobs that started in the last fortnight, 100 at least, waited for more
    than 1.2 times its target, given here or measured by an experiment: [who guards the
    groups](order.md#who-guards-the-groups).
    """

    wait_hours: dict[str, float] = key({}, choices=GROUPS, least=0.01)
    """Hours that the jobs of a group should wait on average; while they wait longer, their waits
    count more. Such as `{ "half or more" = 6.0 }`, from what `slurm-rl evaluate` says of groups
    under your own order. A group that is not named has the target that an experiment measured. A
    job is in two groups, by width and by time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveSection:
    """How processors are kept free of batch jobs.

    Processors kept free of batch jobs, so that interactive ones start at once; off by default. A
    model may say how many ([reserve](reserve.md)).
    """

    mechanism: str = key(OFF, choices=(OFF, *LIMITS))
    """What limits batch jobs: in Slurm a QOS or licences, in PBS max_run_res of queues; off keeps
    nothing free. Which one, and how to set it up: [reserve](reserve.md)."""
    most_processors: int = key(0, least=0)
    """Processors kept free of batch jobs at most, beside those that interactive jobs use; batch
    jobs are those that no [[job_class]] rule calls interactive."""
    widest_batch_job: int = key(1, least=1)
    """Batch jobs of so many processors always fit: the limit is never lower."""
    most_resources: list[str] = key([])
    """Of other resources what is kept free at most, as gres/gpu=2 or mem=64G; the part of it that
    the processors kept are of most_processors. For mechanism qos, and for max_run_res, where they
    are ngpus and mem."""
    widest_batch_resources: list[str] = key([])
    """Batch jobs that ask for so much of them always fit, as gres/gpu=4."""
    change_seconds: float = key(60.0, least=1)
    """Seconds between two changes of the limit at least. Lifting it for a starving job, in fallback
    or on the way out does not wait."""
    lift_hours: float = key(24.0, least=0)
    """A batch job of several processors that waits for them longer lifts the limit until it starts,
    and goes first; 0 for none. Longer than such jobs wait on a good day, or the limit is lifted
    most of the time."""
    idle_minutes: float = key(60.0, least=0)
    """Nothing is kept free once no interactive job has come for so long; 0 for no end."""
    narrow_first: bool = key(False)
    """While something is kept free, batch jobs wider than widest_batch_job wait behind the narrower
    ones, until lift_hours. A wide job blocks those behind it and then does not fit below the limit
    itself."""
    account_share: float = key(0.5, least=0, most=1)
    """Part of most_processors that the interactive jobs of one account may hold, rounded up;
    further jobs count as batch; 1 for no bound. What counts: [who may use
    it](reserve.md#who-may-use-it)."""
    user_share: float = key(0.33, least=0, most=1)
    """The same for the interactive jobs of one user."""
    qos: str = key("")
    """QOS of the batch jobs, for mechanism qos. Of this cluster alone: the clusters of a database
    share their QOS."""
    license: str = key("slot")
    """Licence that batch jobs ask for, one a processor, for mechanism licenses."""
    reservation: str = key("slurm-rl-reserve")
    """Name of our reservation of these licences, which nobody else may use."""
    queues: list[str] = key([])
    """Execution queues of the batch jobs, for mechanism max_run_res."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """What every section has that serves."""

    address: str = key("127.0.0.1")
    """Address to serve on."""
    port: int = key(0, least=0, most=65535)
    """Port; 0 takes any free one."""
    tls_certificate: str = key("")
    """Certificate in PEM form, for HTTPS; empty for HTTP. Needs `tls_key`; followed by those that
    link it to its authority. What replaces the file later is taken by itself."""
    tls_key: str = key("")
    """Key of the certificate in PEM form. Without a passphrase; only the user of the service should
    be able to read it."""
    tls_client_ca: str = key("")
    """Clients must have a certificate of this authority; empty for any client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSection(_Served):
    """Where what the daemon did can be read.

    What is served: [metrics](metrics.md).
    """

    AT_START: ClassVar[bool] = True

    address: str = key("127.0.0.1")
    """Address to serve /metrics on. Elsewhere than on the loopback address, serve it by TLS."""
    port: int = key(9343, least=0, most=65535)
    """Port; 0 takes any free one."""
    max_accounts: int = key(200, least=1)
    """Accounts with series of their own."""
    textfile: str = key("")
    """File for node_exporter's textfile collector, written after each cycle; empty for none. Its
    name ends in `.prom`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSection(_Served):
    """Where the daemon leaves the queue, what the service makes of it, and who may ask.

    When jobs start: the service `slurm-rl forecast` reads them when it starts, the daemon
    `queue_file` alone: [when jobs start](when-jobs-start.md).
    """

    queue_file: str = key("", at_start=True)
    """Where the daemon leaves each look at the queue for the forecast service; empty for nowhere.
    As `/var/lib/slurm-rl/queue.npz`. Written beside, then renamed; its group may read it. The
    service asks the batch system nothing that the daemon has looked at."""
    every: float = key(60.0, least=1)
    """Seconds between two forecasts of the whole queue."""
    draws: int = key(24, least=4, most=500)
    """Replays of the queue for each forecast, most. Fewer where they would take longer than half of
    `every`, four at least."""
    history_days: float = key(42.0, least=2)
    """Days of accounting that run times, arrivals and waits are learned from."""
    log: str = key("")
    """An accounting log to learn from, read again each hour; empty asks Slurm's accounting by
    sacct."""
    kept_file: str = key("/var/lib/slurm-rl-forecast/forecasts.sqlite", least=1)
    """Where forecasts are kept until their jobs have started, and scored."""
    kept_days: float = key(42.0, least=2)
    """Days for which they are kept."""
    socket: str = key("/run/slurm-rl-forecast/socket")
    """Socket that users of this host ask at; empty for none. The kernel tells the service who asks,
    so nobody needs a token."""
    address: str = key("127.0.0.1")
    """Address to serve portals and Prometheus on; empty for none. Elsewhere than on the loopback
    address it is served by TLS only."""
    port: int = key(9345, least=0, most=65535)
    """Port; 0 takes any free one."""
    token_file: str = key("")
    """The token with which a portal may ask for any user; empty lets none ask. `/metrics` needs
    none. Make it with `openssl rand -hex 32`; a new one in the file counts at once."""
    others: bool = key(False)
    """Whether users may ask for jobs of others; root and the service's own user may. Leave it off
    where Slurm's PrivateData has jobs."""
    notice_file: str = key("")
    """Text on the waits of now, without jobs or users, as in /etc/motd.d; empty for none. The
    package makes /run/slurm-rl-notice/starts for it: a folder of root's, in which the service may
    change that file alone, because root reads it at each login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferSection(_Served):
    """What the offer service tells, to whom, and at which price.

    Of the offer service, which reads them when it starts: [brokers](research/brokers.md).
    """

    address: str = key("127.0.0.1")
    """Address to serve /offer on. Elsewhere than on the loopback address it is served by TLS
    only."""
    port: int = key(9344, least=0, most=65535)
    """Port; 0 takes any free one."""
    token_file: str = key("/etc/slurm-rl/offer-token", least=1)
    """The token that whoever asks must give, 32 characters at least. Make it with `openssl rand
    -hex 32`; a new one in the file counts at once."""
    requests_per_minute: float = key(60.0, least=1)
    """Requests that one address may make in the long run. A third of them without a pause. All
    users of a login node are one address."""
    timeout: float = key(5.0, least=0.1, most=60)
    """Seconds until a will-run test is killed, and that a request waits for its turn."""
    keep: float = key(5.0, least=0)
    """Seconds for which the answer of a will-run test is given again."""
    tests_at_once: int = key(2, least=1, most=16)
    """Most will-run tests at a time."""
    busy_share: float = key(0.1, least=0.001, most=1)
    """Most of the time of each that tests may take. With 0.1 a test of 30 ms is followed by a pause
    of 270 ms, one of 2 s by 18 s."""
    account: str = key("")
    """Account under which will-run tests are made; empty for the job's own. Slurm tests as the user
    of the service ([which user](research/brokers.md#which-user-asks))."""
    price: str = key("0", least=1)
    """Formula of the price: numbers, + - * / **, min, max, abs, sqrt, log, exp. Over the owner's
    variables ([table](research/brokers.md#variables)), or MF1 to MF6. For variables of the schedule
    the service runs squeue once a minute at most."""
    utility_model: str = key("")
    """Model of slurm-rl train --algorithm site-utility, whose utilities the site publishes; empty
    for none. Computed at most once a minute while somebody asks. Where it is empty, or knows
    nothing of such jobs, the time utility of the expected wait is offered."""
    forward_hops: int = key(0, least=0, most=8)
    """How often a request may be forwarded from here on; 0 forwards none. Forwarded to the sites of
    [route] sites_file only, for offers only ([forwarding](research/brokers.md#forwarding))."""
    bind_seconds: float = key(0.0, least=0, most=3600)
    """Seconds for which an accepted offer waits for its job; 0 binds none. By an advance
    reservation, for which slurmrl-offer must be an Operator of Slurm
    ([binding](research/brokers.md#binding))."""
    bind_most: int = key(2, least=1, most=64)
    """Most reservations at a time."""
    bind_part: float = key(0.05, least=0.001, most=1)
    """Most of the site's processors that all reservations hold together."""
    bind_file: str = key("/var/lib/slurm-rl-offer/bound.json", least=1)
    """Reservations that stand, to take back after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSection:
    """How `slurm-rl route` asks and chooses.

    Of `slurm-rl route`, which users run: [brokers](research/brokers.md#for-users).
    """

    sites_file: str = key("/etc/slurm-rl/sites.toml")
    """The sites that route asks; empty for those of the user's own file only. A [[site]] each:
    [sites](research/brokers.md#the-sites)."""
    broker: str = key("earliest", choices=BROKERS)
    """Who ranks the sites."""
    shared_experience: str = key("")
    """Folder of the waits that users share, for broker learning; empty for none. Root's, with the
    sticky bit: [shared experience](research/brokers.md#shared-experience)."""
    formula: str = key("-StartTime / 60 - JobCost", least=1)
    """What an offer is worth to the market's user; higher is better. Over the user's variables
    ([table](research/brokers.md#variables)), or UF1 to UF5."""
    timeout: float = key(10.0, least=0.1)
    """Seconds that the sites have to answer, all together."""
    hops: int = key(0, least=0, most=8)
    """How often the sites may forward a request; 0 asks the listed sites only. For sites that
    [forward](research/brokers.md#forwarding); one of 0.1.0 refuses such requests."""
    bind: bool = key(False)
    """Whether --submit first asks the chosen site to bind its offer. A site that does not is
    submitted to as always."""
    submit_timeout: float = key(60.0, least=1)
    """Seconds until sbatch or sacct is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """Every section with its keys; docs/configuration.md tells of each."""

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
        """The sections that are given, and the defaults of the others."""
        made = get_type_hints(cls)
        return cls(**{name: made[name](**found) for name, found in values.items()})


#: Section -> key -> its definition: the one table that everything else is made of.
KEYS: dict[str, dict[str, Key]] = {
    name: keys_of(section) for name, section in get_type_hints(Sections).items()
}


def reserved_amounts(words: Iterable[str]) -> dict[str, int]:
    """Amounts by resource, memory in MiB.

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
