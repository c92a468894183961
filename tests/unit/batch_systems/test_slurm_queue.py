"""Slurm's queue over random lives of jobs, one job's record, and heterogeneous jobs."""

from __future__ import annotations

import gc
import math
import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.command_process import collector_paused
from slurm_rl_plugin.batch_systems.port import LARGEST_FACTOR, JobRecord
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FINAL_STATES,
    PENDING,
    RUNNING_STATES,
    QueueRow,
    parse_records,
)
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands, job_record
from slurm_rl_plugin.batch_systems.slurm.queue import job_tables
from slurm_rl_plugin.batch_systems.slurm.queue import reader as slurm_watch
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import RowNumbers
from slurm_rl_plugin.batch_systems.slurm.queue.reader import JobWatch, whole_jobs
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.job_class import JobClassifier
from tests.assets.record_slurm_answers import ASSETS, MARK
from tests.contracts.batch_system_contract import by_job, factors, set_factor
from tests.fakes.fake_cluster import NOW, OF_A_MINUTE, FakeCluster

#: Seconds for which Slurm keeps a job that is over.
KEPT = 300.0


RECORDED = (ASSETS / "22.05" / "squeue.txt").read_text()
ROW = next(row for row in parse_records(RECORDED, MARK, {}).values() if row.name == "plain")


def waiting_row(job_id: int, array_id: int) -> QueueRow:
    tasks = "" if job_id == array_id else str(job_id)
    times = {"submit": 0.0, "eligible": 0.0, "accrue": 0.0, "time_limit": 600.0}
    return replace(ROW, job_id=job_id, array_id=array_id, tasks=tasks, processors=1, **times)


@dataclass
class Queue:
    """Jobs that start, are suspended, complete, are requeued, cancelled and end by chance."""

    random: random.Random
    now: float = 1000.0
    jobs: dict[int, QueueRow] = field(default_factory=dict)
    next_id: int = 1
    starts: set[tuple[int, float]] = field(default_factory=set)
    requeued: set[int] = field(default_factory=set)
    ends: set[tuple[int, float, float]] = field(default_factory=set)

    def submit(self) -> None:
        array = self.next_id
        for _ in range(self.random.choice([1, 1, 1, 4])):
            self.jobs[self.next_id] = waiting_row(self.next_id, array)
            self.next_id += 1

    def step(self, seconds: float) -> None:
        self.now += seconds
        for job_id, before in list(self.jobs.items()):
            row = self.jobs[job_id] = self.moved(before)
            if row.nodes and not before.nodes:
                self.starts.add((job_id, row.start))
            if row.state == "COMPLETED" and before.state != "COMPLETED":
                self.ends.add((job_id, row.start, row.end))

    def moved(self, row: QueueRow) -> QueueRow:
        chance = self.random.random()
        if row.state == PENDING and chance < 0.05:
            return replace(row, state="CANCELLED", start=self.now, end=self.now)
        if row.state == PENDING and chance < 0.35:
            row = replace(row, state="RUNNING", start=self.now, nodes="n1", processors=2)
        chance = self.random.random()
        if row.state == "COMPLETING":
            return replace(row, state="COMPLETED")
        if row.state == "SUSPENDED" and chance < 0.2:
            return replace(row, state="RUNNING")
        if row.state != "RUNNING" or chance > 0.5:
            return row
        if chance < 0.05:
            return replace(row, state="SUSPENDED")
        if chance < 0.1:
            self.requeued.add(row.job_id)
            return replace(waiting_row(row.job_id, row.array_id), eligible=self.now + 120)
        state = "COMPLETING" if chance < 0.2 else "COMPLETED"
        return replace(row, state=state, end=self.now)

    def forget(self) -> None:
        for job_id, row in list(self.jobs.items()):
            if row.state in FINAL_STATES and row.end <= self.now - KEPT:
                del self.jobs[job_id]

    @property
    def rows(self) -> list[QueueRow]:
        shown = RUNNING_STATES | {PENDING}
        return [row for row in self.jobs.values() if row.state in shown]

    def asked_for(self, numbers: list[int]) -> list[QueueRow]:
        return [row for row in self.jobs.values() if row.array_id in numbers]


