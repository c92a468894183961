"""Attacks by a user who may only submit jobs: age banked, a place or a class bought."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain import Decision, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.hook.rails.guard_rails import StarvationBound
from slurm_rl_plugin.hook.rails.reserve import (
    KEPT,
    ReserveRail,
    ReserveSettings,
    counted_classes,
)
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.policies.registry import rule_policy
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.unit.hook.queues import QueueInMemory, audit_lines, cycle_over, pending_jobs

HOUR, DAY = 3600, 86_400
HONEST, ATTACKER = 1, 2
#: What a user can make a job wait for, in words that Slurm 22.05 to 26.05 show.
OWN_DOING = (
    *("AssocGrpCPUMinutesLimit", "AssocGrpCpuLimit", "AssocMaxJobsLimit", "AssocGrpGRESMinutes"),
    *("QOSMaxCpuPerUserLimit", "QOSMaxJobsPerUserLimit", "QOSGrpCPUMinutesLimit"),
    *("MaxCpuPerAccount", "MaxGRESRunMinsPerUser", "JobArrayTaskLimit", "DependencyNeverSatisfied"),
    *("ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:n9", "NodeDown", "BadConstraints"),
    *("Reservation", "ReservationDeleted", "PartitionTimeLimit", "PartitionNodeLimit"),
)
#: What is not the user's, and more processors would not mend: such a job lifts no reserve either.
NOT_FOR_PROCESSORS = ("Licenses", "PartitionDown", "QOSGrpCpuLimit", "AReasonOfALaterSlurm")


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


def snapshot_of(cluster: FakeCluster) -> QueueSnapshot:
    settings = replace(cluster.adapter_settings(history_days=0.0), classifier=JobClassifier())
    return SlurmCommands(settings).snapshot()


def first_by(snapshot: QueueSnapshot, scores: np.ndarray) -> int:
    return int(snapshot.pending.jobs.job_id[int(np.argmax(scores))])


def prefer_honest(snapshot: QueueSnapshot) -> Decision:
    return Decision(scores=(snapshot.pending.jobs.job_id == HONEST).astype(np.float64), reserve=2)


def starves_nobody(snapshot: QueueSnapshot) -> bool:
    """Whether the honest job stays first."""
    decision = prefer_honest(snapshot)
    return StarvationBound(bound=72.0 * HOUR).check(decision, snapshot) is decision


class TestBankedAge:
    def test_a_hold_banks_no_age_for_the_starvation_bound(self, cluster: FakeCluster) -> None:
        cluster.add(HONEST)
        wide = {"processors": 64, "time_limit": "7-00:00:00", "submit": NOW - 73 * HOUR}
        cluster.add(ATTACKER, eligible=NOW - 73 * HOUR, accrue=NOW - 60, **wide)
        assert starves_nobody(snapshot_of(cluster))

    def test_age_that_slurm_does_not_count_is_none(self, cluster: FakeCluster) -> None:
        """Beyond MaxJobsAccruePU a job accrues nothing, however long it is eligible."""
        cluster.add(HONEST)
        cluster.add(ATTACKER, eligible=NOW - 73 * HOUR, accrue=None)
        assert starves_nobody(snapshot_of(cluster))

    def test_a_hold_banks_no_age_where_slurm_does_not_reset_it(self, cluster: FakeCluster) -> None:
        """Without enforced limits a hold resets EligibleTime only; by submission it is oldest."""
        cluster.add(HONEST)
        cluster.add(ATTACKER, submit=NOW - 73 * HOUR, eligible=NOW - 60, accrue=NOW - 73 * HOUR)
        snapshot = snapshot_of(cluster)
        assert starves_nobody(snapshot)
        assert first_by(snapshot, rule_policy("fifo").decide(snapshot).scores) == HONEST

    @pytest.mark.parametrize("reason", OWN_DOING)
    def test_who_waits_by_its_own_doing_is_passed_over(
        self, cluster: FakeCluster, reason: str
    ) -> None:
        cluster.add(HONEST)
        cluster.add(ATTACKER, eligible=NOW - 80 * HOUR, processors=2, reason=reason)
        assert starves_nobody(snapshot_of(cluster))

    @pytest.mark.parametrize("reason", [*OWN_DOING, *NOT_FOR_PROCESSORS])
    def test_one_job_does_not_switch_the_reserve_off(
        self, cluster: FakeCluster, reason: str
    ) -> None:
        cluster.add(HONEST, submit=NOW, time_limit="1:00")
        wide = {"processors": 2, "time_limit": "2:00:00"}
        cluster.add(ATTACKER, eligible=NOW - 25 * HOUR, reason=reason, **wide)
        snapshot = snapshot_of(cluster)
        rail = ReserveRail(ReserveSettings(most=4, lift_after=24.0 * HOUR))
        assert rail.check(prefer_honest(snapshot), snapshot).reserve == 2
        assert rail.reason == KEPT

    def test_a_job_that_reaches_its_limit_now_and_then_does_not_starve(
        self, cluster: FakeCluster
    ) -> None:
        cluster.add(HONEST)
        cluster.add(ATTACKER, eligible=NOW - 80 * HOUR, reason="AssocGrpCpuLimit")
        cluster.change(ATTACKER, reason="Priority")
        snapshot = snapshot_of(cluster)
        decision = StarvationBound(bound=72.0 * HOUR).check(prefer_honest(snapshot), snapshot)
        assert first_by(snapshot, decision.scores) == ATTACKER

    def test_a_reason_that_slurm_does_not_look_at_again_starves_nobody(
        self, cluster: FakeCluster
    ) -> None:
        """Far down a long queue Slurm shows the reason of a limit that is long gone."""
        cluster.add(HONEST)
        cluster.add(ATTACKER, eligible=NOW - 80 * HOUR, reason="AssocMaxJobsLimit")
        seen, rail, first = snapshot_of(cluster), StarvationBound(bound=72.0 * HOUR), []
        for minutes in range(12 * 60):
            snapshot = replace(seen, now=NOW + 60.0 * minutes)
            decision = rail.check(prefer_honest(snapshot), snapshot)
            first.append(first_by(snapshot, decision.scores) == ATTACKER)
        assert not any(first[: 4 * 60])
        assert 8 <= sum(first) <= 12  # a few minutes, twice

    def test_a_task_lends_its_array_no_age(self, cluster: FakeCluster) -> None:
        """One task is kept at a node that is down; the others were released a minute ago."""
        cluster.add(HONEST)
        old, young = NOW - 80 * HOUR, NOW - 60
        cluster.add(ATTACKER, array_id=9, tasks="1", eligible=old, reason="ReqNodeNotAvail")
        cluster.add(3, array_id=9, tasks="2-9", eligible=young, accrue=young)
        assert starves_nobody(snapshot_of(cluster))


def with_limits(job_id: list[int], limits: list[float], factor: list[int]) -> PendingJobs:
    return pending_jobs([1000] * len(job_id), job_id=job_id, time_limit=limits, factor=factor)


def requests_told(folder: Path) -> list[dict[str, object]]:
    """Lines of the audit log."""
    return [line for line in audit_lines(folder) if line["event"] == "request"]


class TestAPlaceBought:
    @pytest.mark.parametrize("influence", [float("inf"), 24.0])
    @pytest.mark.parametrize("unanswered", [0, 1, 2])
    @pytest.mark.parametrize("error", [BatchSystemUnavailable, ChangeRejected])
    def test_a_raised_limit_loses_the_place_before_all_other_writes(
        self,
        tmp_path: Path,
        influence: float,
        unanswered: int,
        error: type[BatchSystemError],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Twenty newcomers would take every write of the cycle, and the old factor would stay.

        A write that gets no answer, or is refused, must not make the daemon forget the change.
        """
        queue = QueueInMemory(with_limits([HONEST, ATTACKER], [4.0 * HOUR, 60.0], [0, 0]))
        settings = {"max_writes": 3, "influence": influence, "breaker_rest": 2}
        cycle = cycle_over(queue, rule_policy("sjf"), tmp_path, **settings)
        cycle.run()
        assert queue.order()[0] == ATTACKER
        newcomers = list(range(10, 30))
        queue.pending = with_limits(
            [HONEST, ATTACKER, *newcomers],
            [4.0 * HOUR, 7.0 * DAY, *[30.0] * 20],
            [*queue.pending.factor.tolist(), *[0] * 20],
        )

        def no_answer(changes: Sequence[FactorChange]) -> ApplyReport:
            raise error("not now")

        with monkeypatch.context() as patch:
            patch.setattr(queue, "apply", no_answer)
            failures = [cycle.run().failure for _ in range(unanswered)]
        assert all(failures[:1])  # a refusal is followed by cycles that write nothing
        while cycle.run().mode == "shadow":
            assert queue.order()[0] != HONEST
        order = queue.order()
        assert order.index(HONEST) < order.index(ATTACKER)

    @pytest.mark.parametrize(
        ("what", "change"),
        [
            ("time_limit", {"time_limit": np.array([600.0, 7.0 * DAY])}),
            ("processors", {"processors": np.array([1, 512])}),
        ],
    )
    def test_a_counter_and_the_audit_log_tell_of_it(
        self, tmp_path: Path, what: str, change: dict[str, np.ndarray]
    ) -> None:
        registry = CollectorRegistry()
        metrics = CycleMetrics(registry, {})
        queue = QueueInMemory(with_limits([HONEST, ATTACKER], [600.0, 60.0], [0, 0]))
        cycle = cycle_over(queue, rule_policy("sjf"), tmp_path)
        metrics.publish(cycle.run())
        queue.pending = replace(queue.pending, jobs=replace(queue.pending.jobs, **change))
        metrics.publish(cycle.run())
        metrics.publish(cycle.run())  # reported once
        text = generate_latest(registry).decode()
        assert f'slurm_rl_requests_changed_total{{what="{what}"}} 1.0' in text
        lines = requests_told(tmp_path)
        assert [(line["job"], line["reason"]) for line in lines] == [(ATTACKER, what)]


