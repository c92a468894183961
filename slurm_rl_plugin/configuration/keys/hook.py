"""Keys of the daemon's cycle: [hook], [batch_system] and [policy]."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.registry import ADAPTERS, AUTO
from slurm_rl_plugin.configuration.keys.key import key
from slurm_rl_plugin.hook.cycle.settings import CycleSettings
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODEL, SHIPPED_MODELS

_RULES = [each.name for each in NAMED_POLICIES.values() if each.is_rule and not each.needs_log]


#: Has the defaults of the settings of a cycle.
_CYCLE = CycleSettings()


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
