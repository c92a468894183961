"""Plan estimates from cycle to cycle: given to candidates, taken away as they start, taken back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.plan_port import JobEstimate, PlansByEstimates
from slurm_rl_plugin.batch_systems.port import BatchSystem
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected, SlurmRLError
from slurm_rl_plugin.features.history.run_spread import PARTS
from slurm_rl_plugin.hook.memory.absences import Absences
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.hook.plan.candidates import PlanBounds, wanted_estimates
from slurm_rl_plugin.hook.plan.heads import waiting_queue
from slurm_rl_plugin.hook.plan.plan_file import PlanFile, PlanMemory
from slurm_rl_plugin.policies.protection import longest_wait, plan_slack

logger = logging.getLogger(__name__)

#: Part of the runs that end before the estimate, and of the longest wait lately by which a head
#: may be pushed beyond its promise: what the simulator found (docs/plan-estimates.md).
PART, SLACK = PARTS.index(0.5), 0.1
#: An estimate stands until the wanted one is so many times as long, or as short.
MUCH_THE_SAME = 1.5
#: Seconds between the end of a cycle and the scheduler's next look at the queue, at least.
LEAST_DELAY = 60.0
#: What becomes of writes, and why estimates could not be set or taken back.
PLAN_WRITES = ("given", "taken", "rejected")
PLAN_FAILURES = ("refused", "unavailable", "internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """Plan estimates in one cycle.

    Attributes:
        standing: jobs that may carry an estimate of ours after it; in shadow mode those that would.
        given, taken: estimates set, and taken away.
        rejected: those that the batch system did not take.
        refused: why nobody is given one, one sentence; "" where they are.
        failure: one of PLAN_FAILURES; then what stood may stand.
    """

    standing: int = 0
    given: int = 0
    taken: int = 0
    rejected: int = 0
    refused: str = ""
    failure: str | None = None


@dataclass(slots=True, kw_only=True)
class PlanEstimates:
    """Tells the scheduler run times of candidates, where the site wants it and it is sound.

    Attributes:
        wanted: whether the site does.
        doubt: why nothing is gained by it here, one sentence; "" where it is, or the site insists.
        file: remembers what is ours; None where nothing is ever told.
        delay: seconds between a write and the scheduler's next look.
        most: writes in one cycle.
    """

    wanted: bool = False
    doubt: str = ""
    file: PlanFile | None = None
    delay: float = LEAST_DELAY
    most: int = 2000
    _known: PlanMemory | None = None
    _absences: Absences = field(default_factory=Absences)
    _complained: str = ""

    @property
    def stands(self) -> bool:
        """Whether an estimate of ours may stand on a job that waits."""
        return self.file is not None and self.file.stands

    @property
    def remembers(self) -> bool:
        """Whether one stands, or a job that left the queue may come back with one."""
        return self.stands or (self.file is not None and self.file.of_others.stands)

    def go_on_from(self, earlier: PlanEstimates) -> None:
        """After a reload: what heads were promised, how long jobs have waited lately."""
        self._known = earlier._known

    def forget(self) -> None:
        """Another host's daemon is in charge: what it knows is in the file."""
        self._known = None

    def carry_out(self, system: BatchSystem, plan: QueuePlan, *, shadow: bool) -> PlanReport:
        """Give and take what the plan of a cycle asks for; a failure is reported, not raised.

        Args:
            system: who is told.
            plan: of this cycle, after its factors were written.
            shadow: nothing is given, and what stands is taken back.
        """
        if not (self.wanted or self.remembers):
            return PlanReport()
        try:
            return self._carried_out(system, plan, shadow)
        except SlurmRLError as error:
            return self._failed(error)
        except Exception as error:  # whatever breaks, the order of the queue must not
            logger.exception("plan_estimates=failed")
            return replace(self._failed(ChangeRejected(str(error))), failure="internal")

    def withdraw(self, system: BatchSystem) -> PlanReport:
        """A cycle that cannot follow the queue keeps no promise, so nothing of ours is planned.

        Returns:
            What became of what stood; the empty report where nothing did.
        """
        try:
            if not self.stands:
                return PlanReport()
            self.take_back(system)
        except Exception as error:  # noqa: BLE001 - that cycle has failed already
            logger.error("plan_estimates=left reason=%s", error)
            return self._failed(
                error if isinstance(error, SlurmRLError) else ChangeRejected(str(error))
            )
        return PlanReport(refused="the cycle failed")

    def take_back(self, system: BatchSystem, snapshot: QueueSnapshot | None = None) -> None:
        """Take away every estimate of ours, where one may stand.

        A running job keeps what it started with, and comes back with it where it is requeued: so
        whoever does not wait is remembered, as long as he may come back.

        Args:
            system: who was told.
            snapshot: the queue now; without it nobody is known to be gone for good.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
            SlurmRLError: one cannot be taken away.
        """
        if self.file is None or not self.remembers:
            return
        known, standing = self.file.read_all(), dict[int, JobEstimate]()
        if known is None or snapshot is None or self.stands or _wait(known, snapshot):
            lever = _lever(system)
            standing = dict(lever.estimates())
            left = self._write(lever, _of_ours(standing, known))
            if left:
                raise ChangeRejected(f"{len(left)} jobs keep an estimate of ours for now: {left}")
        others = {job: told for job, told in _jobs(known).items() if job not in standing}
        if known is not None and snapshot is not None:
            alive, now = snapshot.running.numbers, snapshot.now
            may = self._absences.not_yet_gone(others.keys(), alive, now, known.time)
            others = {job: others[job] for job in may}
            known = replace(known, time=now) if others.keys() & alive else known
        self._forget(replace(known or PlanMemory(), jobs=others, promises={}))

    def _carried_out(self, system: BatchSystem, plan: QueuePlan, shadow: bool) -> PlanReport:
        refused = self._refused(system, plan)
        if refused or shadow:
            self.take_back(system, plan.snapshot)
        if refused:
            self._tell(refused)
            return PlanReport(refused=refused)
        wanted, known = self._planned(plan, self._look(system, plan.snapshot))
        if shadow:
            self._known = known
            return PlanReport(standing=len(wanted))
        lever = _lever(system)
        standing = lever.estimates()
        changes = self._changes(wanted, standing, known)
        alive = {*standing, *plan.snapshot.running.numbers}
        may = self._absences.not_yet_gone(known.jobs.keys(), alive, plan.snapshot.now)
        ours = {job: told for job, told in known.jobs.items() if job in may}
        before = {job: (*ours.get(job, ()), told) for job, told in changes.items()}
        self._keep(replace(known, jobs={**ours, **before}))
        left = self._write(lever, changes)
        self._tell("")
        written = {job: (told,) for job, told in changes.items() if job not in left}
        after = {**ours, **before, **written}
        self._keep(replace(known, jobs={job: told for job, told in after.items() if any(told)}))
        given = [told for (told,) in written.values() if told]
        return PlanReport(
            standing=len(self._known.jobs) if self._known else 0,
            given=len(given),
            taken=len(written) - len(given),
            rejected=len(left),
        )

    def _refused(self, system: BatchSystem, plan: QueuePlan) -> str:
        """Why nobody is given an estimate in this cycle; "" where they are."""
        if not self.wanted:
            return "[plan] estimates is off"
        if self.doubt:
            return self.doubt
        if plan.fallback_reason is not None or plan.releases:
            return "the policy is not used"
        if plan.decision.run_times is None:
            return "the policy foretells no run times: [policy] model has to name one that does"
        if not isinstance(system, PlansByEstimates):
            return f"{system.name} cannot plan by estimates"
        return system.estimates_refused() or ""

    def _look(self, system: BatchSystem, snapshot: QueueSnapshot) -> PlanMemory:
        """What is known now; the longest wait grows, and fades while nobody waits.

        Where the clock was ahead and is set back, what was promised meanwhile may be too late by as
        much, and the longest wait too long: rather too little is allowed now than too much.
        """
        assert self.file is not None
        known = self._known or self.file.read_all()
        if known is None:  # nobody knows which are ours
            self.take_back(system)
            known = PlanMemory()
        waits, waited = snapshot.waits_for_machine, np.nan_to_num(snapshot.accrued_wait)
        since = snapshot.now - known.time if np.isfinite(known.time) else 0.0
        ahead = max(-since, 0.0)
        before = max(known.longest - ahead, 0.0)
        longest = longest_wait(before, max(since, 0.0), waited[waits].max(initial=0.0))
        promises = {job: told - ahead for job, told in known.promises.items()}
        return replace(known, longest=float(longest), promises=promises, time=snapshot.now)

    def _planned(self, plan: QueuePlan, known: PlanMemory) -> tuple[dict[int, int], PlanMemory]:
        """Estimates that are wanted, and what is known with the promises of this cycle."""
        assert plan.decision.run_times is not None
        snapshot, quantiles = plan.snapshot, plan.decision.run_times()
        queue = waiting_queue(snapshot, plan.priority_after, snapshot.waits_for_machine)
        numbers = snapshot.pending.jobs.job_id
        starts = {int(numbers[head.place]): head.start for head in queue.heads}
        waiting = set(numbers.tolist())
        kept = {job: told for job, told in known.promises.items() if job in waiting}
        # who fits by count waits for what is not seen: that is no start to promise
        new = {job: told for job, told in starts.items() if snapshot.now < told < np.inf}
        known = replace(known, promises={**new, **kept})  # the first promise counts
        bounds = PlanBounds(
            promises=known.promises,
            slack=float(plan_slack(known.longest, SLACK)),
            delay=self.delay,
        )
        return wanted_estimates(snapshot, queue, quantiles[:, PART], bounds), known

    def _changes(
        self, wanted: Mapping[int, int], standing: Mapping[int, JobEstimate], known: PlanMemory
    ) -> dict[int, int]:
        """The writes of this cycle: first what has to go, then what is new, `most` at most.

        A value that is not ours is its user's own, and left alone.
        """
        gone: dict[int, int] = {}
        new: dict[int, int] = {}
        for job, told in standing.items():
            is_ours = told.seconds == 0 or told.seconds in known.jobs.get(job, ())
            seconds = wanted.get(job, 0) if told.obstacle is None else 0
            if not is_ours or _is_much_the_same(told.seconds, seconds):
                continue
            (new if seconds else gone)[job] = seconds
        return dict(list({**gone, **new}.items())[: self.most])

    def _write(self, lever: PlansByEstimates, changes: Mapping[int, int]) -> dict[int, str]:
        """Job -> why it was not written, of those that still wait or run."""
        if not changes:
            return {}
        rejected = lever.write_estimates(changes).rejected
        if not rejected:
            return {}
        first = next(iter(rejected))
        logger.info("plan_rejected=%d first=%d reason=%s", len(rejected), first, rejected[first])
        alive = lever.estimates()
        return {
            job: words
            for job, words in rejected.items()
            if job in alive and alive[job].seconds != changes[job]
        }

    def _keep(self, known: PlanMemory) -> None:
        """Remember; written before a write, and kept as a file while an estimate may stand."""
        assert self.file is not None
        if known.jobs:
            if self._known is None or known.jobs != self._known.jobs:
                self.file.write(known)
                self.file.of_others.remove()  # they are in it
        elif self.remembers:
            self._forget(known)
        self._known = known

    def _forget(self, others: PlanMemory) -> None:
        """Nobody who waits carries an estimate of ours; those who may come back are kept apart."""
        assert self.file is not None
        try:
            if others.jobs:
                self.file.of_others.write(others)
            else:
                self.file.of_others.remove()
            self.file.remove()
        except OSError as error:
            raise ChangeRejected(
                f"{self.file.path} cannot be removed ({error.strerror}): make its folder writable "
                "for this user."
            ) from None
        self._known = None if self._known is None else replace(self._known, jobs=others.jobs)

    def _failed(self, error: SlurmRLError) -> PlanReport:
        self._tell(str(error))
        failure = "unavailable" if isinstance(error, BatchSystemUnavailable) else "refused"
        known = self._known or PlanMemory()
        return PlanReport(standing=len(known.jobs), refused=str(error), failure=failure)

    def _tell(self, words: str) -> None:
        if words != self._complained and words:  # the same every minute would fill the log
            logger.warning("plan_estimates=none reason=%s", words)
        self._complained = words


