"""Why one pending job is where it is: what `slurm-rl explain` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


class Ranks(NamedTuple):
    """Places from 1: decided, by the site's own priority, by that of now, and in the account."""

    decided: int | None
    site: int | None
    now: int | None
    of: int
    in_account: int | None
    of_account: int


class AsBatch(NamedTuple):
    """Why a job of the interactive class counts as batch, and the bound that says so."""

    reason: str
    most: int | None = None
    runs: int | None = None
    timed_out: int | None = None
    until: float | None = None


class Requests(NamedTuple):
    """What the job asks of nodes, memory in MiB."""

    amounts: dict[str, float]
    nodes: int
    exclusive: bool
    constraint: str | None


class Predicted(NamedTuple):
    """Seconds: part of the runs -> what they end below, and the length that counts in the order."""

    median: float | None
    quantiles: dict[str, float]
    counts_as: float | None


class RunTime(NamedTuple):
    """What the policy believes, seconds; a prediction only of a model that makes one."""

    estimate: float | None = None
    kind: str | None = None
    predicted: Predicted | None = None


class Feature(NamedTuple):
    """A feature, its effect on the score, and its linear part and points in a linear model."""

    name: str
    value: float
    median: float
    effect: float
    linear: float | None
    points: float | None


class Account(NamedTuple):
    """The job's account: `weighs_share` is None where the policy is not used."""

    name: str
    share: float
    usage: float
    any_usage: bool
    lift: float
    ratio: float | None
    weighs_share: bool | None


class ActedRail(NamedTuple):
    """A guard rail that changed scores, and the job's place among the ordered ones around it."""

    rail: str
    place_before: int | None
    place_after: int | None


class Priority(NamedTuple):
    """What the batch system holds now."""

    native: int
    factor: int
    total: int
    nice: int


class Write(NamedTuple):
    """What a cycle in active mode would write."""

    old: int
    new: int
    this_cycle: bool


class Neighbour(NamedTuple):
    """The job or one next to it in the decided order."""

    rank: int | None
    site_rank: int | None
    job: int
    user: str
    account: str
    partition: str
    class_: str
    wait: float
    untouched: str | None
    score: float | None


class BatchLimitSeen(NamedTuple):
    """The limit on batch jobs that the decision asks for."""

    processors: int | None
    resources: Mapping[str, int]
    reason: str
    words: str


class Writes(NamedTuple):
    """Whether anything is written now: the mode, and who has disabled it."""

    mode: str
    disabled: str | None


class ResourceRoom(NamedTuple):
    """One resource: what is asked of it, what is free, and on how many nodes there is enough."""

    asked: float
    on_each_node: float
    most_free: float
    free: float
    nodes_with_room: int


class LicenceRoom(NamedTuple):
    """Licences asked for, and free ones."""

    asked: float
    free: float


class Room(NamedTuple):
    """What of the request is free where; how often nodes alone could start it."""

    nodes: int
    nodes_with_room: int
    exclusive: bool
    constraint: str | None
    nodes_that_may: int
    idle_nodes: int
    resources: dict[str, ResourceRoom]
    licences: dict[str, LicenceRoom]


class ClassUtility(NamedTuple):
    """What the job's class of service makes of its wait, and a wish of its user that is ignored."""

    class_: str
    by_user: bool
    ignored: str | None
    deadline: float | None
    now: float
    further_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that is known of a pending job: seconds, points, MiB; None for what does not apply."""

    job: int
    user: str
    partition: str
    class_: str
    as_batch: AsBatch | None  #: None where the job counts as it is classed
    processors: int
    time_limit: float
    submit: float
    eligible: float
    #: wait, accrued: seconds since it is eligible, and those of them that count.
    wait: float
    accrued: float
    started_tasks: bool
    runs: float  #: how often its waiting tasks fill the machine
    wait_counts: float
    for_processors: bool
    passed_over: bool
    untouched: str | None  #: why we give it no factor
    requests: Requests | None
    ranks: Ranks
    score: float | None  #: None for a job that we do not order; FIFO's in a fallback
    run_time: RunTime
    features: list[Feature] | None  #: None for a rule, for a fallback and for a job not ordered
    account: Account
    guard_rails: list[ActedRail]
    own_order: int  #: places by which its user's nice put it later among his jobs
    priority: Priority
    write: Write | None
    neighbours: list[Neighbour]
    policy: str
    model: str | None
    fallback: str | None
    reserve: int
    batch_limit: BatchLimitSeen
    name: str | None = None
    qos: str | None = None
    reason: str | None = None
    meaning: str | None = None
    tasks: str | None = None
    class_rule: str | None = None
    terms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    utility: ClassUtility | None = None  #: None at a site without classes of its own
    writes: Writes
    experiment: str | None
    room: Room | None = None  #: None if the batch system shows no nodes
    start: Mapping[str, Any] | None  #: the forecast service's answer; None if none runs
    audit: list[dict[str, Any]]  #: the last lines on the job
    not_read: list[str] = field(default_factory=list)  #: what is unknown, said rather than guessed

    def document(self) -> dict[str, Any]:
        """As --json prints it."""
        names = [each.name for each in fields(self)]
        found = {name.rstrip("_"): _document(getattr(self, name)) for name in names}
        if self.utility is None:
            del found["utility"]
        if (as_batch := found["as_batch"]) is not None:
            found["as_batch"] = {key: each for key, each in as_batch.items() if each is not None}
        return found


def _document(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name.rstrip("_"): _document(each) for name, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {key: _document(each) for key, each in value.items()}
    return [_document(each) for each in value] if isinstance(value, list) else value
