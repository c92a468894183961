"""Files of the hook: factors, a model's memory, the disable file and the lock."""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem, FactorChange
from slurm_rl_plugin.errors import (
    BatchSystemUnavailable,
    ConfigurationError,
    DisableFileError,
    LockHeld,
)
from slurm_rl_plugin.hook.daemon.lock import daemon_runs, is_looked_after, lock_path, only_daemon
from slurm_rl_plugin.hook.memory.carried_factors import (
    SETTLED,
    CarriedFactors,
    MemoryFile,
    StateFile,
)
from slurm_rl_plugin.hook.memory.disable_file import (
    Disablement,
    DisableWatch,
    read_disable_file,
    remove_disable_file,
    write_disable_file,
)
from slurm_rl_plugin.units import IntArray
from tests.unit.hook.queues import QueueInMemory, damaged, pending_jobs, snapshot_of


@dataclass
class SleepySlurm:
    """Executes a write after its time-out, a second after it resumed."""

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

    def write(self, factors: CarriedFactors) -> None:
        changes = [FactorChange(job_id=job, old=0, new=700) for job in (1, 2)]
        nothing = np.array([], dtype=np.int64)
        factors.write(snapshot_of(pending_jobs([1, 1])), changes, lambda: self.release(nothing))


WAY_OUT = {"batch_system": {"adapter": "pbs"}}


@pytest.fixture
def slurm() -> SleepySlurm:
    return SleepySlurm()


@pytest.fixture
def state_file(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "state.json", way_out=WAY_OUT)


@pytest.fixture
def factors(state_file: StateFile, slurm: SleepySlurm) -> CarriedFactors:
    """A write of two jobs has got no answer."""
    factors = CarriedFactors(state_file, sleep=slurm.sleep)
    slurm.answers = False
    with pytest.raises(BatchSystemUnavailable):
        slurm.write(factors)
    slurm.answers = True
    return factors


def test_who_got_no_answer_looks_again(factors: CarriedFactors, slurm: SleepySlurm) -> None:
    slurm.answers = False
    with pytest.raises(BatchSystemUnavailable):
        factors.restore(cast(BatchSystem, slurm))
    assert factors.is_outstanding()
    slurm.answers = True
    factors.restore(cast(BatchSystem, slurm))
    assert (slurm.factors, slurm.slept) == ({1: 0, 2: 0}, [SETTLED])
    assert not factors.is_outstanding()
    assert not factors.state.is_unanswered()


def test_an_answer_since_makes_it_needless(factors: CarriedFactors, slurm: SleepySlurm) -> None:
    slurm.write(factors)
    factors.restore(cast(BatchSystem, slurm))
    assert slurm.slept == []


def test_an_unanswered_write_of_no_known_job_is_outstanding(state_file: StateFile) -> None:
    state_file.write(set(), unanswered=True)
    factors = CarriedFactors(StateFile(state_file.path))
    assert factors.is_outstanding()
    assert factors.words == "a write of factors got no answer and may still take effect"


def test_it_keeps_jobs_and_the_way_out(state_file: StateFile) -> None:
    """A daemon that has lost its file names all jobs, subjobs of OpenPBS that run too."""
    path, nameless = state_file.path, StateFile(state_file.path)
    state_file.write({3, 1})
    assert json.loads(path.read_text()) == {"version": 2, "way_out": WAY_OUT, "jobs": [1, 3]}
    numbers = {job_number(name) for name in ("7[].h", "7[0].h", "999999999999[4194303].h")}
    jobs = {2**63 - 1, *(number for number in numbers if number is not None)}
    nameless.write(jobs)
    assert (len(jobs), nameless.read(), nameless.left_behind()) == (4, jobs, WAY_OUT)
    CarriedFactors(nameless).restore(QueueInMemory(pending_jobs([1])))
    assert (nameless.read(), nameless.left_behind()) == (set(), WAY_OUT)
    path.write_text('{"version": 1, "jobs": [1, 2]}')  # of release 0.1.0
    assert (nameless.read(), nameless.left_behind()) == ({1, 2}, {})


def test_the_first_write_keeps_the_way_out_though_no_job_is_new(state_file: StateFile) -> None:
    snapshot = QueueInMemory(pending_jobs([1])).snapshot()
    jobs = snapshot.pending.jobs.job_id.tolist()
    StateFile(state_file.path).write(jobs)
    CarriedFactors(state_file).before_writing(snapshot, jobs)
    assert state_file.left_behind() == WAY_OUT


