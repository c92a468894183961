"""TimeMin as an estimate: who may have one, what is written, and what `check` says of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.reservations import (
    Reservation,
    parse_reservations,
)
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.waiting_jobs import parse_waiting
from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.units import DAY, HOUR
from tests.contracts.plan_estimates_contract import PlanEstimatesContract, PlannedQueue
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.fakes.pyslurm_cluster import PyslurmCluster

SOFT = {
    "SLURM_VERSION": "26.05.5",
    "SchedulerParameters": "bf_interval=20,Time_Min_As_Soft_Limit",
    "EnforcePartLimits": "ALL",
}
#: Seconds by which a job has to be over before a reservation: ours and three of backfill's cycles.
MARGIN = 600 + 3 * 20


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    made = PyslurmCluster(tmp_path)
    made.set(settings=SOFT)
    return made


@pytest.fixture
def slurm(cluster: FakeCluster) -> SlurmCommands:
    return SlurmCommands(cluster.adapter_settings())


@pytest.mark.parametrize("adapter", [SlurmCommands, Slurm])
class TestContract(PlanEstimatesContract):
    @pytest.fixture
    def planned(
        self, cluster: FakeCluster, adapter: type[SlurmCommands] | type[Slurm]
    ) -> PlannedQueue:
        waiting = tuple(cluster.add(job) for job in (11, 12, 13))
        cluster.add(14, state="RUNNING")
        barred = cluster.add(15, deadline=NOW + 9000)
        system = adapter(cluster.adapter_settings())
        return PlannedQueue(system=system, waiting=waiting, barred=barred)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"SLURM_VERSION": "22.05.8"}, "Slurm 22.05.8 cuts the limit"),
        ({"SLURM_VERSION": "23.02.7"}, "Slurm 23.02.7 cuts the limit"),
        ({"SLURM_VERSION": "unknown"}, "Slurm unknown cuts the limit"),
        ({"SLURM_VERSION": "23.11.0"}, None),
        ({"SchedulerType": "sched/builtin"}, "SchedulerType=sched/builtin plans by no TimeMin"),
        ({"SelectType": "select/linear"}, "SelectType=select/linear plans by no TimeMin"),
        ({"SchedulerParameters": "bf_continue"}, "time_min_as_soft_limit is not in"),
        ({"SchedulerParameters": "(null)"}, "time_min_as_soft_limit is not in"),
    ],
)
def test_a_cluster_that_cannot_says_why(
    cluster: FakeCluster, slurm: SlurmCommands, settings: dict[str, str], words: str | None
) -> None:
    cluster.set(settings={**SOFT, **settings})
    cluster.add(7)
    refused = slurm.estimates_refused()
    assert refused is None if words is None else refused is not None and words in refused
    report = slurm.write_estimates({7: 300})
    assert report.rejected == ({} if refused is None else {7: refused})
    assert cluster.record(7)["time_min"] == (5 if refused is None else 0)


def test_a_limit_on_minutes_still_to_run_refuses_all(
    cluster: FakeCluster, slurm: SlurmCommands
) -> None:
    cluster.set(run_minutes={"biology": "N", "physics": "0"})  # none at all, which is a limit
    refused = slurm.estimates_refused() or ""
    assert refused.startswith("GrpTRESRunMins of Account physics would be passed by")


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({}, None),
        ({"het_id": 7}, "heterogeneous"),
        ({"deadline": NOW + 9000}, "deadline"),
        ({"time_limit": "UNLIMITED"}, "no time limit"),
        ({"time_limit": "Partition_Limit"}, "no time limit"),
        ({"reason": "PartitionTimeLimit"}, "MaxTime"),
        ({"partition": "short", "time_limit": "1:00:00"}, None),
        ({"partition": "batch,short", "time_limit": "1:01:00"}, "MaxTime"),
        ({"partition": "debug"}, "MaxTime"),
    ],
)
def test_a_job_that_must_not_have_one_is_never_written(
    cluster: FakeCluster, slurm: SlurmCommands, job: dict[str, Any], words: str | None
) -> None:
    cluster.add(7, **{"time_limit": "20:00", "partition": "batch", **job}, time_min=3)
    told = slurm.estimates()[7]
    assert told.seconds == 180
    assert told.obstacle is None if words is None else words in (told.obstacle or "")
    report = slurm.write_estimates({7: 300})
    assert (report.applied, cluster.record(7)["time_min"]) == ((1, 5) if words is None else (0, 3))
    assert report.later == (frozenset() if words is None else {7})  # what stood stands
    assert slurm.write_estimates({7: 0}).applied == 1
    assert cluster.record(7)["time_min"] == 0


@pytest.mark.parametrize(
    ("start", "end", "flags", "own", "barred"),
    [
        (600 + MARGIN, HOUR * 9, "MAINT", False, False),  # it is over just before
        (600 + MARGIN - 1, HOUR * 9, "MAINT", False, True),
        (-60, HOUR, "SPEC_NODES", False, False),  # its nodes are taken now, as Slurm sees itself
        (-60, HOUR, "DAILY", False, False),
        (-23 * HOUR + 60, HOUR, "DAILY", False, True),  # it comes again
        (-HOUR + 60, 60, "HOURLY,SPEC_NODES", False, True),
        (-60, 600 + MARGIN - 1, "MAGNETIC", False, True),
        (-60, 600 + MARGIN, "MAGNETIC", False, False),
        (-60, 600 + MARGIN - 1, "SPEC_NODES", True, True),  # jobs are killed at its end
        (120, 720 + MARGIN, "SPEC_NODES", True, False),
        (120, 719 + MARGIN, "SPEC_NODES", True, True),
    ],
)
def test_no_estimate_leads_into_a_reservation(
    cluster: FakeCluster,
    slurm: SlurmCommands,
    start: float,
    end: float,
    flags: str,
    own: bool,
    barred: bool,
) -> None:
    job = cluster.add(7, time_limit="10:00", reservation="booked" if own else "(null)")
    kept = {"start": int(NOW + start), "end": int(NOW + end), "flags": flags}
    cluster.set(reservations={"booked": kept})
    assert (slurm.estimates()[job].obstacle is not None) == barred
    assert slurm.write_estimates({job: 300}).applied == (0 if barred else 1)


def test_a_weekly_reservation_comes_again_though_clocks_change() -> None:
    weekly = Reservation(name="w", start=0.0, end=HOUR, flags=frozenset({"WEEKLY"}))
    assert weekly.next_start(60.0) == 7 * DAY - HOUR
    assert weekly.next_start(7 * DAY - HOUR) == 2 * (7 * DAY - HOUR)
    once = Reservation(name="o", start=0.0, end=HOUR, flags=frozenset())
    assert math.isinf(once.next_start(60.0))


def test_an_array_of_several_records_has_none_but_all_are_taken_away(
    cluster: FakeCluster, slurm: SlurmCommands
) -> None:
    cluster.add(7, tasks="2-20")
    assert slurm.write_estimates({7: 300}).applied == 1
    cluster.add(8, array_id=7, tasks="1", time_min=9)
    told = slurm.estimates()[7]
    assert told.seconds == 540
    assert "2 records" in (told.obstacle or "")
    assert slurm.write_estimates({7: 540}).applied == 0
    assert slurm.write_estimates({7: 0}).applied == 1
    assert [cluster.record(job)["time_min"] for job in (7, 8)] == [0, 0]


def test_started_tasks_of_an_array_are_no_obstacle_and_keep_what_they_have(
    cluster: FakeCluster, slurm: SlurmCommands
) -> None:
    cluster.add(7, tasks="2-20")
    cluster.add(8, array_id=7, tasks="1", state="RUNNING", time_min=9)
    assert slurm.write_estimates({7: 300}).applied == 1
    assert [cluster.record(job)["time_min"] for job in (7, 8)] == [5, 9]


def test_only_differences_are_sent(cluster: FakeCluster, slurm: SlurmCommands) -> None:
    cluster.add(7, time_min=5)
    cluster.add(8)
    for asked in ({7: 300, 8: 0}, {7: 241}, {}):
        report = slurm.write_estimates(asked)
        assert (report.applied, report.rejected) == (0, {})
    assert cluster.state.get("scontrol_calls", 0) == 0
    assert slurm.write_estimates({7: 301, 8: 1}).applied == 2
    assert [cluster.record(job)["time_min"] for job in (7, 8)] == [6, 1]
    assert cluster.state["scontrol_calls"] == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [(600, "not below its time limit"), (541, "not below its time limit"), (-1, "below a minute")],
)
def test_what_would_be_no_estimate_is_refused(
    cluster: FakeCluster, slurm: SlurmCommands, asked: int, words: str
) -> None:
    cluster.add(7, time_limit="10:00")
    assert words in slurm.write_estimates({7: asked}).rejected[7]
    assert cluster.record(7)["time_min"] == 0


def test_what_slurm_refuses_is_told_in_its_words(
    cluster: FakeCluster, slurm: SlurmCommands
) -> None:
    cluster.add(7, refused="Job update not available right now, the DB index is being set")
    cluster.add(8, time_min=4, refused="Job is being held")
    cluster.add(9)
    report = slurm.write_estimates({7: 300, 8: 0, 9: 300})
    assert report.applied == 1
    assert report.rejected[7].startswith("Job update not available")
    assert report.later == {8}  # what stands has to be taken away again


def test_a_job_that_started_is_reported_and_not_asked_for_again(
    cluster: FakeCluster, slurm: SlurmCommands
) -> None:
    cluster.add(7, state="RUNNING", time_min=4)
    assert slurm.estimates() == {}
    report = slurm.write_estimates({7: 0})
    assert (report.applied, report.rejected) == (0, {7: "it waits no longer"})
    assert report.later == frozenset()


def test_a_write_that_does_not_show_is_refused(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.add(7)

    def undone(command: str, seconds: float) -> None:
        if command == "scontrol" and cluster.record(7)["time_min"]:
            cluster.change(7, time_min=2)

    slurm = SlurmCommands(cluster.adapter_settings(on_call=undone))
    report = slurm.write_estimates({7: 300})
    assert report.rejected == {7: "TimeMin is 120 s, and 5 min were set"}
    assert (report.applied, report.later) == (0, {7})


def test_without_the_right_it_is_said(cluster: FakeCluster, slurm: SlurmCommands) -> None:
    cluster.add(7)
    cluster.break_command("scontrol", "deny")
    with pytest.raises(ChangeRejected, match=r"every change of TimeMin.*AdminLevel=Operator"):
        slurm.write_estimates({7: 300})
    assert found(slurm, "estimates right").result == FAIL


@pytest.mark.parametrize("command", ["squeue", "scontrol", "sinfo"])
def test_without_an_answer_nothing_is_written(
    cluster: FakeCluster, slurm: SlurmCommands, command: str
) -> None:
    cluster.add(7)
    cluster.break_command(command, "down")
    with pytest.raises(BatchSystemUnavailable):
        slurm.write_estimates({7: 300})
    cluster.break_command(command, "garbage")
    with pytest.raises(BatchSystemError, match="not understood"):
        slurm.write_estimates({7: 300})
    assert cluster.record(7)["time_min"] == 0


@pytest.mark.parametrize(
    "line",
    ["7|7|N/A|None|10:00|0:00|N/A|batch", "x|7|N/A|None|10:00|0:00|N/A|batch|(null)", "7"],
)
def test_answers_of_another_form_are_refused(line: str) -> None:
    with pytest.raises(BatchSystemError, match="squeue answered a line"):
        parse_waiting(line)
    with pytest.raises(BatchSystemError, match="show reservation answered a line"):
        parse_reservations(line)


def found(slurm: SlurmCommands, name: str, *, writes: bool = True) -> Check:
    (check,) = [each for each in slurm.estimate_checks(writes=writes) if each.name == name]
    return check


def test_checks_say_what_users_meet(cluster: FakeCluster, slurm: SlurmCommands) -> None:
    assert found(slurm, "estimates right").what == "not tried: no job without a TimeMin waits"
    cluster.add(7, time_min=5)
    cluster.add(8)
    assert found(slurm, "estimates right").result == PASS
    assert found(slurm, "estimates right", writes=False).what == "not tried: a daemon runs"
    assert found(slurm, "estimates of users").what.endswith("; now with a TimeMin: job 7")
    assert found(slurm, "estimates partitions").result == PASS
    assert found(slurm, "estimates running jobs").result == PASS
    told = {"SLURM_VERSION": "25.05.3", "EnforcePartLimits": "ANY"}
    cluster.set(settings={**SOFT, **told})
    assert found(slurm, "estimates partitions").result == WARN
    assert found(slurm, "estimates running jobs").result == WARN
    cluster.change(8, refused="Job is being held")
    assert found(slurm, "estimates right").what == "job 8: Job is being held"
    cluster.set(settings={**SOFT, "SchedulerParameters": "bf_continue"})
    assert found(slurm, "estimates flag").result == FAIL
