"""What may be outstanding is remembered across restarts, and every entry of it is restored."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem, FactorChange
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.hook.memory.carried_factors import SETTLED, CarriedFactors, StateFile
from slurm_rl_plugin.hook.outstanding import outstanding_at, restore_all
from slurm_rl_plugin.units import IntArray
from tests.unit.hook.queues import QueueInMemory, pending_jobs, snapshot_of


@dataclass
class SleepySlurm:
    """Does a write that nobody waits for any more a second after it woke up."""

    factors: dict[int, int] = field(default_factory=lambda: {1: 5, 2: 0})
    late: dict[int, int] = field(default_factory=lambda: {2: 700})
    answers: bool = True
    slept: list[float] = field(default_factory=list)

    def release(self, jobs: IntArray | None) -> ApplyReport:
        if not self.answers:
            raise BatchSystemUnavailable("no answer")
        wanted = list(self.factors) if jobs is None else jobs.tolist()
        self.factors.update(dict.fromkeys(wanted, 0))
        return ApplyReport(accepted=frozenset(wanted))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.factors.update(self.late)
        self.late = {}


def write(factors: CarriedFactors, slurm: SleepySlurm) -> None:
    changes = [FactorChange(job_id=job, old=0, new=700) for job in (1, 2)]
    snapshot = snapshot_of(pending_jobs([1, 1]))
    factors.write(snapshot, changes, lambda: slurm.release(np.array([], dtype=np.int64)))


def carried(tmp_path: Path, slurm: SleepySlurm) -> CarriedFactors:
    """A write of two jobs has got no answer."""
    state = StateFile(tmp_path / "state.json", way_out={})
    factors = CarriedFactors(state, sleep=slurm.sleep)
    slurm.answers = False
    with pytest.raises(BatchSystemUnavailable):
        write(factors, slurm)
    slurm.answers = True
    return factors


def test_who_got_no_answer_looks_again(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    factors = carried(tmp_path, slurm)
    factors.restore(cast(BatchSystem, slurm))
    assert (slurm.factors, slurm.slept) == ({1: 0, 2: 0}, [SETTLED])
    assert not factors.is_outstanding()
    assert not factors.state.is_unanswered()


def test_so_does_a_release_after_a_kill(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    carried(tmp_path, slurm)
    rescue = CarriedFactors(StateFile(tmp_path / "state.json"), sleep=slurm.sleep)
    rescue.restore(cast(BatchSystem, slurm))
    assert slurm.factors == {1: 0, 2: 0}


def test_an_answer_since_makes_it_needless(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    factors = carried(tmp_path, slurm)
    write(factors, slurm)
    factors.restore(cast(BatchSystem, slurm))
    assert slurm.slept == []


def test_nothing_is_forgotten_before_the_second_look(tmp_path: Path) -> None:
    slurm = SleepySlurm()
    factors = carried(tmp_path, slurm)
    slurm.answers = False
    with pytest.raises(BatchSystemUnavailable):
        factors.restore(cast(BatchSystem, slurm))
    assert factors.is_outstanding()
    slurm.answers = True
    factors.restore(cast(BatchSystem, slurm))
    assert slurm.factors == {1: 0, 2: 0}


def test_an_unanswered_write_of_no_known_job_is_outstanding(tmp_path: Path) -> None:
    StateFile(tmp_path / "state.json", way_out={}).write(set(), unanswered=True)
    factors = CarriedFactors(StateFile(tmp_path / "state.json"))
    assert factors.is_outstanding()
    assert factors.words == "a write of factors got no answer and may still take effect"


WAY_OUT = {"batch_system": {"adapter": "pbs"}}


def test_it_keeps_jobs_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    StateFile(path, WAY_OUT).write({3, 1})
    assert json.loads(path.read_text()) == {"version": 2, "way_out": WAY_OUT, "jobs": [1, 3]}
    assert StateFile(path).read() == {1, 3}
    assert StateFile(path).left_behind() == WAY_OUT


def test_who_knows_no_way_out_keeps_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    StateFile(path, WAY_OUT).write({1})
    StateFile(path).write(set())
    assert StateFile(path).left_behind() == WAY_OUT


def test_version_1_is_read_and_tells_no_way_out(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"version": 1, "jobs": [1, 2]}')
    assert StateFile(path).read() == {1, 2}
    assert StateFile(path).left_behind() == {}


def test_a_file_that_names_subjobs_of_pbs_is_read(tmp_path: Path) -> None:
    """A daemon that has lost its file names all jobs, subjobs that run too."""
    numbers = {job_number(name) for name in ("7[].h", "7[0].h", "999999999999[4194303].h")}
    jobs = {number for number in numbers if number is not None}
    state = StateFile(tmp_path / "state.json")
    state.write(jobs)
    assert len(jobs) == 3
    assert state.read() == jobs


@pytest.mark.parametrize("job", [2**63, 2**64, 10**30, 0, -1])
def test_a_number_that_is_no_job_id_makes_it_untrusted(tmp_path: Path, job: int) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"version": 1, "jobs": [1, job]}))
    assert StateFile(path).read() is None


def test_the_largest_job_id_can_be_released(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.json")
    state.write({2**63 - 1})
    assert state.read() == {2**63 - 1}
    CarriedFactors(state).restore(QueueInMemory(pending_jobs([1])))
    assert state.read() == set()


def test_the_first_write_tells_the_way_out_though_no_job_is_new(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    StateFile(path).write({1})
    snapshot = QueueInMemory(pending_jobs([1])).snapshot()
    jobs = snapshot.pending.jobs.job_id.tolist()
    StateFile(path).write(jobs)
    CarriedFactors(StateFile(path, WAY_OUT)).before_writing(snapshot, jobs)
    assert StateFile(path).left_behind() == WAY_OUT


NOWHERE = cast(BatchSystem, None)


@dataclass
class Entry:
    name: str
    answer: ApplyReport | Exception
    path: Path | None = None
    words: str = "something is outstanding"
    asked: int = 0

    def is_outstanding(self) -> bool:
        return True

    def restore(self, system: BatchSystem) -> ApplyReport:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_reports_are_joined_and_a_job_counts_once() -> None:
    entries = [
        Entry("a", ApplyReport(accepted=frozenset({1, 2}), rejected={3: "no"})),
        Entry("b", ApplyReport(accepted=frozenset({2}), later=frozenset({3}))),
    ]
    report = restore_all(entries, NOWHERE)
    assert (report.applied, report.rejected, report.later) == (2, {3: "no"}, frozenset({3}))


def test_a_job_that_a_later_report_accepts_is_left_no_more() -> None:
    first = ApplyReport(rejected={3: "held"}, later=frozenset({3}))
    report = first | ApplyReport(accepted=frozenset({3}))
    assert (report.rejected, report.later) == ({}, frozenset())


def test_a_failure_keeps_no_other_entry_and_the_first_one_is_raised() -> None:
    entries = [
        Entry("a", ChangeRejected("no right")),
        Entry("b", BatchSystemUnavailable("no answer")),
        Entry("c", ApplyReport()),
    ]
    with pytest.raises(ChangeRejected, match="no right"):
        restore_all(entries, NOWHERE)
    assert [entry.asked for entry in entries] == [1, 1, 1]


def test_nothing_is_outstanding_without_files(tmp_path: Path) -> None:
    entries = outstanding_at(tmp_path / "state.json")
    assert [entry.name for entry in entries] == ["batch_limit", "factors"]
    assert not any(entry.is_outstanding() for entry in entries)


def test_a_state_file_that_cannot_be_trusted_counts_as_factors(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("not JSON")
    _, factors = outstanding_at(tmp_path / "state.json")
    assert factors.is_outstanding()
    assert "cannot be trusted" in factors.words
