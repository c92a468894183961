"""The adapter by pyslurm over a fake one, and which batch system and adapter is taken."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin import errors
from slurm_rl_plugin.batch_systems import registry
from slurm_rl_plugin.batch_systems.registry import choose_batch_system
from slurm_rl_plugin.batch_systems.slurm import kind as slurm_kind
from slurm_rl_plugin.batch_systems.slurm.adapter import (
    PROGRAM,
    PyslurmQueue,
    ask_pyslurm,
    choose_adapter,
)
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue import job_tables
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    ChangeRejected,
    ConfigurationError,
)
from tests.case_files import rows
from tests.contracts.batch_system_contract import (
    factors,
    set_factor,
)
from tests.fakes.fake_cluster import NOW
from tests.fakes.fake_pbs_cluster import FakePbs
from tests.fakes.pyslurm_cluster import RELEASES, PyslurmCluster, differences

READ = {"read": ["id", "state"]}
EVERY_RELEASE = pytest.mark.parametrize("cluster", RELEASES, indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> PyslurmCluster:
    """With the newest pyslurm, where a test names no other."""
    return PyslurmCluster(tmp_path, getattr(request, "param", RELEASES[-1]))


def looked(cluster: PyslurmCluster, *numbers: int, **array: Any) -> SlurmCommands:
    """An adapter that has seen these jobs, and perhaps an array."""
    for number in numbers:
        cluster.add(number, **(array if number >= 20 else {}))
    system = cluster.adapter()
    system.snapshot()
    return system


def _records(system: SlurmCommands) -> PyslurmQueue:
    records = system._queue
    assert isinstance(records, PyslurmQueue)
    return records


def _rows(system: SlurmCommands) -> list[QueueRow]:
    return _records(system).waiting_and_running()


class TestRows:
    @EVERY_RELEASE
    def test_same_rows_as_squeue(self, cluster: PyslurmCluster) -> None:
        cluster.add(1, nice=-50, time_limit="1-02:03:00", partition="batch,short", batch=0, qos="")
        cluster.add(2, time_limit="UNLIMITED", name="a|b\ntwo\u2028lines é", processors=64)
        cluster.add(3, reason="JobHeldAdmin", eligible=None, account="biology", user="bob")
        cluster.add(4, state="RUNNING", reason="None", start=NOW, end=NOW + 600, nodes="n[1-2]")
        cluster.add(5, state="CONFIGURING", start=NOW, end=NOW + 600, nodes="n1")
        cluster.add(20, tasks="4-9")
        cluster.add(21, array_id=20, tasks="0", reason="Dependency", eligible=None)
        cluster.add(22, array_id=20, tasks="2", state="RUNNING", start=NOW - 5, nodes="n1")
        cluster.add(30, state="COMPLETING", start=NOW, end=NOW, nodes="n1")
        cluster.add(31, state="SUSPENDED", start=NOW, nodes="n1")
        cluster.add(32, state="SPECIAL_EXIT", eligible=None)
        cluster.add(40, het_id=40)
        cluster.add(41, het_id=40, partition="short")
        system = cluster.adapter()
        assert differences(system) == []
        assert {row.job_id for row in _rows(system)} == {1, 2, 3, 4, 5, 20, 21, 22, 32, 40, 41}

    def test_job_without_a_limit_has_no_end_until_it_is_over(self, cluster: PyslurmCluster) -> None:
        cluster.add(1, time_limit="UNLIMITED", state="RUNNING", start=NOW, end=NOW + 9, nodes="n1")
        system = cluster.adapter()
        assert math.isnan(_rows(system)[0].end)
        cluster.change(1, state="COMPLETED")
        _records(system).waiting()
        assert _records(system).of_arrays([1])[0].end == NOW + 9

    @EVERY_RELEASE
    def test_user_without_a_name_and_name_that_is_no_text(self, cluster: PyslurmCluster) -> None:
        cluster.add(1, user="nobody-knows", name="\udcff")
        rows = _rows(cluster.adapter())
        assert (rows[0].user, rows[0].name) == ("4242", "")

    def test_rows_of_looks_at_new_jobs_do_not_pile_up(
        self, cluster: PyslurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(job_tables, "GONE_AT_LEAST", 3)
        system = looked(cluster, *range(1, 6))
        for _ in range(4):
            assert len(system.pending_now().pending) == 5
        assert len(system._numbers._rows) <= 5 + 3

    def test_value_of_another_kind_is_named(self, cluster: PyslurmCluster) -> None:
        cluster.add(1, processors="many")
        with pytest.raises(BatchSystemError, match=r"pyslurm answered.*many"):
            cluster.adapter().snapshot()


class TestWrites:
    @EVERY_RELEASE
    def test_zero_is_written(self, cluster: PyslurmCluster) -> None:
        cluster.add(1, site=9)
        calls: list[str] = []
        system = cluster.adapter(on_call=lambda call: calls.append(call[0]))
        system.snapshot()
        assert sorted(calls[1:]) == ["pyslurm_read", "sinfo", "sprio", "sshare"]
        assert system.release(np.array([1], dtype=np.int64)).applied == 1
        assert (cluster.sites, cluster.modified, cluster.scontrol_calls) == ({1: 0}, [1], 0)
        assert calls[5] == "pyslurm_write"

    def test_all_pending_records_of_an_array_by_one_request(self, cluster: PyslurmCluster) -> None:
        cluster.add(20, tasks="4-9")
        cluster.add(21, array_id=20, tasks="1")
        cluster.add(22, array_id=20, tasks="2", reason="JobHeldUser", eligible=None)
        cluster.add(30)
        system = cluster.adapter()
        system.snapshot()
        cluster.add(23, array_id=20, tasks="3")  # split off since the last look
        report = system.apply([set_factor(20, 33), set_factor(30, 44)])
        assert (report.applied, report.rejected) == (2, {})
        assert cluster.sites == {20: 33, 21: 33, 22: 33, 23: 33, 30: 44}
        assert (cluster.modified, cluster.scontrol_calls) == ([30], 1)
        assert len(cluster.state["jobs"]) == 5
        assert factors(system.snapshot()) == {20: 33, 30: 44}

    def test_number_that_no_look_has_shown_may_be_an_array(self, cluster: PyslurmCluster) -> None:
        cluster.add(20, tasks="4-9", site=3)
        cluster.add(21, array_id=20, tasks="1", site=3)
        assert cluster.adapter().release(np.array([20], dtype=np.int64)).applied == 1
        assert cluster.sites == {20: 0, 21: 0}

    def test_jobs_that_end_or_vanish_meanwhile_are_reported(self, cluster: PyslurmCluster) -> None:
        system = looked(cluster, 1, 2, 3)
        cluster.change(1, state="COMPLETED")
        cluster.forget(2)
        report = system.apply([set_factor(job_id, 5) for job_id in (1, 2, 3)])
        assert report.applied == 1
        assert report.rejected == {1: "Job has already finished", 2: "Invalid job id specified"}
        assert cluster.sites[3] == 5

    def test_missing_right(self, cluster: PyslurmCluster) -> None:
        system = looked(cluster, 1, 20, tasks="1-3")
        cluster.break_pyslurm("deny")
        report = system.apply([set_factor(1, 5), set_factor(20, 5)])
        assert (report.applied, report.rejected) == (1, {1: "Access/permission denied"})
        cluster.break_command("scontrol", "deny")
        system = looked(cluster)
        with pytest.raises(ChangeRejected, match="AdminLevel=Operator"):
            system.apply([set_factor(1, 5), set_factor(20, 5)])

    def test_slurmctld_that_goes_away_is_not_asked_for_every_job(
        self, cluster: PyslurmCluster
    ) -> None:
        system = looked(cluster, *range(1, 6))
        cluster.break_pyslurm("down_after_one")
        with pytest.raises(BatchSystemUnavailable, match="pyslurm cannot reach Slurm: Unable"):
            system.apply([set_factor(job_id, 5) for job_id in range(1, 6)])
        assert cluster.modified == [1, 2]
        cluster.break_pyslurm("")
        assert system.apply([set_factor(5, 5)]).applied == 1

    def test_a_controller_that_is_not_in_charge_refuses_nothing(
        self, cluster: PyslurmCluster
    ) -> None:
        system = looked(cluster, 1)
        cluster.break_pyslurm("standby")
        with pytest.raises(BatchSystemUnavailable, match="standby mode"):
            system.release(np.array([1]))


class TestChild:
    """A fault of libslurm ends the child of one question; the next question always works."""

    def works(self, cluster: PyslurmCluster, commands: CommandRunner) -> bool:
        cluster.break_pyslurm("chatty")  # what libslurm prints is no answer
        return ask_pyslurm(commands, "read", READ) == {"jobs": [[7, "PENDING"]]}

    @pytest.fixture
    def commands(self, cluster: PyslurmCluster) -> CommandRunner:
        cluster.add(7)
        return CommandRunner.of(cluster.adapter_settings(timeout=1.0))

    @pytest.mark.parametrize("mode", ["hang", "hang_at_import"])
    def test_one_that_hangs_is_killed_in_time(
        self, cluster: PyslurmCluster, commands: CommandRunner, mode: str
    ) -> None:
        cluster.break_pyslurm(mode)
        began = time.monotonic()
        with pytest.raises(BatchSystemUnavailable, match="read gave no answer within 1 s"):
            ask_pyslurm(commands, "read", READ)
        assert time.monotonic() - began < 2
        with pytest.raises(BatchSystemUnavailable, match=r"within 1\.5 s"):
            ask_pyslurm(commands, "write", {"write": [[7, 1]]}, extra=0.5)
        assert children() == []
        assert self.works(cluster, commands)

    @pytest.mark.parametrize(
        ("sent", "words"),
        [
            (signal.SIGKILL, "ended: exit status -9"),
            (signal.SIGTERM, "gave no answer within 1 s"),  # the end of a service is the daemon's
        ],
    )
    def test_one_that_gets_a_signal(
        self, cluster: PyslurmCluster, commands: CommandRunner, sent: signal.Signals, words: str
    ) -> None:
        cluster.break_pyslurm("hang")
        sender = Timer(0.5, lambda: [os.kill(child, sent) for child in children()])
        sender.start()
        with pytest.raises(BatchSystemUnavailable, match=words):
            ask_pyslurm(commands, "read", READ)
        sender.join()
        assert self.works(cluster, commands)

    @rows("slurm", "children", "mode kind words")
    def test_what_pyslurm_cannot_read(
        self, cluster: PyslurmCluster, commands: CommandRunner, mode: str, kind: str, words: str
    ) -> None:
        cluster.break_pyslurm(mode)
        with pytest.raises(getattr(errors, kind), match=words) as caught:
            ask_pyslurm(commands, "read", READ)
        assert type(caught.value).__name__ == kind
        assert self.works(cluster, commands)

    def test_orphan_ends_by_itself(self, cluster: PyslurmCluster) -> None:
        """In a hanging call, where no code of Python runs, soon after its time-out."""
        cluster.break_pyslurm("hang")
        ignoring = ["sh", "-c", 'trap "" ALRM; exec "$@"', "-"]  # as its parent may do
        orphan = subprocess.Popen(
            [*ignoring, sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            env={**os.environ, **cluster.env},
        )
        orphan.stdin.write(json.dumps({"seconds": 1.0, **READ}).encode())
        orphan.stdin.close()
        assert orphan.wait(5) == -signal.SIGALRM


def children() -> list[int]:
    """Of this process, those that run pyslurm."""
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", PROGRAM.name], capture_output=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("is_named", [False, True])
@rows("slurm", "choices", "wanted scontrol qstat has_conf kind sure words")
def test_the_batch_system_that_is_here_or_answers_is_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    scontrol: str,
    qstat: str,
    has_conf: bool,
    kind: str,
    sure: bool,
    words: str,
    is_named: bool,
) -> None:
    """SLURM_CONF may name a slurm.conf elsewhere."""
    fake, conf = FakePbs(tmp_path), tmp_path / "slurm.conf"
    environment = dict(fake.env)
    if scontrol:
        program(tmp_path / "slurm" / "scontrol", scontrol)
        environment["PATH"] = f"{tmp_path}/slurm:{fake.env['PATH']}:/bin"
    if qstat == "down":
        fake.break_command("qstat", qstat)
    elif qstat:
        environment["PBS_CONF_FILE"] = str(tmp_path / "other.conf")
        (tmp_path / "other.conf").write_text("PBS_SERVER=head\n" if qstat == "torque" else "")
    if has_conf:
        conf.touch()
    if scontrol == "sleep 60":
        monkeypatch.setattr(registry, "SECONDS_TO_ANSWER", 1.0)
    monkeypatch.setattr(slurm_kind, "SLURM_CONFS", () if is_named else (str(conf),))
    choice = choose_batch_system(
        wanted, {**environment, "SLURM_CONF": str(conf)} if is_named else environment
    )
    assert (choice.kind.name, choice.sure) == (kind, sure), choice.because
    assert words in choice.because


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages; no other pyslurm is seen, though one may be installed."""
    folder = tmp_path / "packages"
    folder.mkdir()
    others = [path for path in sys.path if not list(Path(path).glob("pyslurm*"))]
    monkeypatch.setattr(sys, "path", [str(folder), *others])
    return folder


