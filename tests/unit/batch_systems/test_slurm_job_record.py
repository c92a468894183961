"""One job as `squeue` and `sprio` tell of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kind import JobRecord
from slurm_rl_plugin.batch_systems.slurm.job_record import job_record
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(tmp_path)
    fake.enter(monkeypatch)
    return fake


def test_terms_of_each_partition_without_those_that_are_nothing(cluster: FakeCluster) -> None:
    cluster.add(7, partition="batch,short", tres="cpu=12.6,mem=3", nice=5)
    cluster.add(8)
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


def test_of_an_array_the_record_that_can_start_first_speaks(cluster: FakeCluster) -> None:
    cluster.add(7, array_id=6, tasks="1", state="RUNNING", start=1)
    cluster.add(8, array_id=6, tasks="2", reason="JobHeldUser", eligible=None)
    cluster.add(6, tasks="3-9", name="sweep")
    record = job_record(6, 5.0)
    assert record.tasks == "3-9"
    assert record.description is not None
    assert record.description.name == "sweep"


@pytest.mark.parametrize("command", ["squeue", "sprio"])
@pytest.mark.parametrize("mode", ["down", "garbage", "fail:oh"])
def test_a_command_that_fails_is_told(cluster: FakeCluster, command: str, mode: str) -> None:
    cluster.add(7)
    cluster.break_command(command, mode)
    record = job_record(7, 5.0)
    assert len(record.unread) == 1
    assert record.terms == {}
    assert record.is_pending == (command != "squeue")


def test_sprio_says_in_words_that_it_lists_no_such_job(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(7, eligible=None, reason="Dependency")
    programs = tmp_path / "bin"
    programs.mkdir()
    sprio = programs / "sprio"
    sprio.write_text("#!/bin/sh\necho 'Unable to find jobs matching user/id(s) specified'\n")
    sprio.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{cluster.env['PATH']}")
    record = job_record(7, 5.0)
    assert (record.unread, record.terms) == ((), {})


def test_an_unknown_job_has_no_record(cluster: FakeCluster) -> None:
    record = job_record(99, 5.0)
    assert record == JobRecord()