def _jobs(known: PlanMemory | None) -> Mapping[int, tuple[int, ...]]:
    return {} if known is None else known.jobs


def _wait(known: PlanMemory, snapshot: QueueSnapshot) -> bool:
    """Whether any of the remembered jobs waits."""
    return not known.jobs.keys().isdisjoint(snapshot.pending.jobs.job_id.tolist())


def _of_ours(standing: Mapping[int, JobEstimate], known: PlanMemory | None) -> dict[int, int]:
    """Zero for each job that carries an estimate of ours; for all, where nobody knows whose."""
    return {
        job: 0
        for job, told in standing.items()
        if told.seconds and (known is None or told.seconds in known.jobs.get(job, ()))
    }


def _is_much_the_same(standing: int, wanted: int) -> bool:
    """Each write costs the scheduler a look at its queue, and foretold times move all the time."""
    if not (standing and wanted):
        return standing == wanted
    return max(standing, wanted) <= MUCH_THE_SAME * min(standing, wanted)


def _lever(system: BatchSystem) -> PlansByEstimates:
    if not isinstance(system, PlansByEstimates):
        raise ChangeRejected(
            f"{system.name} cannot plan by estimates: set [plan] estimates = false"
        )
    return system


def plan_path(state_file: Path) -> Path:
    """Where it is remembered which jobs carry an estimate of ours, beside the state file."""
    return state_file.with_name(state_file.name + ".plan")
