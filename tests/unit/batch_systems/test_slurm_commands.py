"""The command adapter over fake commands: races, refusals, and everything that can go wrong."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue import reader as slurm_accounting
from slurm_rl_plugin.batch_systems.slurm.site_factor import DENIED, NO_RIGHT, Scontrol
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule, JobDescription
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from tests.case_files import rows, table
from tests.contracts.batch_system_contract import by_job, factors, set_factor
from tests.fakes.fake_cluster import NOW, OF_A_MINUTE, FakeCluster

FINISHED = "Job has already finished"
WRITES_PER_CALL = "slurm_rl_plugin.batch_systems.slurm.site_factor.WRITES_PER_CALL"


def watched(seen: list[JobDescription]) -> JobClassifier:
    """Keeps what the class rules see."""

    class Classes(JobClassifier):
        def matching_rule(self, job: JobDescription) -> JobClassRule | None:
            seen.append(job)
            return super().matching_rule(job)

    return Classes(OF_A_MINUTE.rules)


class TestSnapshot:
    def test_flags_that_slurm_shows_instead_of_a_state(self, cluster: FakeCluster) -> None:
        waiting = ("PENDING", "RESV_DEL_HOLD", "REQUEUE_HOLD", "SPECIAL_EXIT")
        running = ("RUNNING", "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED")
        others = ("COMPLETING", "SUSPENDED")
        for job, state in enumerate((*waiting, *running, *others), start=1):
            cluster.add(job)
            if state not in waiting:
                cluster.run_job(job)
            cluster.change(job, state=state)
        system = cluster.adapter()
        snapshot = system.snapshot()
        assert sorted(snapshot.pending.jobs.job_id.tolist()) == [1, 2, 3, 4]
        assert sorted(snapshot.running.jobs.job_id.tolist()) == [5, 6, 7, 8, 9]
        system.apply([set_factor(job, 7) for job in (2, 3, 4)])
        assert system.release().applied == 3

    def test_jobs_that_other_clusters_hold_too_are_shared_and_not_written(
        self, cluster: FakeCluster
    ) -> None:
        assert cluster.adapter().snapshot().pending.shared is None
        first = (1 << 26) + 1
        kinds = [("1", "1"), ("NA", "NA"), ("1", "NA"), ("1", "1,2"), ("2", "1,2"), ("2", "1")]
        jobs = [first + place for place in range(len(kinds))]
        for job, siblings in zip(jobs, kinds, strict=True):
            cluster.add(job, siblings=siblings, reason="JobHeldUser", eligible=None)
        cluster.add(1, siblings=("NA", "NA"))
        system = cluster.adapter()
        assert by_job(system.snapshot(), "shared") == {
            1: False,
            **dict(zip(jobs, [False] * 3 + [True] * 3, strict=True)),
        }
        # a factor that cannot be seen is taken back of jobs of this cluster alone
        assert system.release().accepted == {*jobs[:3]}

    def test_given_shares_are_scaled_and_unknown_accounts_get_none(
        self, cluster: FakeCluster
    ) -> None:
        cluster.add(1, account="guests")
        snapshot = cluster.adapter(shares={"physics": 6, "chemistry": 2}).snapshot()
        assert dict(zip(snapshot.accounts, snapshot.shares.tolist(), strict=True)) == {
            "physics": 0.75,
            "chemistry": 0.25,
            "biology": 0.0,
            "guests": 0.0,
        }
        assert snapshot.accounts[snapshot.pending.jobs.account[0]] == "guests"

    def test_name_with_separators_newlines_and_a_forged_record(self, cluster: FakeCluster) -> None:
        names = ["a|b", "two\nlines", "7|7|7|PENDING|None\n8|00000000|8|PENDING", "", "é\u2028x"]
        for job_id, name in enumerate(names, start=1):
            cluster.add(job_id, name=name)
        seen: list[JobDescription] = []
        snapshot = cluster.adapter(classifier=watched(seen)).snapshot()
        assert sorted(snapshot.pending.jobs.job_id.tolist()) == [1, 2, 3, 4, 5]
        assert sorted(job.name for job in seen) == sorted(names)

    def test_what_the_class_rule_sees(self, cluster: FakeCluster) -> None:
        cluster.add(1, time_limit="1-02:03:04", partition="batch,short", batch=0, qos="")
        cluster.add(2, time_limit="0:59")
        cluster.add(3, time_limit="UNLIMITED")
        seen: list[JobDescription] = []
        snapshot = cluster.adapter(classifier=watched(seen)).snapshot()
        assert seen[0] == JobDescription(
            partition="batch,short",
            qos="",
            name="trial",
            time_limit=93784.0,
            has_batch_script=False,
            account="physics",
            user="alice",
        )
        assert math.isnan(seen[-1].time_limit)
        assert snapshot.pending.jobs.interactive.tolist() == [False, True, False]

    def test_array_is_one_row_and_its_requeued_task_does_not_delay_it(
        self, cluster: FakeCluster
    ) -> None:
        cluster.add(21, array_id=20, tasks="1", eligible=NOW + 120, submit=NOW)
        cluster.add(20, tasks="4-9")
        cluster.add(22, array_id=20, tasks="2", state="RUNNING", start=NOW - 5, nodes="n1")
        snapshot = cluster.adapter().snapshot()
        assert snapshot.pending.jobs.job_id.tolist() == [20]
        assert snapshot.pending.jobs.eligible.tolist() == [NOW - 100]
        assert snapshot.running.jobs.job_id.tolist() == [22]

    def test_array_of_split_tasks_keeps_its_number(self, cluster: FakeCluster) -> None:
        cluster.add(31, array_id=30, tasks="1", site=17)
        cluster.add(30, tasks="2", reason="JobHeldAdmin", eligible=None)
        snapshot = cluster.adapter().snapshot()
        assert factors(snapshot) == {30: 17}
        assert not snapshot.pending.held[0]

    def test_terms_of_priorities(self, cluster: FakeCluster) -> None:
        jobs = table("slurm", "terms")
        columns = ("native_priority", "factor", "admin_set", "standing")
        for job, (values, *_) in enumerate(jobs):
            cluster.add(job + 1, **values)
        snapshot = cluster.adapter().snapshot()
        found = [by_job(snapshot, column) for column in columns]
        for job, (values, *terms) in enumerate(jobs):
            assert [column[job + 1] for column in found] == terms, values

    @pytest.mark.parametrize(
        ("tiers", "native", "tier"),
        [({}, 11312, 1), ({"batch": 5}, 10412, 5), ({"batch": 5, "short": 5}, 11312, 5)],
    )
    def test_job_for_two_partitions_counts_in_the_highest_tier(
        self, cluster: FakeCluster, tiers: dict[str, int], native: int, tier: int
    ) -> None:
        cluster.set(tiers=tiers)
        cluster.add(1, partition="batch,short", site=12)
        pending = cluster.adapter().snapshot().pending
        assert (pending.native_priority.tolist(), pending.tier.tolist()) == ([native], [tier])
        cluster.set(nodes=[])  # a partition without nodes
        assert cluster.adapter().snapshot().pending.tier.tolist() == [1]

    def test_a_job_that_sprio_does_not_list_stands_as_others_of_its_kind(
        self, cluster: FakeCluster
    ) -> None:
        none = {"age": 0, "fairshare": 10000, "size": 312}
        with_bonus = {"factors": {**none, "assoc": 0, "qos": 4000}, "qos": "high"}
        cluster.add(1, **with_bonus)
        cluster.add(2, eligible=None, reason="Dependency", **with_bonus)
        cluster.add(3, eligible=None, reason="Dependency", user="bob", **with_bonus)
        system = cluster.adapter()
        assert by_job(system.snapshot(), "standing") == {1: 4100, 2: 4100, 3: 0}
        cluster.change(1, eligible=None, reason="Dependency")
        assert by_job(system.snapshot(), "standing") == {1: 4100, 2: 4100, 3: 0}

    def test_factor_of_a_job_that_is_not_eligible_is_remembered(self, cluster: FakeCluster) -> None:
        cluster.add(1, reason="Dependency", eligible=None)
        system = cluster.adapter()
        before = system.snapshot().pending
        assert (before.factor.tolist(), before.jobs.eligible.tolist()) == ([0], [math.inf])
        system.apply([set_factor(1, 300)])
        after = system.snapshot().pending
        assert after.factor.tolist() == [300]
        assert after.native_priority.tolist() == before.native_priority.tolist()

    def test_filters_in_the_environment_are_ignored(
        self, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in {**cluster.env, "SQUEUE_USERS": "bob"}.items():
            monkeypatch.setenv(name, value)
        settings = AdapterParts(shares=None, classifier=JobClassifier(()), clock=lambda: 0.0)
        system = SlurmCommands(settings)
        environment = system._runner.environment
        assert "SQUEUE_USERS" not in environment
        of_this_cluster = {"SQUEUE_LOCAL", "SINFO_LOCAL", "SPRIO_LOCAL", "SCONTROL_LOCAL"}
        assert {environment[name] for name in (*of_this_cluster, "SACCT_LOCAL")} == {"1"}
        assert system.snapshot().capacity == 8


class TestWhoWaitsNow:
    def test_a_new_job_is_told_by_two_commands(self, cluster: FakeCluster) -> None:
        calls: list[tuple[str, float]] = []
        here = cluster.adapter(on_call=calls.append)
        cluster.add(1)
        here.snapshot()
        cluster.add(2, user="bob", account="biology")
        calls.clear()
        now = here.pending_now()
        assert now.pending.jobs.job_id.tolist() == [1, 2]
        assert now.accounts[now.pending.jobs.account[1]] == "biology"
        assert sorted(name for name, _ in calls) == ["sprio", "squeue"]
        assert all(0 < seconds < 5 for _, seconds in calls)

    def test_a_requeued_job_runs_no_more(self, cluster: FakeCluster) -> None:
        here = cluster.adapter()
        cluster.run_job(cluster.add(1))
        assert here.snapshot().running.jobs.job_id.tolist() == [1]
        cluster.change(1, state="PENDING", reason="Priority", start=None, nodes="")
        now = here.pending_now()
        assert now.pending.jobs.job_id.tolist() == [1]
        assert len(now.running.jobs) == 0

    def test_without_a_snapshot_there_is_nothing_to_add_to(self, cluster: FakeCluster) -> None:
        with pytest.raises(BatchSystemError, match="no snapshot"):
            cluster.adapter().pending_now()


def past(job_id: int, **values: object) -> dict[str, object]:
    """A line of sacct."""
    run: dict[str, object] = {
        "JobIDRaw": job_id,
        "User": "bob",
        "ReqCPUS": 3,
        "AllocCPUS": 4,
        "TimelimitRaw": 10,
        "Submit": NOW - 900,
        "Start": NOW - 800,
        "End": NOW - 700,
        "State": "COMPLETED",
    }
    return {**run, **values}


class TestEnds:
    def test_ends_of_jobs_that_ran_or_came_and_went(self, cluster: FakeCluster) -> None:
        cluster.add(1, state="RUNNING", start=NOW - 50, nodes="n1")
        cluster.add(2)
        system = cluster.adapter()
        assert len(system.snapshot().ended) == 0
        cluster.end_job(1, NOW + 7)
        cluster.change(2, state="TIMEOUT", start=NOW + 1, end=NOW + 9, nodes="n1", processors=4)
        snapshot = system.snapshot()
        ended = snapshot.ended
        assert ended.jobs.job_id.tolist() == [1, 2]
        assert ended.start.tolist() == [NOW - 50, NOW + 1]
        assert ended.end.tolist() == [NOW + 7, NOW + 9]
        assert ended.jobs.processors.tolist() == [1, 1]  # as asked for, not as given
        assert [snapshot.users[user] for user in ended.jobs.user] == ["alice", "alice"]
        assert ended.timed_out.tolist() == [False, True]
        assert len(system.snapshot().ended) == 0

    def test_the_class_follows_the_limit_of_now(self, cluster: FakeCluster) -> None:
        """`scontrol update TimeLimit` raises that of a waiting, a running and an ended job."""
        for job in (1, 2, 3, 4):
            cluster.add(job, time_limit="1:00")
        for job in (2, 3, 4):
            cluster.run_job(job, NOW - 5)
        system = cluster.adapter()
        before = system.snapshot()
        assert before.pending.jobs.interactive.tolist() == [True]
        assert before.running.jobs.interactive.tolist() == [True] * 3
        for job in (1, 2, 3):
            cluster.change(job, time_limit="2:00:00")
        for job in (3, 4):
            cluster.change(job, state="TIMEOUT", end=NOW + 7)
        after = system.snapshot()
        assert after.pending.jobs.interactive.tolist() == [False]
        assert after.running.jobs.interactive.tolist() == [False]
        assert after.ended.jobs.by_limit.tolist() == [False, True]


class TestPastRuns:
    def test_first_snapshot_reports_what_accounting_knows(self, cluster: FakeCluster) -> None:
        cluster.add(1, state="RUNNING", start=NOW - 50, nodes="n1")
        lines = [
            past(90),
            past(91, User="alice", TimelimitRaw="UNLIMITED", State="CANCELLED by 0"),
            past(92, End="Unknown", State="RUNNING"),
            past(93, Start="None", State="CANCELLED by 0"),
            past(94, AllocCPUS=0, State="CANCELLED by 0"),
            past(95, State="REQUEUED"),
            past(1),  # ended after squeue answered: reported when squeue shows it
        ]
        cluster.set(accounting=lines)
        assert len(cluster.adapter(history_days=0.0).snapshot().ended) == 0
        system = cluster.adapter(history_days=30.0)
        snapshot = system.snapshot()
        ended = snapshot.ended
        assert ended.from_accounting
        assert sorted(ended.jobs.job_id.tolist()) == [90, 91]
        first, second = np.argsort(ended.jobs.job_id)
        assert (ended.start[first], ended.end[first]) == (NOW - 800, NOW - 700)
        assert (ended.jobs.processors[first], ended.jobs.time_limit[first]) == (3, 600.0)
        assert math.isnan(ended.jobs.time_limit[second])
        users = [snapshot.users[ended.jobs.user[row]] for row in (first, second)]
        assert users == ["bob", "alice"]
        cluster.end_job(1, NOW + 5)
        later = system.snapshot().ended
        assert (later.jobs.job_id.tolist(), later.from_accounting) == ([1], False)

    @pytest.mark.parametrize("mode", ["down", "fail:accounting storage is disabled", "hang", ""])
    def test_no_accounting_is_one_warning(
        self,
        cluster: FakeCluster,
        mode: str,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(slurm_accounting, "SECONDS_MORE", -9.5)
        cluster.break_command("sacct", mode)
        if not mode:
            monkeypatch.setattr(slurm_accounting, "SACCT", ("no-sacct-here",))
        cluster.add(1)
        system = cluster.adapter(history_days=30.0)
        assert [len(system.snapshot().pending) for _ in range(2)] == [1, 1]
        assert caplog.text.count("past_runs=unknown") == 1

    def test_strange_lines_are_left_out(
        self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster.set(accounting=[past(90, ReqCPUS="many"), past("91+0"), past(92)])  # type: ignore[arg-type]
        assert cluster.adapter(history_days=30.0).snapshot().ended.jobs.job_id.tolist() == [92]
        assert "past_runs=incomplete lines=2" in caplog.text
        cluster.break_command("sacct", "garbage")
        assert len(cluster.adapter(history_days=30.0).snapshot().ended) == 0

    def test_only_the_newest_of_too_many(
        self, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slurm_accounting, "RUNS_AT_MOST", 3)
        cluster.set(accounting=[past(job, End=NOW - 700 + job % 7) for job in range(90, 100)])
        assert sorted(cluster.adapter(history_days=30.0).snapshot().ended.end.tolist()) == [
            NOW - 700 + last for last in (5, 6, 6)
        ]


class TestWrites:
    def test_many_changes_go_in_bounded_bursts(self, cluster: FakeCluster) -> None:
        for job_id in range(1, 8):
            cluster.add(job_id)
        with patch(WRITES_PER_CALL, 3):
            report = cluster.adapter().apply([set_factor(job, job) for job in range(1, 8)])
        assert (report.applied, report.rejected) == (7, {})
        assert cluster.state["scontrol_calls"] == 3
        assert [job["site"] for job in cluster.state["jobs"]] == list(range(1, 8))

    @pytest.mark.parametrize("status", [0, 1])  # releases differ
    @rows("slurm", "refusals", "jobs rejected later")
    def test_single_refusals(
        self,
        cluster: FakeCluster,
        status: int,
        jobs: list[dict[str, Any]],
        rejected: list[str],
        later: list[int],
    ) -> None:
        cluster.set(status_after_refusal=status)
        for job, values in enumerate(jobs, start=1):
            cluster.add(job, **values)
        numbers = [*range(1, len(jobs) + 1), 77]
        expected = {**dict(enumerate(rejected, start=1)), 77: "Invalid job id specified"}
        assert cluster.adapter().apply([set_factor(job, 5) for job in numbers]).rejected == expected
        report = cluster.adapter().release(np.array(numbers))
        assert (report.rejected, report.later) == (expected, set(later))

    def test_factor_that_slurm_cannot_hold_is_not_sent(self, cluster: FakeCluster) -> None:
        cluster.add(1)
        report = cluster.adapter().apply([set_factor(1, 2**31)])
        assert (report.applied, set(report.rejected)) == (0, {1})
        assert "scontrol_calls" not in cluster.state

    def test_a_job_denied_alone_is_not_our_right(self, cluster: FakeCluster) -> None:
        """A job_submit plugin of the site may refuse one job, in the words of a missing right."""
        cluster.add(1)
        cluster.add(2, refused=DENIED)
        system = cluster.adapter()
        with patch(WRITES_PER_CALL, 1):
            assert system.apply([set_factor(1, 5), set_factor(2, 5)]).rejected == {2: DENIED}
        assert system.apply([set_factor(2, 6)]).rejected == {2: DENIED}

    @pytest.mark.parametrize("tasks", ["", "1-3"])
    def test_a_right_taken_away_is_noticed(self, cluster: FakeCluster, tasks: str) -> None:
        cluster.add(1)
        cluster.add(2, tasks=tasks)
        system = cluster.adapter()
        assert system.apply([set_factor(1, 5), set_factor(2, 5)]).applied == 2
        cluster.change(1, refused=DENIED)  # the daemon's user owns it
        cluster.change(2, refused=NO_RIGHT)
        with pytest.raises(ChangeRejected, match="AdminLevel=Operator"):
            system.apply([set_factor(1, 6), set_factor(2, 6)])
        cluster.change(2, refused=DENIED)
        with pytest.raises(ChangeRejected):  # and not had again since
            system.apply([set_factor(2, 6)])
        for job in (1, 2):
            cluster.change(job, refused=None)
        assert system.apply([set_factor(2, 6)]).applied == 1

    @pytest.mark.parametrize(
        "words", ["Slurm backup controller in standby mode", "Connection reset by peer"]
    )
    def test_a_controller_that_cannot_answer_refuses_nothing(
        self, cluster: FakeCluster, words: str
    ) -> None:
        """Or a release would believe that the job is gone, and forget its factor."""
        cluster.add(1, refused=words)
        with pytest.raises(BatchSystemUnavailable, match="scontrol ping"):
            cluster.adapter().release(np.array([1]))

    def test_release_reaches_jobs_whose_factor_is_hidden(self, cluster: FakeCluster) -> None:
        cluster.add(1, site=9)
        cluster.add(2, site=9, reason="Dependency", eligible=None)
        cluster.add(3, site=9, by_hand=5000)
        cluster.add(4, site=9, reason="JobHeldUser", eligible=None)
        cluster.add(5)
        cluster.add(6, site=9, state="RUNNING")
        report = cluster.adapter().release()
        assert report.applied == 4
        sites = {job["job_id"]: job["site"] for job in cluster.state["jobs"]}
        assert sites == {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 9}

    @pytest.mark.parametrize("named", [True, False])
    def test_with_priority_basic_factors_from_before_are_set_to_0(
        self, cluster: FakeCluster, named: bool
    ) -> None:
        """slurmctld stores them, and they would act again after the next change."""
        cluster.add(1, site=7)
        cluster.add(2, site=7, reason="JobHeldUser", eligible=None)
        cluster.set(settings={"PriorityType": "priority/basic"})
        system = cluster.adapter()
        assert system.snapshot().pending.factor.tolist() == [0, 0]  # sprio refuses
        report = system.release(np.array([1, 2]) if named else None)
        assert (report.applied, report.later) == (2, frozenset())
        assert [cluster.record(job)["site"] for job in (1, 2)] == [0, 0]

    def test_release_of_an_empty_queue_calls_nothing(self, cluster: FakeCluster) -> None:
        assert cluster.adapter().release().applied == 0
        assert "scontrol_calls" not in cluster.state

    def test_release_of_named_jobs_needs_no_reading(self, cluster: FakeCluster) -> None:
        cluster.add(2, site=9, reason="Dependency", eligible=None)
        cluster.break_command("squeue", "down")
        report = cluster.adapter().release(np.array([2, 77], dtype=np.int64))
        assert (report.applied, set(report.rejected)) == (1, {77})
        assert cluster.record(2)["site"] == 0


READS = ("squeue", "sprio", "sshare", "sinfo")


class TestFaults:
    @pytest.mark.parametrize("command", READS)
    def test_garbage_is_named(self, cluster: FakeCluster, command: str) -> None:
        cluster.break_command(command, "garbage")
        with pytest.raises(
            BatchSystemError, match=rf"{command} answered.*%!\| this is no"
        ) as caught:
            cluster.adapter().snapshot()
        assert not isinstance(caught.value, BatchSystemUnavailable)

    @pytest.mark.parametrize("command", [*READS, "scontrol"])
    def test_unreachable_slurmctld(self, cluster: FakeCluster, command: str) -> None:
        system = cluster.adapter()
        system.snapshot()
        cluster.break_command(command, "down")
        with pytest.raises(BatchSystemUnavailable, match=rf"{command} cannot reach.*scontrol ping"):
            system.apply([set_factor(1, 1)]) if command == "scontrol" else system.snapshot()

    def test_other_failures_show_the_commands_words(self, cluster: FakeCluster) -> None:
        cluster.break_command("sprio", "fail:sprio: error: no such plugin")
        with pytest.raises(BatchSystemError, match="sprio failed: sprio: error: no such plugin"):
            cluster.adapter().snapshot()
        cluster.break_command("scontrol", "fail:scontrol: fatal: strange")
        with pytest.raises(BatchSystemError, match="scontrol failed: scontrol: fatal: strange"):
            cluster.adapter().apply([set_factor(1, 1)])

    @pytest.mark.parametrize("command", [*READS, "scontrol"])
    def test_hanging_command_is_killed_in_time(self, cluster: FakeCluster, command: str) -> None:
        cluster.break_command(command, "hang")
        cluster.add(1, site=9)
        system = cluster.adapter(timeout=0.4)
        began = time.monotonic()
        call = system.release if command == "scontrol" else system.snapshot
        with pytest.raises(BatchSystemUnavailable, match=rf"{command} gave no answer within 0\.4"):
            call()
        assert time.monotonic() - began < 3

    def test_missing_command(self, cluster: FakeCluster, tmp_path: Path) -> None:
        cluster.env["PATH"] = str(tmp_path)
        with pytest.raises(BatchSystemUnavailable, match="scontrol cannot be run"):
            cluster.adapter().snapshot()


#: Users may choose this class; none is interactive by the rules.
DUE = UtilityClass(form="deadline", hours=1.0, interactive=True, users=True)


@pytest.mark.parametrize("users", [True, False])
@pytest.mark.parametrize("gpus", [True, False])
def test_a_users_choice_is_read_where_the_site_allows_any(
    cluster: FakeCluster, users: bool, gpus: bool
) -> None:
    cluster.add(7, comment="x|y\nslurm-rl:class=due", name="a|b")
    cluster.add(8, comment="slurm-rl:class=other")
    if gpus:
        cluster.set(settings={"GresTypes": "gpu"})
    classes = {**BUILT_IN, "due": replace(DUE, users=users)}
    jobs = cluster.adapter(classifier=JobClassifier((), classes)).snapshot().pending.jobs
    place = jobs.job_id.tolist().index(7)
    assert jobs.class_number is not None
    assert jobs.by_user.sum() == jobs.interactive.sum() == int(users)
    assert jobs.interactive[place] == users
    assert jobs.class_number[place] == (2 if users else 0)


class Says:
    """`scontrol` that answers with given words."""

    def __init__(self, errors: str, status: int) -> None:
        self.answer = Answer(status=status, output="", errors=errors)

    def call(self, arguments: object, **more: object) -> Answer:
        return self.answer


# seen on 22.05: an array with a task that ended, one that was split off, and others
SOME = "32_[3-6]: No error\n32_2: No error\n32_1: Job has already finished\n"


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(
    ("errors", "refused"),
    [
        (SOME, {}),
        (f"{SOME}Invalid job id specified for job 33\n", {33: "Invalid job id specified"}),
        (f"32_1: {FINISHED}\n32_2: {FINISHED}\n", {32: FINISHED}),
        (bytes(range(256)).decode(errors="replace"), None),  # bytes that are no text
        ("scontrol: something odd\n", None),  # a failure that names no job
    ],
)
def test_words_of_scontrol(errors: str, status: int, refused: dict[int, str] | None) -> None:
    scontrol = Scontrol(Says(errors, status))  # type: ignore[arg-type]
    if refused is not None:
        assert scontrol.send([(32, 7), (33, 7)]) == refused
    elif status or "odd" not in errors:
        with pytest.raises(BatchSystemError):
            scontrol.send([(32, 7)])


def test_input_and_both_outputs_longer_than_a_pipe_get_through() -> None:
    told = "x" * 1_000_000
    program = "import sys; t = sys.stdin.read(); sys.stderr.write(t); sys.stdout.write(t); exit(3)"
    answer = CommandRunner(timeout=20.0).call([sys.executable, "-c", program], stdin=told)
    assert (answer.status, answer.output, answer.errors) == (3, told, told)


@pytest.mark.parametrize("script", ["exec true", "exec <&-; sleep 0.2"])
def test_a_child_that_does_not_read_its_input_is_no_fault(script: str) -> None:
    commands = CommandRunner(timeout=20.0)
    assert commands.call(["sh", "-c", script], stdin="x" * 1_000_000).status == 0


@pytest.mark.parametrize("script", ["sleep {}", "exec >&- 2>&-; sleep {}", "sleep {} & exit 0"])
def test_a_command_has_to_end_in_time_and_leaves_no_process(script: str) -> None:
    seconds = f"60.{os.getpid()}"
    with pytest.raises(BatchSystemUnavailable, match=r"no answer within 0\.5 s") as caught:
        CommandRunner(timeout=0.5).call(["sh", "-c", script.format(seconds)])
    assert isinstance(caught.value.__cause__, subprocess.TimeoutExpired)
    for _ in range(100):  # a killed one takes a moment to go
        found = subprocess.run(["pgrep", "-f", seconds], capture_output=True, check=False)
        if not found.stdout:
            break
        time.sleep(0.05)
    assert not found.stdout