@pytest.mark.parametrize("ask_at_most", [3, 1000])
@pytest.mark.parametrize("seed", range(15))
def test_each_start_and_each_end_is_told_once(
    monkeypatch: pytest.MonkeyPatch, seed: int, ask_at_most: int
) -> None:
    monkeypatch.setattr(slurm_watch, "ASK_AT_MOST", ask_at_most)
    queue, watch = Queue(random.Random(seed)), JobWatch()
    for _ in range(20):  # before the first look
        queue.submit()
        queue.step(3.0)
    queue.now = first = queue.now + 1.0
    queue.ends.clear()
    starts: list[tuple[int, float]] = []
    ends: list[tuple[int, float, float]] = []
    last: dict[int, float] = {}  # start of a task of each pending array
    seen_running: set[int] = set()
    seen_waiting: set[int] = set()  # jobs, or arrays with pending tasks
    for look in range(200):
        rows = queue.rows
        answers = queue.asked_for(watch.ask_about(rows))
        if look % 7 != 3:  # else the question failed
            waiting = {row.array_id for row in rows if row.state == PENDING}
            seen_waiting |= {n for n, row in queue.jobs.items() if row.array_id in waiting}
            seen_running |= {row.job_id for row in rows if row.state in RUNNING_STATES}
            started, ended = watch.starts_and_ends(rows, answers, queue.now)
            assert look or not started
            for row in started if look else [each for each in rows if each.nodes]:
                last[row.array_id] = max(last.get(row.array_id, 0.0), row.start)
            arrays = {row.array_id for row in rows if row.state == PENDING and row.tasks}
            last = {array: at for array, at in last.items() if array in arrays}
            assert watch.last_start == last
            starts += [(row.job_id, row.start) for row in started]
            ends += [(row.job_id, row.start, row.end) for row in ended]
            for row in ended:
                assert row.processors == 1 or row.job_id not in seen_waiting or row.start < first
        for _ in range(queue.random.choice([1, 1, 3])):
            if look < 120:
                queue.submit()
            queue.step(1.0)
        queue.forget()
    assert len(ends) == len(set(ends)) == len({job_id for job_id, _, _ in ends})
    assert len(starts) == len(set(starts))
    assert set(starts) <= queue.starts
    begun = {job_id for job_id, start, _ in ends if start >= first}
    assert begun - queue.requeued <= {job_id for job_id, _ in starts}
    once = [job_id for job_id, _ in starts if job_id not in queue.requeued]
    assert len(once) == len(set(once)) > 100
    assert len(starts) - len(once) > len({job for job, _ in starts} & queue.requeued)
    assert not queue.rows  # and nothing is kept of jobs that are over
    assert not any((watch._requested, watch._started, watch._not_ended, watch._to_ask))
    assert set(ends) <= queue.ends
    # what came and went between two looks without ever waiting is not known to the adapter
    expected = {
        end
        for end in queue.ends
        if end[0] in seen_running or (end[0] in seen_waiting and end[1] >= first)
    }
    assert len(expected) > 100
    if ask_at_most > 3:  # else Slurm forgets some before their turn comes
        assert expected <= set(ends)


def test_what_slurm_has_forgotten_is_not_guessed_and_nothing_is_kept_of_it() -> None:
    watch = JobWatch()
    row = replace(waiting_row(1, 1), state="RUNNING", start=5.0, nodes="n1")
    watch.ask_about([row])
    watch.starts_and_ends([row], [], 10.0)
    assert watch.ask_about([]) == [1]
    assert watch.starts_and_ends([], [], 20.0) == ([], [])
    assert watch.ask_about([]) == []
    assert not watch._not_ended
    assert not watch._started
    assert not watch._requested


def test_the_time_of_a_look_grows_with_the_tasks_and_not_with_their_square() -> None:
    # requeued tasks of an array have a record each
    rows = [replace(waiting_row(10 + task, 9), tasks=str(task)) for task in range(40_000)]
    begin = time.process_time()
    JobWatch().ask_about(rows)
    assert time.process_time() - begin < 5.0


def drawn_row(number: int, rng: random.Random) -> QueueRow:
    return replace(
        waiting_row(number, number),
        account=rng.choice(["a", "b", ""]),
        user=rng.choice(["u", "v", ""]),
        qos=rng.choice(["normal", "high"]),
        partitions=rng.choice([("p",), ("p", "q"), ("q",)]),
        reason=rng.choice(["Priority", "JobHeldUser", "Dependency", "QOSGrpCpuLimit"]),
        time_limit=rng.choice([60.0, 3600.0, math.nan]),
        priority=rng.choice([0, 1, 500]),
    )