def test_a_job_that_a_later_report_accepts_is_left_no_more() -> None:
    first = ApplyReport(rejected={3: "held"}, later=frozenset({3}))
    report = first | ApplyReport(accepted=frozenset({3}))
    assert (report.rejected, report.later) == ({}, frozenset())


@pytest.fixture
def memory_file(tmp_path):
    return MemoryFile(path=tmp_path / "state.json.memory", model_sha256="abc")


NAN = np.array([np.nan]).tobytes()
HEAD = b"slurm-rl memory 1 abc "


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"3", b'{"model": "abc", "memory": [1.0]}', b"\xff\xfe\n" + bytes(8), HEAD,
     HEAD + b"1\n", HEAD + b"1\n" + bytes(7), HEAD + b"1\n" + bytes(16), HEAD + b"x\n" + bytes(8),
     HEAD + b"1\n" + NAN, HEAD.replace(b"1", b"2") + b"1\n" + bytes(8), b"abc 1\n" + bytes(8)],
)  # fmt: skip
def test_a_broken_or_foreign_file_is_no_memory(memory_file, content, caplog):
    memory_file.path.write_bytes(content)
    assert memory_file.read() is None
    assert caplog.text.count("memory=unreadable") == 1


def test_a_memory_of_many_rows_is_read_back_exactly(memory_file):
    memory = np.random.default_rng(1).normal(size=(100_000, 13)).ravel()
    memory_file.write(memory)
    assert memory_file.read().tobytes() == memory.tobytes()
    assert [each.name for each in memory_file.path.parent.iterdir()] == [memory_file.path.name]
    assert MemoryFile(path=memory_file.path, model_sha256="other").read() is None
    content = memory_file.path.read_bytes()
    for length in range(0, len(content), 970_007):
        memory_file.path.write_bytes(content[:length])
        assert memory_file.read() is None
    memory_file.write(np.empty(0))
    assert len(memory_file.read()) == 0


def test_no_file_is_no_memory_and_no_folder_no_fault(tmp_path, caplog):
    lost = MemoryFile(path=tmp_path / "none" / "memory", model_sha256="abc")
    assert lost.read() is None
    lost.write(np.ones(2))
    assert "memory=unwritable" in caplog.text


AT, UNTIL = 1_800_000_000.0, 1_800_007_200.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "DISABLE"


def test_what_is_written_is_read_back(path: Path) -> None:
    made = Disablement(by="alice as root", at=AT, until=UNTIL, reason="Slurm\nupgrade:  now")
    write_disable_file(path, made)
    found = read_disable_file(path)
    assert found == Disablement(by="alice as root", at=AT, until=UNTIL, reason="Slurm upgrade: now")
    assert found.counts(UNTIL - 1)
    assert not found.counts(UNTIL)
    assert found.words.startswith("by alice as root since 2027-")


@pytest.mark.parametrize(
    "reason", ["deploy \U0001f469\u200d\U0001f4bb", "St\udcf6rung", "w" * 20_000]
)
def test_a_pause_ends_whatever_its_reason_is_written_in(path: Path, reason: str) -> None:
    write_disable_file(path, Disablement(by="root", at=AT, until=UNTIL, reason=reason))
    found = read_disable_file(path)
    assert (found.until, found.reason[:1]) == (UNTIL, reason[:1])