def install(packages: Path, release: str) -> None:
    """Leave the metadata of a pyslurm, and a package that must not be imported."""
    info = packages / f"pyslurm-{release}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: pyslurm\nVersion: {release}\n"
    )
    package = packages / "pyslurm"
    package.mkdir()
    package.joinpath("__init__.py").write_text("raise SystemExit('imported')")


def commands(tmp_path: Path, script: str) -> CommandRunner:
    """A scontrol of its own; it notes that it was called."""
    program(tmp_path / "scontrol", f'echo "$@" >> {tmp_path}/called\n{script}')
    path = os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"])
    return CommandRunner(environment={"PATH": path}, timeout=1.0)


@rows("slurm", "adapters", "wanted pyslurm says adapter because")
def test_the_adapter_that_can_work_is_taken(
    packages: Path,
    tmp_path: Path,
    wanted: str,
    pyslurm: str,
    says: str,
    adapter: str,
    because: str,
) -> None:
    if pyslurm:
        install(packages, pyslurm)
    scontrol, called = commands(tmp_path, says), tmp_path / "called"
    if adapter:
        kind, why = choose_adapter(wanted, scontrol)
        assert (kind.name, why) == (adapter, because)
    else:
        with pytest.raises(ConfigurationError, match=r"install the pyslurm .*\"auto\"") as caught:
            choose_adapter(wanted, scontrol)
        assert "\n" not in str(caught.value)
    assert (called.read_text() if called.exists() else "") == ("--version\n" if says else "")
    assert "pyslurm" not in sys.modules