class TestResourcesBoughtLater:
    """A job is ranked by the part of the machine that it asks for, memory and GPUs among it."""

    NAMES = (*BASIC_RESOURCES, "gres/gpu:a100", "gres/gpu:v100")
    SMALL = (1.0, 1000.0, 1.0, 0.0, 1.0)

    def asking(self, *attacker: float) -> PendingJobs:
        pending = with_limits([HONEST, ATTACKER], [600.0, 60.0], [0, 0])
        total = np.array([self.SMALL, attacker])
        asked = ResourceRequests.of_totals(total, names=self.NAMES, nodes=np.ones(2, dtype=int))
        return replace(pending, jobs=replace(pending.jobs, requests=asked))

    @pytest.mark.parametrize(
        ("attacker", "what", "old", "new"),
        [
            ((1.0, 500_000.0, 1.0, 0.0, 1.0), "memory", 1000.0, 500_000.0),
            ((1.0, 1000.0, 8.0, 0.0, 1.0), "gpus", 1.0, 8.0),
            ((1.0, 1000.0, 1.0, 1.0, 1.0), "resources", "gres/gpu:a100 0", "gres/gpu:a100 1"),
        ],
    )
    @pytest.mark.parametrize("untold", [False, True], ids=["", "behind a look without nodes"])
    def test_the_place_is_lost_and_told_of(
        self,
        tmp_path: Path,
        attacker: tuple[float, ...],
        what: str,
        old: float | str,
        new: float | str,
        untold: bool,
    ) -> None:
        queue = QueueInMemory(self.asking(*self.SMALL))
        cycle = cycle_over(queue, rule_policy("sjf"), tmp_path)
        cycle.run()
        if untold:  # sinfo gave no answer, so requests of nodes are unknown
            queue.pending = with_limits([HONEST, ATTACKER], [600.0, 60.0], [0, 0])
            cycle.run()
        queue.pending = self.asking(*attacker)
        assert cycle.run().requests_changed == {what: 1}
        assert cycle.run().requests_changed == {}  # reported once
        lines = requests_told(tmp_path)
        assert [(line["job"], line["reason"], line["old"], line["new"]) for line in lines] == [
            (ATTACKER, what, old, new)
        ]

    def test_nodes_that_come_and_go_change_no_request(self, tmp_path: Path) -> None:
        """The columns are what the machine has now: GPUs of nodes that are back are new ones."""
        queue = QueueInMemory(self.asking(*self.SMALL))
        cycle = cycle_over(queue, rule_policy("sjf"), tmp_path)
        cycle.run()
        whole = queue.pending
        asked = whole.jobs.requests
        assert asked is not None
        fewer = ResourceRequests.of_totals(
            asked.total[:, :3], names=BASIC_RESOURCES, nodes=asked.nodes
        )
        for requests in (None, fewer, asked):
            queue.pending = replace(whole, jobs=replace(whole.jobs, requests=requests))
            assert cycle.run().requests_changed == {}