def numbers() -> RowNumbers:
    return RowNumbers(OF_A_MINUTE, lambda row: row.qos == "high")


@pytest.mark.parametrize("seed", range(5))
def test_kept_lines_are_those_of_a_first_look(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_tables, "GONE_AT_LEAST", 3)
    rng = random.Random(seed)
    kept, rows = numbers(), [drawn_row(number, rng) for number in range(40)]
    for look in range(8):
        rows = [row for row in rows if rng.random() < 0.8]
        rows = [
            row if rng.random() < 0.3 else replace(row, priority=rng.choice([0, 7, 9]))
            for row in rows
        ]
        rows += [drawn_row(100 * look + 50 + each, rng) for each in range(rng.randrange(9))]
        rng.shuffle(rows)
        kept.forget_others(rows)
        found, new = kept.of(rows), numbers()
        expected = new.of(rows)
        for name in job_tables.LINE.names or ():
            if name in ("account", "user", "qos", "reason"):
                words, others = list(kept.words), list(new.words)
                assert [words[code] for code in found[name]] == [
                    others[code] for code in expected[name]
                ]
            elif name == "partitions":
                lists = list(kept.partition_lists)
                assert [lists[code] for code in found[name]] == [row.partitions for row in rows]
            else:
                np.testing.assert_array_equal(found[name], expected[name])
        assert len(kept._rows) <= len(rows) + max(3, len(rows) // 10)


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_after_a_pause_as_it_was(was_on: bool) -> None:
    if not was_on:
        gc.disable()
    try:
        with pytest.raises(ZeroDivisionError), collector_paused():
            1 / gc.isenabled()  # it is 0
        assert gc.isenabled() == was_on
    finally:
        gc.enable()


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(tmp_path)
    fake.enter(monkeypatch)
    return fake


def test_terms_of_each_partition_without_those_that_are_nothing(slurm: FakeCluster) -> None:
    slurm.add(7, partition="batch,short", tres="cpu=12.6,mem=3", nice=5)
    slurm.add(8)
    record = job_record(7, 5.0)
    assert record.unread == ()
    assert record.terms["short"]["partition"] == 1000
    assert record.terms["batch"] == {
        "total": 10422,
        "site": 0,
        "nice": 5,
        "fairshare": 10000,
        "job_size": 312,
        "partition": 100,
        "tres_cpu": 13,
        "tres_mem": 3,
    }


def test_of_an_array_the_record_that_can_start_first_speaks(slurm: FakeCluster) -> None:
    slurm.add(7, array_id=6, tasks="1", state="RUNNING", start=1)
    slurm.add(8, array_id=6, tasks="2", reason="JobHeldUser", eligible=None)
    slurm.add(6, tasks="3-9", name="sweep")
    assert job_record(99, 5.0) == JobRecord()
    record = job_record(6, 5.0)
    assert record.tasks == "3-9"
    assert record.description.name == "sweep"


@pytest.mark.parametrize("command", ["squeue", "sprio"])
@pytest.mark.parametrize("mode", ["down", "garbage", "fail:oh"])
def test_a_command_that_fails_is_told(slurm: FakeCluster, command: str, mode: str) -> None:
    slurm.add(7)
    slurm.break_command(command, mode)
    record = job_record(7, 5.0)
    assert len(record.unread) == 1
    assert record.terms == {}
    assert record.is_pending == (command != "squeue")


def test_sprio_says_in_words_that_it_lists_no_such_job(
    slurm: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.add(7, eligible=None, reason="Dependency")
    programs = tmp_path / "bin"
    programs.mkdir()
    sprio = programs / "sprio"
    sprio.write_text("#!/bin/sh\necho 'Unable to find jobs matching user/id(s) specified'\n")
    sprio.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{slurm.env['PATH']}")
    record = job_record(7, 5.0)
    assert (record.unread, record.terms) == ((), {})


LEADER, SECOND, THIRD, PLAIN = 7, 8, 9, 20


@pytest.fixture
def het(tmp_path: Path) -> FakeCluster:
    """A heterogeneous job of three components and a plain job."""
    fake = FakeCluster(tmp_path)
    fake.add(LEADER, het_id=LEADER, processors=3)
    fake.add(SECOND, het_id=LEADER, processors=2, nice=40)
    fake.add(THIRD, het_id=LEADER, partition="short")
    fake.add(PLAIN)
    return fake


def adapter(het: FakeCluster) -> SlurmCommands:
    return het.adapter(classifier=JobClassifier(()))


def snapshot_of(het: FakeCluster) -> QueueSnapshot:
    return adapter(het).snapshot()


def sites(het: FakeCluster) -> dict[int, int]:
    return {job["job_id"]: job["site"] for job in het.state["jobs"]}


@pytest.mark.parametrize(
    ("component", "changes", "column", "expected"),
    [
        (LEADER, {}, "processors", [6, 1]),
        # the priority is the lowest component's, with the nice that it has now
        (LEADER, {}, "native_priority", [10412 - 40, 10412]),
        (LEADER, {"nice": 200, "counted_nice": 0}, "native_priority", [10412 - 200, 10412]),
        (SECOND, {"reason": "JobHeldUser", "eligible": None}, "held", [True, False]),
        (SECOND, {"by_hand": 5000}, "admin_set", [True, False]),
        (THIRD, {"eligible": NOW + 60}, "eligible", [NOW + 60, NOW - 100]),
        (SECOND, {"accrue": NOW - 5}, "accrued", [5.0, 100.0]),
        (SECOND, {"reason": "AssocGrpCpuLimit"}, "own_doing", [True, False]),
    ],
)
def test_it_is_one_row_under_the_number_of_its_leader(
    het: FakeCluster, component: int, changes: dict[str, Any], column: str, expected: list[object]
) -> None:
    het.change(component, **changes)
    assert by_job(snapshot_of(het), column) == dict(zip((LEADER, PLAIN), expected, strict=True))


def test_a_factor_puts_all_components_at_one_priority_and_one_write_takes_it_back(
    het: FakeCluster,
) -> None:
    system = adapter(het)
    assert sorted(_spread(system)) == [0, 11312 - 10372]
    report = system.apply([set_factor(LEADER, 500)])
    assert (report.applied, report.rejected) == (1, {})
    # 10412, 10372 and 11312 points without us
    assert sites(het) == {LEADER: 460, SECOND: 500, THIRD: -440, PLAIN: 0}
    assert factors(system.snapshot()) == {LEADER: 500, PLAIN: 0}
    assert _spread(system) == [0, 0]
    assert system.release().applied == 1
    assert set(sites(het).values()) == {0}
    # a component that cannot be written is reported under its job
    report = system.apply([set_factor(LEADER, -LARGEST_FACTOR + 100)])
    assert (report.applied, set(report.rejected)) == (0, {LEADER})


def _spread(system: SlurmCommands) -> list[int]:
    return list(by_job(system.snapshot(), "spread").values())


@pytest.mark.parametrize("component", [LEADER, SECOND, THIRD])
def test_release_finds_a_factor_that_only_one_component_has(
    het: FakeCluster, component: int
) -> None:
    het.change(component, site=90)
    assert adapter(het).release().applied == 1
    assert set(sites(het).values()) == {0}


def test_it_starts_once_and_ends_once_when_the_last_component_has(het: FakeCluster) -> None:
    system = adapter(het)
    system.snapshot()
    for component in (LEADER, SECOND, THIRD):
        het.run_job(component)
    running = system.snapshot()
    assert running.started.jobs.job_id.tolist() == [LEADER]
    assert running.running.jobs.processors.tolist() == [6]
    het.end_job(LEADER, NOW + 5)
    het.end_job(THIRD, NOW + 6)
    assert len(system.snapshot().ended) == 0
    het.end_job(SECOND, NOW + 9)
    ended = system.snapshot().ended
    assert (ended.jobs.job_id.tolist(), ended.end.tolist()) == ([LEADER], [NOW + 9])
    assert ended.jobs.processors.tolist() == [6]
    assert len(system.snapshot().ended) == 0


def test_a_limit_that_one_component_lacks_the_job_lacks() -> None:
    parts = [replace(waiting_row(job, job), het_id=1) for job in (1, 2)]
    (whole,) = whole_jobs([parts[0], replace(parts[1], time_limit=math.nan)])
    assert math.isnan(whole.time_limit)
    assert whole_jobs(parts)[0].time_limit == 600
