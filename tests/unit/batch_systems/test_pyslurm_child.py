"""The child in which pyslurm runs: killed, hung, ended, orphaned; the next call always works."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.process import commands_of
from slurm_rl_plugin.batch_systems.slurm.pyslurm_child import child as slurm_child_process
from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.child import PROGRAM, SlurmChild
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable
from tests.fakes.pyslurm_cluster import PyslurmCluster

READ = {"read": ["id", "state"]}


@pytest.fixture
def cluster(tmp_path: Path) -> PyslurmCluster:
    cluster = PyslurmCluster(tmp_path)
    cluster.add(7)
    return cluster


def child_of(cluster: PyslurmCluster, seconds: float = 5.0) -> SlurmChild:
    return SlurmChild(commands_of(cluster.adapter_settings(timeout=seconds)))


def process_of(child: SlurmChild) -> subprocess.Popen[bytes]:
    assert child._running is not None
    return child._running.process


def works(child: SlurmChild) -> bool:
    return child.ask("read", READ)["jobs"] == [[7, "PENDING"]]


def wait_gone(pid: int, seconds: float) -> float:
    """Seconds until the process is gone or a zombie."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                break
        except FileNotFoundError:
            break
        time.sleep(0.02)
    return time.monotonic() - began


def test_it_lives_on_between_calls(cluster: PyslurmCluster) -> None:
    child = child_of(cluster)
    assert works(child)
    first = process_of(child).pid
    assert works(child)
    assert process_of(child).pid == first


def test_the_end_of_a_service_leaves_it_to_the_daemon(cluster: PyslurmCluster) -> None:
    child = child_of(cluster)
    assert works(child)
    first = process_of(child)
    for number in (signal.SIGTERM, signal.SIGINT):
        first.send_signal(number)
    assert works(child)
    assert process_of(child) is first


@pytest.mark.parametrize("mode", ["hang", "hang_at_import"])
def test_one_that_hangs_is_killed_in_time(cluster: PyslurmCluster, mode: str) -> None:
    child = child_of(cluster, seconds=1.0)
    if mode == "hang":
        assert works(child)
        pid = process_of(child).pid
    cluster.break_pyslurm(mode)
    began = time.monotonic()
    with pytest.raises(BatchSystemUnavailable, match="read gave no answer within 1 s"):
        child.ask("read", READ)
    assert time.monotonic() - began < 2
    assert child._running is None
    if mode == "hang":
        assert not Path(f"/proc/{pid}").exists()
    cluster.break_pyslurm("")
    assert works(child)


def test_more_time_where_it_is_given(cluster: PyslurmCluster) -> None:
    cluster.break_pyslurm("hang")
    with pytest.raises(BatchSystemUnavailable, match=r"within 1\.5 s"):
        child_of(cluster, seconds=0.5).ask("write", {"write": [[7, 1]]}, extra=1.0)


def test_stopped_one_is_killed_in_time(cluster: PyslurmCluster) -> None:
    child = child_of(cluster, seconds=0.7)
    assert works(child)
    process_of(child).send_signal(signal.SIGSTOP)
    with pytest.raises(BatchSystemUnavailable, match="no answer within"):
        child.ask("read", READ)
    assert works(child)


def test_one_killed_between_two_calls(cluster: PyslurmCluster) -> None:
    child = child_of(cluster)
    assert works(child)
    process_of(child).kill()
    process_of(child).wait(5)
    assert works(child)


def test_one_killed_in_a_call(cluster: PyslurmCluster) -> None:
    child = child_of(cluster)
    assert works(child)
    process = process_of(child)
    cluster.break_pyslurm("hang")
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {process.pid}"])
    began = time.monotonic()
    with pytest.raises(BatchSystemUnavailable, match="ended: exit status -9"):
        child.ask("read", READ)
    assert time.monotonic() - began < 3
    killer.wait(5)
    cluster.break_pyslurm("")
    assert works(child)