class TestAClassBought:
    @pytest.mark.parametrize(
        "job",
        [
            {"partition": "debug,batch", "time_limit": "7-00:00:00", "processors": 1000},
            {"batch": 0, "time_limit": "7-00:00:00"},
            {"batch": 0, "time_limit": "UNLIMITED"},
        ],
        ids=["one of the partitions is quick", "salloc for a week", "salloc for ever"],
    )
    def test_batch_work_is_not_interactive(
        self, cluster: FakeCluster, job: dict[str, object]
    ) -> None:
        cluster.add(ATTACKER, **job)
        assert snapshot_of(cluster).pending.jobs.interactive.tolist() == [False]

    def test_one_user_does_not_fill_the_reserve(self, cluster: FakeCluster) -> None:
        """Twenty jobs of a quarter of an hour, the last one by an array; then an honest one."""
        for job in range(2, 21):
            cluster.add(job, time_limit="15:00", user="mallory")
        cluster.add(30, time_limit="15:00", user="mallory", tasks="1-20000")
        cluster.add(HONEST, time_limit="15:00", user="alice", submit=NOW)
        rail = ReserveRail(ReserveSettings(most=6, account_share=1.0, user_share=0.33))
        snapshot = counted_classes(snapshot_of(cluster), rail.settings)
        jobs = snapshot.pending.jobs
        assert jobs.job_id[jobs.interactive].tolist() == [2, 3, HONEST]
        decision = rail.check(rule_policy("reserve:4").decide(snapshot), snapshot)
        first = jobs.job_id[np.argsort(-decision.scores, kind="stable")][:3]
        assert sorted(first.tolist()) == [HONEST, 2, 3]

    @pytest.mark.parametrize("bounded", [True, False])
    @pytest.mark.parametrize(
        "words", ["class=due", "deadline=%Y-%m-%dT%H:%M", "class=ours", "deadline=2999-01-01T00:00"]
    )
    def test_a_class_that_users_may_choose_lets_no_user_past_the_bound(
        self, cluster: FakeCluster, words: str, bounded: bool
    ) -> None:
        """Twenty long jobs that ask for the class; a bar in a comment tries to be another field."""
        comment = "x|0|1|;|" if words == "class=ours" else ""
        comment += time.strftime(f"slurm-rl:{words}", time.localtime(NOW + HOUR))
        for job in range(2, 22):
            cluster.add(job, time_limit="7-00:00:00", user="mallory", comment=comment)
        cluster.add(HONEST, user="alice", submit=NOW, comment="slurm-rl:class=due")
        own = {"due": UtilityClass(form="deadline", hours=2.0, interactive=True, users=True)}
        own |= {"ours": UtilityClass(form="power", interactive=True)}
        classes = JobClassifier((), {**BUILT_IN, **own})
        settings = cluster.adapter_settings(history_days=0.0, classifier=classes)
        snapshot = SlurmCommands(settings).snapshot()
        rail = ReserveRail(ReserveSettings(most=6, account_share=1.0, user_share=0.33))
        allowed = words in ("class=due", "deadline=%Y-%m-%dT%H:%M")
        if bounded:
            jobs = counted_classes(snapshot, rail.settings).pending.jobs
            expected = [2, 3, HONEST] if allowed else [HONEST]
        else:
            jobs, expected = counted_classes(snapshot, None).pending.jobs, []
        assert jobs.job_id[jobs.interactive].tolist() == expected

    def test_limits_that_end_the_jobs_buy_no_class_for_long(
        self, cluster: FakeCluster, tmp_path: Path
    ) -> None:
        """Long work in pieces of a quarter of an hour: the daemon has seen four pieces killed."""
        ran = {"user": "mallory", "time_limit": "15:00", "start": NOW - 900, "nodes": "n1"}
        for job in range(3, 7):
            cluster.add(job, state="RUNNING", end=NOW, **ran)
        settings = replace(cluster.adapter_settings(history_days=0.0), classifier=JobClassifier())
        rail = ReserveRail(ReserveSettings(most=6))
        system, policy = SlurmCommands(settings), rule_policy("reserve:4")
        cycle = cycle_over(system, policy, tmp_path, rail, shadow=True)
        cycle.run()
        for job in range(3, 7):
            cluster.change(job, state="TIMEOUT")
        cycle.run()
        cluster.add(ATTACKER, time_limit="15:00", user="mallory")
        cluster.add(HONEST, time_limit="15:00", user="alice")
        seen = cycle.run().snapshot
        assert seen is not None
        jobs = seen.pending.jobs
        assert jobs.job_id[jobs.interactive].tolist() == [HONEST]

    def test_a_session_of_a_working_day_is(self, cluster: FakeCluster) -> None:
        cluster.add(HONEST, batch=0, time_limit="8:00:00")
        cluster.add(ATTACKER, partition="debug,short", time_limit="1-00:00:00")
        assert snapshot_of(cluster).pending.jobs.interactive.tolist() == [True, True]
