"""Explains one pending job: all that a decision on the whole queue knows of it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.batch_systems.port import JobRecord
from slurm_rl_plugin.brokers.live.offer_worth import UNKNOWN_RUN_TIME
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemError, JobNotPending, PolicyError, SlurmRLError
from slurm_rl_plugin.features.history.run_history import PARTS
from slurm_rl_plugin.hook.audit.log import AuditFilter, tail_of
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from slurm_rl_plugin.hook.order.queue_plan import orderable_by_score
from slurm_rl_plugin.hook.order.said_order import own_jobs
from slurm_rl_plugin.hook.rails.guard_rails import rail_name
from slurm_rl_plugin.hook.rails.reserve import ACCOUNT, AS_BATCH, AS_CLASSED, OVERRUN, USER
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.q_network import QNetworkPolicy, feature_effects
from slurm_rl_plugin.policies.registry import RulePolicy
from slurm_rl_plugin.services.configured_site import chosen_batch_system
from slurm_rl_plugin.services.forecast_client import forecast_start
from slurm_rl_plugin.services.job_room import Requests, Room, kind_room
from slurm_rl_plugin.services.queue_reading import (
    QueueLook,
    experiment_sentence,
    limit_sentence,
    look_at_queue,
)
from slurm_rl_plugin.units import HOUR, FloatArray
from slurm_rl_plugin.utility.time_utility import time_utility

#: Bytes at the end of the audit log that are searched, and lines shown.
AUDIT_TAIL, AUDIT_LINES = 20_000_000, 3
#: Jobs shown on either side of the explained one.
NEIGHBOURS = 2


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


def explained(configuration: Configuration, job: int, record: JobRecord) -> Explanation:
    """Decide on the whole queue and explain one job of it."""
    number = job if record.number is None else record.number
    if record.number is not None and not record.is_pending:
        raise JobNotPending(
            f"job {job} is {record.state} and no longer pending: see `slurm-rl audit -j "
            f"{number}` for what was written to it."
        )
    look = look_at_queue(configuration)
    places = look.considered.plan.snapshot.pending.jobs.job_id.tolist()
    if number not in places:
        raise JobNotPending(
            f"job {job} is not in the queue: `slurm-rl queue` lists those that are."
        )
    found = _Decided(look, places.index(number)).explanation(configuration)
    described, asked = record.description, found.requests
    if record.is_pending and described is not None:
        rule = configuration.classifier.matching_rule(described)
        found = replace(
            found,
            name=record.name,
            qos=record.qos or None,
            reason=record.reason,
            meaning=record.meaning or None,
            tasks=record.tasks or None,
            class_rule=str(rule) if rule else "no rule matches, so batch",
            terms=record.terms,
        )
    room, unread = None, list[str]()
    if asked is not None:
        kind = chosen_batch_system(configuration).kind
        timeout = float(configuration.sections.batch_system.timeout)
        try:
            partitions = described.partition if described else found.partition
            room = kind_room(kind, timeout, asked, partitions)
        except BatchSystemError as error:
            unread.append(f"the free resources of nodes: {error}.")
    return replace(
        found,
        utility=_utility(configuration, look, found, record),
        room=room,
        not_read=[*record.unread, *unread, *_not_read(configuration, look, found)],
    )


def _writes(configuration: Configuration) -> Writes:
    path, now = configuration.disable_file, time.time()  # noqa: TID251 - composition root
    found = None if path is None else read_disable_file(path)
    disabled = found.words if found is not None and found.counts(now) else None
    return Writes(mode=configuration.sections.hook.mode, disabled=disabled)


def _utility(
    configuration: Configuration, look: QueueLook, found: Explanation, record: JobRecord
) -> ClassUtility | None:
    """The run time is the one predicted, else the estimate, else the limit."""
    classifier = configuration.classifier
    if not classifier.own or record.description is None:
        return None
    name = classifier.class_of(record.description)
    own = classifier.classes[name]
    since = found.eligible if math.isfinite(found.eligible) else found.submit
    asked = classifier.asked_by_user(record.description.words, since)
    if isinstance(asked, tuple):
        name, own = asked
    predicted = found.run_time.predicted
    median = None if predicted is None else predicted.median
    runs = [median, found.run_time.estimate, found.time_limit]
    run = next((each for each in runs if each and math.isfinite(each)), UNKNOWN_RUN_TIME)
    wait = max(look.considered.plan.snapshot.now - since, 0.0)
    now, later = time_utility(np.array([wait, wait + HOUR]) + run, run, own.row).tolist()
    return ClassUtility(
        class_=name,
        by_user=isinstance(asked, tuple),
        ignored=asked if isinstance(asked, str) else None,
        deadline=None if own.hours is None else since + own.hours * HOUR,
        now=now,
        further_hour=now - later,
    )


def _linear_weights(look: QueueLook) -> dict[str, tuple[float, float, float]]:
    """Feature -> weight, mean and scale; {} where they cannot be read: onnx is not needed here."""
    policy = look.cycle.policy
    if not isinstance(policy, QNetworkPolicy):
        return {}
    try:
        from slurm_rl_plugin.learning.onnx_file import import_model  # noqa: PLC0415 - extra

        network = import_model(policy.card.path)
    except (ModuleNotFoundError, SlurmRLError):
        return {}
    if not isinstance(network, QNetwork):
        return {}
    columns = (network.linear.tolist(), network.job_mean.tolist(), network.job_scale.tolist())
    return dict(zip(policy.schema.jobs, zip(*columns, strict=True), strict=True))


def _audit(configuration: Configuration, number: int) -> list[dict[str, Any]]:
    path = configuration.sections.hook.audit_file
    if not path:
        return []
    wanted = AuditFilter(jobs=frozenset({number}))
    lines = [line for line in tail_of(Path(path), AUDIT_TAIL) if wanted.takes(line)]
    return lines[-AUDIT_LINES:]


def _not_read(configuration: Configuration, look: QueueLook, found: Explanation) -> list[str]:
    missing = []
    system = look.cycle.batch_system
    if system.hidden_factors and found.untouched in ("held", "not_eligible"):
        missing.append(f"its factor and the terms of its priority: {system.hidden_factors}")
    if not found.account.any_usage:
        missing.append(
            "usage: none at all is reported; Slurm keeps none where PriorityWeightFairshare is 0."
        )
    if not math.isfinite(found.time_limit):
        missing.append("a time limit: the job has none.")
    if look.asked_accounting and not configuration.sections.batch_system.history_days:
        missing.append("past runs: history_days is 0 and no daemon remembers any.")
    if any(feature.linear is None for feature in found.features or ()):
        missing.append(
            "the linear part of the score: that needs the onnx package and a model of slurm-rl."
        )
    path = configuration.sections.hook.audit_file
    if not path or not Path(path).exists():
        missing.append("the audit log: there is none yet.")
    return missing


class _Decided:
    def __init__(self, look: QueueLook, place: int) -> None:
        self.look, self.place = look, place
        self._cycle, self._plan = look.cycle, look.considered.plan
        self._snapshot = self._plan.snapshot

    def explanation(self, configuration: Configuration) -> Explanation:
        """Everything except what only the job's record holds."""
        snapshot, place, considered = self._snapshot, self.place, self.look.considered
        jobs, starts = snapshot.pending.jobs, snapshot.pending.last_start
        counts, limit = self._plan.seen.pending.wait_counts, self._plan.limit
        number = int(jobs.job_id[place])
        return Explanation(
            job=number,
            user=self._user(place),
            partition=snapshot.partitions[jobs.partition[place]],
            class_=_class_of(snapshot, place),
            as_batch=self._as_batch(),
            processors=int(jobs.processors[place]),
            time_limit=float(jobs.time_limit[place]),
            submit=float(jobs.submit[place]),
            eligible=float(jobs.eligible[place]),
            wait=float(considered.wait[place]),
            accrued=float(considered.accrued[place]),
            started_tasks=starts is not None and math.isfinite(starts[place]),
            runs=float(snapshot.each_runs[place]),
            wait_counts=1.0 if counts is None else float(counts[place]),
            for_processors=bool(snapshot.pending.each_for_processors[place]),
            passed_over=bool(considered.passed_over[place]),
            untouched=considered.untouched[place] or None,
            requests=self._requests(),
            ranks=self._ranks(),
            score=self._score(place),
            run_time=self._run_time(),
            features=self._features(),
            account=self._account(),
            guard_rails=self._guard_rails(),
            own_order=self._own_order(),
            priority=self._priority(),
            write=self._write(),
            neighbours=self._neighbours(),
            policy=self._cycle.policy.name,
            model=self._cycle.model_sha256 or None,
            fallback=self._plan.fallback_reason,
            reserve=self._plan.decision.reserve or 0,
            batch_limit=BatchLimitSeen(
                processors=limit.processors,
                resources=limit.others,
                reason=limit.reason,
                words=limit_sentence(limit),
            ),
            writes=_writes(configuration),
            experiment=experiment_sentence(configuration) or None,
            start=forecast_start(configuration, number),
            audit=_audit(configuration, number),
        )

    def _user(self, place: int) -> str:
        user = int(self._snapshot.pending.jobs.user[place])
        return self._snapshot.users[user] if 0 <= user < len(self._snapshot.users) else ""

    def _as_batch(self) -> AsBatch | None:
        as_batch, rail = self._snapshot.pending.as_batch, self._cycle.limit.rail
        if as_batch is None or as_batch[self.place] == AS_CLASSED:
            return None
        reason = AS_BATCH[int(as_batch[self.place])]
        if rail is None:
            return AsBatch(reason=reason)
        if reason == OVERRUN:
            user = int(self._snapshot.pending.jobs.user[self.place])
            return AsBatch(reason=reason, **self._plan.overruns[user]._asdict())
        most = {ACCOUNT: rail.settings.account_most, USER: rail.settings.user_most}
        return AsBatch(reason=reason, most=int(most[reason]))

    def _requests(self) -> Requests | None:
        requests = self._snapshot.pending.jobs.requests
        if requests is None:
            return None
        amounts = zip(requests.names, requests.total[self.place].tolist(), strict=True)
        return Requests(
            amounts={name: amount for name, amount in amounts if amount},
            nodes=int(requests.nodes[self.place]),
            exclusive=bool(requests.exclusive[self.place]),
            constraint=requests.constraints[int(requests.constraint[self.place])] or None,
        )

    def _ranks(self) -> Ranks:
        considered, place = self.look.considered, self.place
        rank, account = considered.rank, self._snapshot.pending.jobs.account
        own = rank[(account == account[place]) & (rank > 0)]
        mine = int(rank[place])
        return Ranks(
            decided=mine or None,
            site=int(considered.site_rank[place]) or None,
            now=int(considered.current_rank[place]) or None,
            of=considered.ranked,
            in_account=int((own <= mine).sum()) if mine else None,
            of_account=len(own),
        )

    def _score(self, place: int) -> float | None:
        ordered = not self.look.considered.untouched[place] and not self._plan.releases
        return float(self._plan.decision.scores[place]) if ordered else None

    def _run_time(self) -> RunTime:
        policy, jobs = self._cycle.policy, self._snapshot.pending.jobs
        if not isinstance(policy, QNetworkPolicy | RulePolicy):
            return RunTime()
        one = jobs.select(np.array([self.place]))
        estimate = float(policy.estimates.estimate(one.time_limit, one.interactive)[0])
        predicted = None
        if isinstance(policy, QNetworkPolicy) and policy.knows_past:
            predicted = self._predicted(policy, self._plan.memory)
        return RunTime(estimate=estimate, kind=policy.estimates.kind, predicted=predicted)

    def _predicted(self, policy: QNetworkPolicy, memory: Memory | None) -> Predicted:
        """Read back from the features, quantiles from the decision."""
        row = policy.job_features(self._plan.seen, memory)[self.place].tolist()
        length = row[policy.schema.jobs.index("log_run_time")]
        quantiles, goal = self._quantiles(), policy.goals.short_jobs
        return Predicted(
            median=quantiles.get("0.5"),
            quantiles=quantiles,
            counts_as=math.exp(length / goal) if goal else None,
        )

    def _quantiles(self) -> dict[str, float]:
        """Part of the runs -> seconds below which they end; {} without a prediction."""
        ask = self._plan.decision.run_times
        if ask is None:
            return {}
        try:
            seconds = ask()
        except PolicyError:  # the page then shows no quantiles
            return {}
        return {str(part): float(seconds[self.place, at]) for at, part in enumerate(PARTS)}

    def _features(self) -> list[Feature] | None:
        """The linear part is weight * (value - mean) / scale, points weight * value / scale."""
        policy = self._cycle.policy
        used = isinstance(policy, QNetworkPolicy) and self._plan.fallback_reason is None
        if not used or self.look.considered.untouched[self.place]:
            return None
        assert isinstance(policy, QNetworkPolicy)
        weights, found = _linear_weights(self.look), list[Feature]()
        for each in feature_effects(policy, self._plan.seen, self._plan.memory, self.place):
            linear = points = None
            if each.name in weights:
                weight, mean, scale = weights[each.name]
                linear, points = (weight * (each.value - off) / scale for off in (mean, 0.0))
            found.append(Feature(**asdict(each), linear=linear, points=points))
        return found

    def _account(self) -> Account:
        snapshot = self._snapshot
        index = int(snapshot.pending.jobs.account[self.place])
        lifts, service = self._plan.lifts.accounts, self._plan.service
        ratio = math.nan if service is None else float(service.ratios[index])
        return Account(
            name=snapshot.accounts[index],
            share=float(snapshot.shares[index]),
            usage=float(snapshot.usage[index]),
            any_usage=bool(snapshot.usage.any()),
            lift=float(lifts[index]) if len(lifts) else 0.0,
            ratio=ratio if math.isfinite(ratio) else None,
            weighs_share=self._weighs_share(),
        )

    def _weighs_share(self) -> bool | None:
        """Whether any score changes with the account's usage."""
        if self._plan.fallback_reason is not None:
            return None
        snapshot, memory = self._snapshot, self._plan.memory
        account = snapshot.pending.jobs.account[self.place]
        used = (np.arange(len(snapshot.usage)) == account).astype(np.float64)
        without, with_usage = (
            self._cycle.policy.decide(replace(snapshot, usage=usage), memory).scores
            for usage in (np.zeros_like(used), used)
        )
        return not np.array_equal(without, with_usage)

    def _guard_rails(self) -> list[ActedRail]:
        if self._plan.fallback_reason is not None or not len(self._plan.order):
            return []
        decision = self._cycle.policy.decide(self._plan.seen, self._plan.memory)
        acted = []
        for rail in self._cycle.guard_rails:
            after = rail.check(decision, self._snapshot)
            if after is not decision and after.scores is not decision.scores:
                acted.append(
                    ActedRail(
                        rail=rail_name(rail),
                        place_before=self._place_by(decision.scores),
                        place_after=self._place_by(after.scores),
                    )
                )
            decision = after
        return acted

    def _place_by(self, scores: FloatArray) -> int | None:
        order = orderable_by_score(self._snapshot, scores, self._cycle.untouched).tolist()
        return order.index(self.place) + 1 if self.place in order else None

    def _own_order(self) -> int:
        own = own_jobs(self._snapshot.pending)
        scored = orderable_by_score(
            self._snapshot, self._plan.decision.scores, self._cycle.untouched
        ).tolist()
        before, after = (
            [place for place in order if own[place] == own[self.place]]
            for order in (scored, self._plan.order)
        )
        ordered = self.place in after and not self._plan.releases
        return after.index(self.place) - before.index(self.place) if ordered else 0

    def _priority(self) -> Priority:
        pending = self._snapshot.pending
        native, factor = int(pending.native_priority[self.place]), int(pending.factor[self.place])
        return Priority(
            native=native, factor=factor, total=native + factor, nice=int(pending.nice[self.place])
        )

    def _write(self) -> Write | None:
        job = self._snapshot.pending.jobs.job_id[self.place]
        most = self._cycle.settings.max_writes
        for place, change in enumerate(self._plan.changes):
            if change.job_id == job:
                return Write(old=change.old, new=change.new, this_cycle=place < most)
        factor = int(self._snapshot.pending.factor[self.place])
        released = self._plan.releases and factor
        return Write(old=factor, new=0, this_cycle=True) if released else None

    def _neighbours(self) -> list[Neighbour]:
        considered, snapshot = self.look.considered, self._snapshot
        order = [place for place in considered.in_order if considered.rank[place]]
        if self.place not in order:
            return []
        middle = order.index(self.place)
        jobs = snapshot.pending.jobs
        return [
            Neighbour(
                rank=int(considered.rank[place]) or None,
                site_rank=int(considered.site_rank[place]) or None,
                job=int(jobs.job_id[place]),
                user=self._user(place),
                account=snapshot.accounts[int(jobs.account[place])],
                partition=snapshot.partitions[jobs.partition[place]],
                class_=_class_of(snapshot, place),
                wait=float(considered.wait[place]),
                untouched=considered.untouched[place] or None,
                score=self._score(place),
            )
            for place in order[max(middle - NEIGHBOURS, 0) : middle + NEIGHBOURS + 1]
        ]


def _class_of(snapshot: QueueSnapshot, place: int) -> str:
    return "interactive" if snapshot.pending.jobs.interactive[place] else "batch"