def test_the_daemon_can_read_it_whatever_the_umask(path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_disable_file(path, Disablement(by="root", at=AT))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "content",
    [
        *map(str.encode, damaged("disable")),
        b"\xff\xfe",
        b"until: 2020-01-01T00:00:00+00:00\nreason: " + b"x" * 20_000,
    ],
)
def test_an_empty_or_odd_file_disables_without_end(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    found = read_disable_file(path)
    assert math.isinf(found.until)
    assert found.counts(1e12)
    assert bool(found.fault) == bool(content)
    assert "without end" in found.words


def test_what_is_no_plain_file_disables_and_is_not_waited_for(path: Path) -> None:
    path.mkdir()
    assert read_disable_file(path).counts(1e12)  # type: ignore[union-attr]
    path.rmdir()
    os.mkfifo(path)
    assert read_disable_file(path).counts(1e12)  # type: ignore[union-attr]


def test_a_file_that_may_not_be_read_disables(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*words: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    found = read_disable_file(path)
    assert "Permission denied" in found.words
    assert found.counts(1e12)


def test_faults_of_the_folder_are_one_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "DISABLE"
    assert read_disable_file(missing) is None
    with pytest.raises(DisableFileError, match="cannot be made"):
        write_disable_file(missing, Disablement())
    (tmp_path / "file").touch()
    with pytest.raises(DisableFileError, match="cannot be removed"):
        remove_disable_file(tmp_path / "file" / "DISABLE")
    remove_disable_file(tmp_path / "DISABLE")


def test_a_clock_set_back_prolongs_a_pause_and_starts_none(path: Path) -> None:
    write_disable_file(path, Disablement(by="root", at=AT, until=UNTIL))
    watch = DisableWatch()
    assert watch.standing(path, AT, 0.0)
    assert watch.standing(path, AT - 3600, 7300.0)
    assert watch.standing(path, UNTIL, 10_900.0) is None
    assert watch.standing(path, AT, 11_000.0) is None
    write_disable_file(path, Disablement(by="root", at=UNTIL, until=UNTIL + 60))  # a new one
    assert watch.standing(path, UNTIL + 1, 11_001.0)
    assert watch.standing(path, UNTIL + 60, 11_060.0) is None
    remove_disable_file(path)
    assert watch.standing(path, UNTIL, 11_061.0) is None


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the state file would be; the lock next to it is there and free."""
    with only_daemon(tmp_path / "state.json"):
        pass
    return tmp_path / "state.json"


def test_whether_a_daemon_runs(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert daemon_runs(state) is False
    assert is_looked_after(state) is False
    assert not lock_path(state).exists()
    with only_daemon(state):
        assert daemon_runs(state) is True
        assert daemon_runs(state) is True
        assert is_looked_after(state) is True
    assert daemon_runs(state) is False


def test_two_lookers_do_not_take_each_other_for_a_daemon(state: Path) -> None:
    with lock_path(state).open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert daemon_runs(state) is False


def test_a_daemon_that_starts_during_a_look_starts(state: Path) -> None:
    other = lock_path(state).open()
    fcntl.flock(other, fcntl.LOCK_SH)
    threading.Timer(0.06, other.close).start()
    with only_daemon(state):
        assert daemon_runs(state) is True


@pytest.mark.parametrize("written", ["", "x", "0 1", "4194999 7", "{pid} 1", f"{'9' * 90}"])
def test_who_holds_it_and_is_no_daemon_is_named(state: Path, written: str) -> None:
    """For example a child that inherited the descriptor; no other process can open the file."""
    with lock_path(state).open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.truncate(0)
        other.write(written.format(pid=os.getpid()))
        other.flush()
        assert daemon_runs(state) is True
        with pytest.raises(LockHeld, match=rf"held by pid {os.getpid()} of uid {os.getuid()}"):
            is_looked_after(state)
        with pytest.raises(LockHeld, match="end that process"), only_daemon(state):
            pass


def test_the_process_of_before_is_no_proof(state: Path) -> None:
    """Its number stays in the file, and may be another process's by now."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    with lock_path(state).open("r+") as other:
        other.truncate(0)
        other.write(f"{gone.pid} 1\n")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LockHeld):
            is_looked_after(state)


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


def _second_name(path: Path) -> None:
    path.with_name("elsewhere").touch(mode=0o600)
    path.hardlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (_link, "cannot be opened"),
        (Path.mkdir, "cannot be opened"),
        (lambda path: os.mkfifo(path, 0o600), "no plain file"),
        (_second_name, "no plain file"),
        (lambda path: path.touch(mode=0o644), "others may open it"),
    ],
)
def test_nothing_else_is_taken_for_the_lock(tmp_path: Path, place, words: str) -> None:  # type: ignore[no-untyped-def]
    state = tmp_path / "state.json"
    place(lock_path(state))
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ConfigurationError, match=words), only_daemon(state):
        pass
    assert daemon_runs(state) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_daemon_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left = [f".state.json.{'0a' * 8}.part", ".state.json.limits.417.part"]
    others = ["state.json", ".state.json.part", ".bashrc.part", f".state.json.{'0b' * 8}.part"]
    for name in [*left, *others]:
        (tmp_path / name).touch()
        if name != others[-1]:  # which another host may be writing
            os.utime(tmp_path / name, (0, 0))
    with only_daemon(tmp_path / "state.json"):
        found = {path.name for path in tmp_path.iterdir()}
    assert found == {*others, lock_path(tmp_path / "state.json").name}
