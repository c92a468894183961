"""Keys of the daemon: its cycle, what the site wants, what no policy may do, and the reserve."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_rl_plugin.accounting.slurm.resources import parse_memory
from slurm_rl_plugin.batch_systems.registry import ADAPTERS, AUTO, LIMITS
from slurm_rl_plugin.configuration.keys.key import key
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING
from slurm_rl_plugin.domain.job_groups import GROUPS
from slurm_rl_plugin.domain.resources import GPUS, MEMORY
from slurm_rl_plugin.hook.cycle.settings import CycleSettings
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODEL, SHIPPED_MODELS

_RULES = [each.name for each in NAMED_POLICIES.values() if each.is_rule and not each.needs_log]
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

    mode: str = key(
        default="shadow",
        choices=("shadow", "active"),
        meaning="shadow decides and reports but writes nothing; active writes factors",
        note="Start with shadow.",
    )
    cycle: float = key(
        default=30.0,
        least=0.1,
        meaning="most seconds between cycles",
        note="A cycle that takes longer is followed by a pause as long as it took.",
    )
    soonest_cycle: float = key(
        default=0.0,
        least=0,
        meaning="seconds until a cycle may follow another when jobs have come, started or "
        "ended; 0 for half of the scheduler's own pass",
        note="The scheduler's pass is the shorter of `sched_interval` and `bf_interval`.",
    )
    busy_share: float = key(
        default=0.1,
        least=0.001,
        most=1,
        meaning="most of the time that the batch system may be busy with our calls",
        note="After a cycle whose calls took 2 s the next one begins 20 s after it, or after "
        "`cycle` if that is sooner. Looks at new jobs between cycles may take as much again.",
    )
    influence_hours: float = key(
        default=72.0,
        least=0,
        meaning="hours of waiting that the first place in our order is worth, next to the site's "
        "own priority; 0: our order replaces age, size and accounts' fair share in that priority",
        note="Slurm only. On PBS our order always comes first, and the site's own terms decide "
        "between jobs of one score.",
    )
    site_points: bool = key(
        default=_CYCLE.site_points,
        meaning="with influence_hours = 0, the priority points of QOS, partition and association "
        "keep counting",
        note="Slurm only: see [how far our order goes](slurm.md#how-far-our-order-goes-and-how-"
        "often).",
    )
    beside_controllers: bool = key(
        default=False,
        meaning="a daemon runs beside each controller: only the one in charge's acts",
        note="See [two controllers](slurm.md#two-controllers).",
    )
    max_writes: int = key(
        default=_CYCLE.max_writes,
        least=0,
        meaning="most writes in one cycle",
        note="The jobs that go first come first.",
    )
    disable_file: str = key(
        default="/etc/slurm-rl/DISABLE",
        meaning="while this file exists, nothing is written and our factors are taken back",
        note="Empty for none. `slurm-rl disable`, `pause` and `enable` make and remove it; a pause "
        "counts [until its end](operators.md#turn-it-off).",
    )
    state_file: str = key(
        least=1,
        default="/var/lib/slurm-rl/state.json",
        at_start=True,
        meaning="where the jobs that carry a factor of ours are remembered",
        note="Its folder must be writable; the lock of the daemon and the memory of the policy lie "
        "beside it. Change it only while the daemon is stopped.",
    )
    audit_file: str = key(
        default="/var/log/slurm-rl/audit.jsonl",
        meaning="one JSON line a cycle and a write; empty for none",
        note="A cycle whose line cannot be written changes nothing.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystemSection:
    """How the batch system is reached."""

    adapter: str = key(
        default=AUTO,
        choices=(AUTO, *ADAPTERS),
        meaning="how the batch system is reached: slurm is by pyslurm, auto takes it where it "
        "fits, and pbs where OpenPBS answers and no Slurm",
        note="Which, and why: [install](install.md#pyslurm-or-commands), [OpenPBS](pbs.md).",
    )
    timeout: float = key(
        default=10.0,
        least=0.1,
        meaning="seconds until a command is killed",
        note="A run of `scontrol` gets 0.01 s more for each write, `sacct` 50 s; the child that "
        "runs pyslurm is killed after the same times.",
    )
    history_days: float = key(
        default=30.0,
        least=0,
        meaning="days of past runs that a start reads from accounting; 0 for none",
        note="Only for a model that predicts run times ([with your Slurm](slurm.md#what-is-"
        "remembered)).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySection:
    """Who orders the queue, and what happens when he fails."""

    model: str = key(
        default=SHIPPED_MODEL,
        least=1,
        meaning="path of a .onnx model, or the name of a rule such as sjf or a shipped model",
        note=f"Rules: {', '.join(f'`{name}`' for name in _RULES)}, and `reserve:N`: interactive "
        "jobs first, N processors kept free of batch jobs. Shipped models: "
        f"{', '.join(f'`{name}`' for name in SHIPPED_MODELS)}.",
    )
    fallback: str = key(
        default=_CYCLE.fallback,
        choices=("fifo", "site"),
        meaning="when the model fails: order by submission, or take our factors back",
    )
    inference_deadline: float = key(
        default=_CYCLE.inference_deadline,
        least=0.001,
        meaning="seconds that a decision may take",
        note="Measured after the decision: a late one is thrown away, a hanging one is not "
        "interrupted.",
    )
    breaker_failures: int = key(
        default=_CYCLE.breaker_failures, least=1, meaning="failures in a row until the model rests"
    )
    breaker_rest: int = key(default=_CYCLE.breaker_rest, least=0, meaning="cycles that it rests")


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
class ReserveSection:
    """How processors are kept free of batch jobs."""

    mechanism: str = key(
        default=OFF,
        choices=(OFF, *LIMITS),
        meaning="what limits batch jobs: in Slurm a QOS or licences, in PBS max_run_res of queues; "
        "off keeps nothing free",
        note="Which one, and how to set it up: [reserve](reserve.md).",
    )
    most_processors: int = key(
        default=0,
        least=0,
        meaning="processors kept free of batch jobs at most, beside those that interactive jobs "
        "use; batch jobs are those that no [[job_class]] rule calls interactive",
    )
    widest_batch_job: int = key(
        default=1,
        least=1,
        meaning="batch jobs of so many processors always fit: the limit is never lower",
    )
    most_resources: list[str] = key(
        default=[],
        meaning="of other resources what is kept free at most, as gres/gpu=2 or mem=64G; the part "
        "of it that the processors kept are of most_processors",
        note="For mechanism qos, and for max_run_res, where they are ngpus and mem.",
    )
    widest_batch_resources: list[str] = key(
        default=[],
        meaning="batch jobs that ask for so much of them always fit, as gres/gpu=4",
    )
    change_seconds: float = key(
        default=60.0,
        least=1,
        meaning="seconds between two changes of the limit at least",
        note="Lifting it for a starving job, in fallback or on the way out does not wait.",
    )
    lift_hours: float = key(
        default=24.0,
        least=0,
        meaning="a batch job of several processors that waits for them longer lifts the limit "
        "until it starts, and goes first; 0 for none",
        note="Longer than such jobs wait on a good day, or the limit is lifted most of the time.",
    )
    idle_minutes: float = key(
        default=60.0,
        least=0,
        meaning="nothing is kept free once no interactive job has come for so long; 0 for no end",
    )
    narrow_first: bool = key(
        default=False,
        meaning="while something is kept free, batch jobs wider than widest_batch_job wait behind "
        "the narrower ones, until lift_hours",
        note="A wide job blocks those behind it and then does not fit below the limit itself.",
    )
    account_share: float = key(
        default=0.5,
        least=0,
        most=1,
        meaning="part of most_processors that the interactive jobs of one account may hold, "
        "rounded up; further jobs count as batch; 1 for no bound",
        note="What counts: [who may use it](reserve.md#who-may-use-it).",
    )
    user_share: float = key(
        default=0.33,
        least=0,
        most=1,
        meaning="the same for the interactive jobs of one user",
    )
    qos: str = key(
        default="",
        meaning="QOS of the batch jobs, for mechanism qos",
        note="Of this cluster alone: the clusters of a database share their QOS.",
    )
    license: str = key(
        default="slot",
        meaning="licence that batch jobs ask for, one a processor, for mechanism licenses",
    )
    reservation: str = key(
        default="slurm-rl-reserve",
        meaning="name of our reservation of these licences, which nobody else may use",
    )
    queues: list[str] = key(
        default=[],
        meaning="execution queues of the batch jobs, for mechanism max_run_res",
    )


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
