"""Keys of the reserve for interactive jobs: [reserve]."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.registry import LIMITS
from slurm_rl_plugin.configuration.keys.key import key

#: Nothing limits batch jobs.
OFF = "off"


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
