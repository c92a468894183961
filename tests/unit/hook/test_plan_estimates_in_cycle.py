"""Plan estimates in a cycle: remembered before they are written, taken away as jobs start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.plan_port import JobEstimate
from slurm_rl_plugin.batch_systems.port import ApplyReport
from slurm_rl_plugin.domain import Decision, Memory, PendingJobs, QueueSnapshot, RunningJobs
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.memory.absences import REMEMBERED_AFTER_END
from slurm_rl_plugin.hook.plan.estimates import PlanEstimates, PlanReport, plan_path
from slurm_rl_plugin.hook.plan.plan_file import PlanFile
from tests.unit.hook.queues import QueueInMemory, ScorePolicy
from tests.unit.hook.test_cycle import cycle_over
from tests.unit.hook.test_plan_candidates import HOUR, queue_of


@dataclass
class PlannedQueue(QueueInMemory):
    """A queue that is planned by estimates; it notes what the file said at each write."""

    file: Path = field(kw_only=True)
    shown: QueueSnapshot = field(kw_only=True)
    standing: dict[int, int] = field(default_factory=dict)
    obstacles: dict[int, str] = field(default_factory=dict)
    unsound: str | None = None
    fault: Exception | None = None
    refuses: tuple[int, ...] = ()
    calls: list[dict[int, int]] = field(default_factory=list)
    remembered: list[dict[str, list[int]]] = field(default_factory=list)

    def snapshot(self) -> QueueSnapshot:
        self._answer("snapshot")
        return replace(self.shown, now=self.now, pending=self.pending)

    def estimates_refused(self) -> str | None:
        return self.unsound

    def estimates(self) -> Mapping[int, JobEstimate]:
        jobs = {*self.pending.jobs.job_id.tolist(), *self.standing}
        return {
            job: JobEstimate(seconds=self.standing.get(job, 0), obstacle=self.obstacles.get(job))
            for job in sorted(jobs)
        }

    def write_estimates(self, seconds: Mapping[int, int]) -> ApplyReport:
        self.asked.append("estimates")
        if self.fault is not None:
            raise self.fault
        self.calls.append(dict(seconds))
        planned = PlanFile(self.file)
        noted = planned if planned.stands else planned.of_others
        content = json.loads(noted.path.read_text())
        self.remembered.append(content["jobs"] if content else {})
        for job, told in seconds.items():
            if job not in self.refuses:
                self.standing[job] = told
        self.standing = {job: told for job, told in self.standing.items() if told}
        rejected = {job: "no" for job in seconds if job in self.refuses}
        return ApplyReport(applied=len(seconds) - len(rejected), rejected=rejected)


@dataclass
class Foretelling(ScorePolicy):
    """Foretells the same run time of each job; None for nothing."""

    seconds: float | None = 290.0

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        decision = ScorePolicy.decide(self, snapshot, memory)
        if self.seconds is None:
            return decision
        seconds = np.full((len(snapshot.pending), 5), self.seconds)
        return replace(decision, run_times=lambda: seconds)


class Hook:
    """A cycle over 4 processors: job 1 waits for all of them, job 2 for half with a long limit.

    The head's promise was made when a running job had six hours left.
    """

    pending: PendingJobs

    def __init__(self, folder: Path, **settings: object) -> None:
        self.file = plan_path(folder / "state.json")
        late, now = (queue_of([4, 2], [600, 2 * HOUR], [(2, left)]) for left in (6 * HOUR, HOUR))
        self.queue = PlannedQueue(late.pending, file=self.file, shown=late)
        self.policy = Foretelling([2, 1])
        self.cycle = self.over(folder, **settings)
        self.cycle.run()
        self.queue.shown = now

    def over(self, folder: Path, **settings: object) -> Cycle:
        cycle = cycle_over(self.queue, self.policy, folder, **settings)
        cycle.estimates = PlanEstimates(wanted=True, file=PlanFile(self.file))
        return cycle


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    return Hook(tmp_path)


def test_a_candidate_is_told_and_remembered_before(hook: Hook) -> None:
    assert not hook.queue.standing
    report = hook.cycle.run()
    assert hook.queue.standing == {2: 300}
    assert hook.queue.remembered == [{"2": [300]}]
    assert (report.estimates.given, report.estimates.standing) == (1, 1)
    assert hook.cycle.carries_factors
    assert hook.cycle.run().estimates.given == 0  # as it should be: nothing is written
    assert len(hook.queue.calls) == 1


def test_it_is_taken_away_as_the_job_starts_or_no_longer_may(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.obstacles[2] = "a reservation is near"
    report = hook.cycle.run()
    assert (report.estimates.taken, hook.queue.standing) == (1, {})
    assert not hook.file.exists()
    hook.queue.obstacles.clear()
    hook.cycle.run()
    assert hook.queue.standing == {2: 300}
    started = hook.queue.pending.jobs.job_id != 2
    hook.queue.pending = hook.queue.pending.select(started)
    hook.policy.scores = [1]
    assert hook.cycle.run().estimates.taken == 1  # it still showed as a running job
    assert hook.queue.standing == {}


def test_an_estimate_stands_until_another_is_foretold(hook: Hook) -> None:
    hook.cycle.run()
    for seconds, standing in ((400.0, 300), (200.0, 300), (470.0, 480), (300.0, 300)):
        hook.policy.seconds = seconds
        hook.cycle.run()
        assert hook.queue.standing == {2: standing}


@pytest.mark.parametrize("ahead", [2 * HOUR, 87_600 * HOUR])
def test_a_clock_that_was_ahead_allows_no_more_once_it_is_right(
    tmp_path: Path, ahead: float
) -> None:
    """What was promised by it may be too late by as much, and the longest wait too long."""
    hook = Hook(tmp_path)
    estimates = hook.cycle.estimates
    assert estimates._known is not None
    promised, longest = dict(estimates._known.promises), estimates._known.longest
    estimates._known = None  # whoever becomes head now
    hook.queue.now += ahead
    hook.cycle.run()
    hook.queue.now -= ahead
    hook.cycle.run()
    known = estimates._known
    assert known is not None
    assert known.longest <= longest
    assert all(known.promises[job] <= told for job, told in promised.items())


def test_a_head_that_fits_by_count_is_promised_nothing(hook: Hook) -> None:
    planned = hook.queue.shown
    hook.queue.shown = replace(planned, running=planned.running.select(np.zeros(0, dtype=int)))
    fresh = hook.over(hook.file.parent)
    fresh.run()
    assert fresh.estimates._known is not None
    assert not fresh.estimates._known.promises
    hook.queue.shown = planned
    fresh.run()
    assert list(fresh.estimates._known.promises) == [1]


def test_a_users_own_value_is_left_alone(hook: Hook) -> None:
    hook.queue.standing = {2: 1200}
    assert hook.cycle.run().estimates.given == 0
    hook.cycle.release()
    assert hook.queue.standing == {2: 1200}
    hook.queue.standing = {}
    hook.cycle.run()
    hook.queue.standing = {2: 600}  # the user has set another since
    hook.cycle.run()
    hook.cycle.release()
    assert hook.queue.standing == {2: 600}


@pytest.mark.parametrize("why", ["unsound", "broken", "silent", "off", "doubt", "shadow"])
def test_all_is_taken_back_where_it_no_longer_counts(hook: Hook, why: str) -> None:
    hook.cycle.run()
    assert hook.queue.standing
    if why == "unsound":
        hook.queue.unsound = "the flag is gone"
    elif why == "broken":
        hook.policy.broken = True
    elif why == "silent":
        hook.policy.seconds = None
    elif why == "off":
        hook.cycle.estimates.wanted = False
    elif why == "doubt":
        hook.cycle.estimates.doubt = "nothing was gained"
    else:
        hook.cycle.settings = replace(hook.cycle.settings, shadow=True)
    report = hook.cycle.run()
    assert report.succeeded
    assert (hook.queue.standing, hook.file.exists()) == ({}, False)
    assert bool(report.estimates.refused) == (why != "shadow")
    assert report.estimates.standing == (1 if why == "shadow" else 0)


def test_a_doubt_is_logged_once_and_not_in_every_cycle(
    hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    hook.cycle.estimates.doubt = "nothing was gained"
    reports = [hook.cycle.run().estimates for _ in range(3)]
    assert {each.refused for each in reports} == {"nothing was gained"}
    assert caplog.text.count("nothing was gained") == 1
    assert not hook.queue.calls


def test_a_release_takes_all_of_ours_back_and_a_new_process_can(hook: Hook, tmp_path: Path) -> None:
    hook.cycle.run()
    fresh = hook.over(tmp_path)
    assert fresh.carries_factors
    fresh.release()
    assert (hook.queue.standing, hook.file.exists()) == ({}, False)


def test_estimates_go_first_and_factors_go_whatever_becomes_of_them(hook: Hook) -> None:
    hook.policy.scores = [1, 2]
    hook.cycle.run()
    hook.policy.scores = [2, 1]
    hook.cycle.run()
    assert hook.queue.standing
    hook.queue.asked.clear()
    hook.queue.fault = BatchSystemUnavailable("down")
    with pytest.raises(BatchSystemUnavailable, match="down"):
        hook.cycle.release()
    assert hook.queue.asked.index("estimates") < hook.queue.asked.index("release")
    assert hook.file.exists()
    hook.queue.fault = None
    hook.cycle.release()
    assert not hook.cycle.carries_factors


def test_a_daemon_that_stood_by_reads_what_the_other_has_written(hook: Hook) -> None:
    hook.cycle.run()
    hook.cycle.settings = replace(hook.cycle.settings, beside_controllers=True)
    hook.queue.known = replace(hook.queue.known, in_charge=False)
    assert hook.cycle.run().mode == "standby"
    hook.queue.standing = {2: 600}
    hook.file.write_text(hook.file.read_text().replace("300", "600"))
    hook.queue.known = replace(hook.queue.known, in_charge=True)
    hook.queue.obstacles[2] = "a reservation is near"
    assert hook.cycle.run().estimates.taken == 1


def test_a_file_that_is_lost_takes_every_estimate_back(hook: Hook, tmp_path: Path) -> None:
    hook.cycle.run()
    for lose in (Cycle.release, Cycle.run):
        hook.cycle.run()
        hook.file.write_text("[]")
        lose(hook.over(tmp_path))
        assert {2: 0} in hook.queue.calls
        hook.queue.calls.clear()
    hook.cycle.release()
    assert (hook.queue.standing, hook.file.exists()) == ({}, False)


def test_a_job_that_comes_back_is_still_known(hook: Hook) -> None:
    """Slurm shows no estimate of a running job, and gives it back when it is requeued."""
    hook.cycle.run()
    waiting, shown = hook.queue.pending, hook.queue.shown
    table = shown.running.jobs
    began = replace(table, job_id=np.array([2]))
    hook.queue.pending = waiting.select(waiting.jobs.job_id != 2)
    hook.queue.shown = replace(shown, running=replace(shown.running, jobs=began))
    hook.queue.standing, hook.policy.scores = {}, [1]
    hook.cycle.run()
    hook.queue.pending, hook.queue.shown = waiting, shown
    hook.queue.standing, hook.policy.scores = {2: 300}, [2, 1]
    hook.queue.obstacles[2] = "a reservation is near"
    assert hook.cycle.run().estimates.taken == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ChangeRejected("no right"), "refused"),
        (BatchSystemUnavailable("down"), "unavailable"),
        (ZeroDivisionError("?"), "internal"),
    ],
)
def test_what_fails_stops_no_order(hook: Hook, fault: Exception, kind: str) -> None:
    hook.queue.fault = fault
    report = hook.cycle.run()
    assert (report.succeeded, report.estimates.failure) == (True, kind)
    assert hook.file.exists()  # it may have been written
    hook.queue.fault = None
    assert hook.cycle.run().estimates.failure is None
    assert hook.queue.standing == {2: 300}


def test_a_refused_one_is_counted_and_not_remembered_as_standing(hook: Hook) -> None:
    hook.queue.refuses = (2,)
    report = hook.cycle.run()
    assert (report.estimates.rejected, report.estimates.given) == (1, 0)
    hook.queue.refuses = ()
    assert hook.cycle.run().estimates.given == 1


def test_a_cycle_that_cannot_follow_the_queue_takes_them_back(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.apply = None  # type: ignore[assignment, method-assign]
    hook.policy.scores = [1, 2]
    report = hook.cycle.run()
    assert (report.failure, report.estimates) == (
        "internal",
        PlanReport(refused="the cycle failed"),
    )
    assert hook.queue.standing == {}
    assert hook.cycle.run().estimates == PlanReport()  # as one that says nothing of them


def test_a_cycle_that_cannot_take_them_back_says_what_stands(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.apply = None  # type: ignore[assignment, method-assign]
    hook.policy.scores, hook.queue.fault = [1, 2], BatchSystemUnavailable("down")
    report = hook.cycle.run()
    assert (report.failure, report.estimates.standing) == ("internal", 1)
    assert report.estimates.failure == "unavailable"


def test_a_release_that_leaves_one_says_so(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.refuses = (2,)
    with pytest.raises(ChangeRejected, match="1 jobs keep an estimate"):
        hook.cycle.release()
    assert hook.file.exists()


def test_shadow_mode_writes_nothing(tmp_path: Path) -> None:
    hook = Hook(tmp_path, shadow=True)
    report = hook.cycle.run()
    assert (hook.queue.calls, hook.file.exists()) == ([], False)
    assert report.estimates.standing == 1


def without_job_2(hook: Hook) -> QueueSnapshot:
    """The queue once job 2 has left it; what it was before is given back."""
    before = hook.queue.shown
    hook.pending = hook.queue.pending
    hook.queue.pending = hook.pending.select(hook.pending.jobs.job_id != 2)
    hook.queue.standing, hook.policy.scores = {}, [1]
    return before


def requeued(hook: Hook) -> None:
    hook.queue.pending, hook.queue.standing, hook.policy.scores = hook.pending, {2: 300}, [2, 1]


def test_a_job_that_completes_and_is_requeued_has_an_estimate_of_ours(hook: Hook) -> None:
    hook.cycle.run()
    without_job_2(hook)
    for _ in range(3):  # neither pending nor running, as while it completes
        hook.queue.now += 60.0
        hook.cycle.run()
    requeued(hook)
    hook.queue.obstacles[2] = "a reservation is near"
    assert hook.cycle.run().estimates.taken == 1
    assert hook.queue.standing == {}


def test_a_job_that_stays_away_is_forgotten(hook: Hook) -> None:
    hook.cycle.run()
    without_job_2(hook)
    hook.cycle.run()
    hook.queue.now += REMEMBERED_AFTER_END + 1.0
    hook.cycle.run()
    assert not hook.cycle.estimates.remembers


def test_an_estimate_that_a_running_job_started_with_is_taken_back_once_it_is_requeued(
    hook: Hook, tmp_path: Path
) -> None:
    hook.cycle.run()
    running = hook.queue.pending.jobs.select(hook.queue.pending.jobs.job_id == 2)
    before = without_job_2(hook)
    runs = RunningJobs(jobs=running, start=running.submit)
    hook.queue.shown = replace(before, running=runs)
    hook.cycle.release()  # as at a stop, or at the end of a turn
    assert not hook.cycle.carries_factors  # none that waits, so that nothing is left to do
    shadow = hook.over(tmp_path)
    shadow.settings = replace(shadow.settings, shadow=True)
    calls = len(hook.queue.calls)
    hook.queue.now += 2 * REMEMBERED_AFTER_END
    shadow.run()
    assert len(hook.queue.calls) == calls
    assert shadow.estimates.remembers  # it runs still
    hook.queue.shown = before
    requeued(hook)
    shadow.run()
    assert hook.queue.standing == {}
    assert not shadow.estimates.remembers