def test_interpreter_that_the_library_ends(cluster: PyslurmCluster) -> None:
    child = child_of(cluster)
    assert works(child)
    cluster.break_pyslurm("exit")
    with pytest.raises(BatchSystemUnavailable, match="ended: pyslurm: fatal: the library gave up"):
        child.ask("read", READ)
    cluster.break_pyslurm("no_conf")
    with pytest.raises(
        BatchSystemUnavailable, match=r"Unable to process configuration file; check slurm\.conf"
    ):
        child.ask("read", READ)
    cluster.break_pyslurm("")
    assert works(child)


def test_pyslurm_that_cannot_be_imported(cluster: PyslurmCluster) -> None:
    cluster.break_pyslurm("missing")
    with pytest.raises(BatchSystemError, match=r"cannot be imported: libslurm.*slurm_commands"):
        child_of(cluster).ask("read", READ)


def test_no_program_to_start(cluster: PyslurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(BatchSystemUnavailable, match="no child can be started"):
        child_of(cluster).ask("read", READ)


def test_what_libslurm_prints_is_no_answer(cluster: PyslurmCluster) -> None:
    cluster.break_pyslurm("chatty")
    child = child_of(cluster)
    assert works(child)
    assert works(child)


def test_complaints_do_not_pile_up(cluster: PyslurmCluster) -> None:
    cluster.break_pyslurm("chatty")
    child = child_of(cluster)
    for _ in range(20):
        assert works(child)
    assert child._running is not None
    assert os.fstat(child._running._complaints.fileno()).st_size < 100
    cluster.break_pyslurm("exit")
    with pytest.raises(BatchSystemUnavailable, match="the library gave up"):
        child.ask("read", READ)


def test_answer_longer_than_a_pipe_and_question_of_a_burst(cluster: PyslurmCluster) -> None:
    cluster.set(jobs=[{**cluster.record(7), "job_id": n, "name": "x" * 900} for n in range(1000)])
    child = child_of(cluster, seconds=20.0)
    assert len(child.ask("read", {"read": ["id", "name"]})["jobs"]) == 1000
    cluster.set(jobs=[])
    burst = [[job_id, -2147483645] for job_id in range(10**9, 10**9 + 500)]
    assert len(child.ask("write", {"write": burst})["refused"]) == 500


def test_gone_with_whoever_asked(cluster: PyslurmCluster) -> None:
    child = child_of(cluster)
    assert works(child)
    pid = process_of(child).pid
    del child
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("mode", "at_most"), [("", 1.0), ("hang", 3.5)])
def test_orphan_ends_by_itself(
    cluster: PyslurmCluster, mode: str, at_most: float, tmp_path: Path
) -> None:
    """Idle at once; in a hanging call, where no code of Python runs, soon after its time-out."""
    told = tmp_path / "pid"
    program = (
        "import os, sys, json, pathlib\n"
        "from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.child import SlurmChild\n"
        "from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner\n"
        "commands = CommandRunner(environment=None, timeout=2.0, on_call=None)\n"
        "child = SlurmChild(commands)\n"
        "child.ask('read', {'read': ['id']})\n"
        f"pathlib.Path({str(told)!r}).write_text(str(child._running.process.pid))\n"
        "path = pathlib.Path(os.environ['FAKE_SLURM_STATE'])\n"
        "state = json.loads(path.read_text())\n"
        f"state['modes']['pyslurm'] = {mode!r}\n"
        "path.write_text(json.dumps(state))\n"
        f"child.ask('read', {{'read': ['id']}}) if {mode!r} else sys.stdin.read()\n"
    )
    top = str(Path(slurm_child_process.__file__).parents[2])
    path = os.pathsep.join([cluster.env["PYTHONPATH"], top])
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        env={**os.environ, **cluster.env, "PYTHONPATH": path},
    )
    end = time.monotonic() + 10
    while not (told.exists() and told.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    pid = int(told.read_text())
    time.sleep(0.3)
    parent.kill()
    parent.wait(5)
    assert wait_gone(pid, 10) < at_most


def test_the_child_is_small() -> None:
    """It loads nothing of this package: what it costs is pyslurm."""
    text = PROGRAM.read_text()
    assert "slurm_rl_plugin" not in text
    assert "numpy" not in text
