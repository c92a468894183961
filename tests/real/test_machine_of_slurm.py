"""The machine that a running Slurm shows is the one that its slurm.conf describes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.kind import SLURM
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.machine_files.reader import read_machine
from tests.real.conftest import StartSlurm
from tests.real.machine_plan import LIMITS, PLAN
from tests.real.private_cluster import PrivateSlurm

pytestmark = pytest.mark.real


@pytest.fixture
def cluster(start_slurm: StartSlurm) -> PrivateSlurm:
    cluster = start_slurm(PLAN)
    for words in LIMITS:
        cluster.run("sacctmgr", "-i", *words)
    return cluster


def running_machine(cluster: PrivateSlurm) -> Machine:
    """The machine as the registry's Slurm reads it in this cluster's environment."""
    assert SLURM.machine is not None
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PATH", "SLURM_CONF"):
            patch.setenv(name, cluster.env[name])
        return SLURM.machine(20.0)


def written_machine(cluster: PrivateSlurm) -> Machine:
    """The machine by slurm.conf and sacctmgr's dump."""
    folder = Path(cluster.directory, "etc")
    cluster.run("sacctmgr", "dump", "trial", f"file={folder}/trial.cfg")
    folder.joinpath("qos.txt").write_text(cluster.run("sacctmgr", "-P", "show", "qos").stdout)
    return read_machine(folder)


def test_running_and_written_machine_are_the_same(cluster: PrivateSlurm) -> None:
    cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=a Gres=gpu:9")
    live, written = running_machine(cluster), written_machine(cluster)
    assert [(kind.name, kind.count) for kind in live.kinds] == [("g[01-03]", 3), ("n[1-2]", 2)]
    assert live.kinds[0].resources == (6.0, 7500.0, 2.0, 2.0)
    told = "n2: down or drained now, but counted."
    assert told in live.left_out
    assert replace(live, left_out=()) == replace(written, left_out=())
    core = "g[01-03]: Slurm gives a core of 2 CPUs to one job; here CPUs are allocated one by one."
    waits = "CompleteWait=8: nodes are free as soon as a job has ended."
    for machine in (live, written):
        assert core in machine.left_out
        assert any(sentence.endswith(waits) for sentence in machine.left_out)
        assert any("GrpTRESMins=cpu=600" in sentence for sentence in machine.left_out)
