"""Nice as the lever: the user's own value is remembered and given back, whatever happens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange
from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.levers.nice import BURST, HELD
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected, ConfigurationError
from tests.contracts.batch_system_contract import BatchSystemContract, PreparedQueue, factors
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    found = FakeCluster(tmp_path)
    found.set(settings={"PriorityType": "priority/basic"})
    return found


def adapter(cluster: FakeCluster, file: Path | None = None) -> SlurmCommands:
    return SlurmCommands(cluster.adapter_settings(history_days=0.0, state_file=file))


class TestContract(BatchSystemContract):
    @pytest.fixture
    def queue(self, cluster: FakeCluster, tmp_path: Path) -> PreparedQueue:
        waiting = tuple(cluster.add(job_id) for job_id in (11, 12, 13))
        cluster.add(14, account="biology", user="bob", nice=50)
        held = cluster.add(15, reason="JobHeldUser", eligible=None)
        return PreparedQueue(
            system=adapter(cluster, tmp_path / "state"),
            waiting=waiting,
            held=held,
            start=cluster.run_job,
            end=cluster.end_job,
        )


def write(system: SlurmCommands, job_id: int, factor: int) -> None:
    system.apply([FactorChange(job_id=job_id, old=0, new=factor)])


def nice(cluster: FakeCluster, job_id: int) -> int:
    return int(cluster.record(job_id)["nice"])


def test_a_factor_is_a_lower_nice_and_a_release_gives_back_the_users(
    cluster: FakeCluster,
) -> None:
    cluster.add(1, nice=50)
    system = adapter(cluster)
    before = system.snapshot().pending
    assert system.facts().lever == "Nice"
    write(system, 1, 900)
    pending = system.snapshot().pending
    assert nice(cluster, 1) == 50 - 900
    assert (pending.factor[0], pending.nice[0]) == (900, 50)
    assert pending.native_priority.tolist() == before.native_priority.tolist()
    assert system.release().applied == 1
    assert nice(cluster, 1) == 50


def test_another_process_knows_the_users_values(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.add(1, nice=50)
    first = adapter(cluster, tmp_path / "state")
    first.snapshot()
    write(first, 1, 900)
    second = adapter(cluster, tmp_path / "state")
    assert factors(second.snapshot()) == {1: 900}
    second.release()
    assert nice(cluster, 1) == 50
    assert json.loads((tmp_path / "state.nice").read_text())["jobs"] == {}


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "written"])
def test_a_kill_in_mid_write_leaves_no_doubt(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    cluster.add(1, nice=50)
    first = adapter(cluster, tmp_path / "state")
    first.snapshot()
    write(first, 1, 900)

    def killed(changes: list[tuple[int, int]]) -> None:
        if not lost:
            cluster.change(1, nice=changes[0][1])
        raise KeyboardInterrupt

    monkeypatch.setattr(first._nice._writer, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        write(first, 1, 2000)
    second = adapter(cluster, tmp_path / "state")
    assert factors(second.snapshot()) == {1: 900 if lost else 2000}
    second.release()
    assert nice(cluster, 1) == 50


def test_a_value_that_the_user_sets_meanwhile_is_his_own(cluster: FakeCluster) -> None:
    cluster.add(1, nice=0)
    system = adapter(cluster)
    system.snapshot()
    write(system, 1, 900)
    cluster.change(1, nice=70)
    pending = system.snapshot().pending
    assert (pending.factor[0], pending.nice[0]) == (0, 70)
    write(system, 1, 30)
    assert nice(cluster, 1) == 40
    system.release()
    assert nice(cluster, 1) == 70


def test_a_held_job_is_not_written_since_that_would_free_it(cluster: FakeCluster) -> None:
    cluster.add(1, nice=5)
    cluster.add(20, array_id=20, tasks="1-3")
    cluster.add(21, array_id=20, tasks="4", reason="JobHeldUser", eligible=None)
    system = adapter(cluster)
    system.snapshot()
    write(system, 1, 900)
    cluster.change(1, reason="JobHeldUser")
    for job_id in (1, 20):
        report = system.apply([FactorChange(job_id=job_id, old=0, new=70)])
        assert report.rejected == {job_id: HELD}
    assert system.release().rejected == {1: HELD}
    assert (nice(cluster, 1), nice(cluster, 20)) == (5 - 900, 0)
    cluster.change(1, reason="Resources")
    assert system.release().applied == 1
    assert nice(cluster, 1) == 5


def test_nothing_is_written_that_cannot_be_remembered(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.add(1, nice=5)
    system = adapter(cluster, tmp_path / "missing" / "state")
    system.snapshot()
    with pytest.raises(ConfigurationError, match="keeps the users' nice values"):
        write(system, 1, 900)
    assert nice(cluster, 1) == 5


@pytest.mark.parametrize("text", ["{}", "no json", '{"version": 1, "jobs": []}', "[" * 100_000])
def test_a_broken_record_stops_writes_and_is_not_overwritten(
    cluster: FakeCluster, tmp_path: Path, text: str
) -> None:
    (tmp_path / "state.nice").write_text(text)
    cluster.add(1, nice=5)
    system = adapter(cluster, tmp_path / "state")
    for call in (system.snapshot, system.release):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            call()
    assert (tmp_path / "state.nice").read_text() == text


def test_a_release_by_another_process_keeps_what_the_user_set_since(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.add(1, nice=50)
    first = adapter(cluster, tmp_path / "state")
    first.snapshot()
    write(first, 1, 900)
    cluster.change(1, nice=777)
    assert adapter(cluster, tmp_path / "state").release().rejected == {}
    assert nice(cluster, 1) == 777


def test_values_are_given_back_though_the_record_cannot_be_written(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    cluster.add(1, nice=50)
    system = adapter(cluster, folder / "state")
    system.snapshot()
    write(system, 1, 900)
    shutil.rmtree(folder)
    assert system.release().applied == 1
    assert nice(cluster, 1) == 50


def test_a_task_that_squeue_shows_in_one_row_with_the_others_keeps_its_hold(
    cluster: FakeCluster,
) -> None:
    cluster.add(20, tasks="1-5", reason="PartitionDown,JobHeldAdmin")
    system = adapter(cluster)
    system.snapshot()
    assert system.apply([FactorChange(job_id=20, old=0, new=70)]).rejected == {20: HELD}


def test_who_is_held_is_asked_before_each_small_burst(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job_id in range(1, 2 * BURST + 2):
        cluster.add(job_id)
    system = adapter(cluster)
    system.snapshot()
    asked = []
    waiting = system._nice._waiting
    monkeypatch.setattr(system._nice, "_waiting", lambda: asked.append(1) or waiting())
    changes = [FactorChange(job_id=job, old=0, new=job) for job in range(1, 2 * BURST + 2)]
    assert system.apply(changes).applied == 2 * BURST + 1
    assert len(asked) == 3


def test_where_the_site_leaves_priority_basic_the_values_go_back(cluster: FakeCluster) -> None:
    cluster.add(1, nice=50)
    system = adapter(cluster)
    system.snapshot()
    write(system, 1, 900)
    cluster.set(settings={"PriorityType": "priority/multifactor"})
    assert system.facts().lever == "SiteFactor"
    system.apply([FactorChange(job_id=1, old=0, new=7)])
    assert nice(cluster, 1) == 50
    assert cluster.record(1)["site"] == 7


@pytest.mark.parametrize("how", ["write", "stop of another process", "release"])
def test_where_the_site_goes_to_priority_basic_the_factors_go_back(
    cluster: FakeCluster, how: str
) -> None:
    cluster.add(1, nice=50)
    cluster.add(2, reason="JobHeldUser", eligible=None)
    cluster.set(settings={"PriorityType": "priority/multifactor"})
    system = adapter(cluster)
    system.snapshot()
    system.apply([FactorChange(job_id=job, old=0, new=7) for job in (1, 2)])
    cluster.set(settings={"PriorityType": "priority/basic"})
    if how != "write":
        system = adapter(cluster)  # knows of no factors
    assert system.facts().lever == "Nice"
    if how == "write":
        system.snapshot()
        write(system, 1, 900)
    else:
        system.release(None if how == "release" else np.array([1, 2]))
    assert [cluster.record(job)["site"] for job in (1, 2)] == [0, 0]
    assert nice(cluster, 1) == (50 - 900 if how == "write" else 50)
    assert cluster.record(2)["reason"] == "JobHeldUser"


def test_left_over_factors_that_are_refused_are_no_reason_not_to_give_back_nice(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add(1, nice=50)
    system = adapter(cluster)
    system.snapshot()
    write(system, 1, 900)
    refused = ChangeRejected("no right")

    def refuse(changes: object) -> ApplyReport:
        raise refused

    system._site_factor.write = refuse  # type: ignore[method-assign]
    assert system.release().applied == 1
    assert nice(cluster, 1) == 50
    assert "left_over=SiteFactor reason=no right" in caplog.text


def test_a_release_that_did_not_reach_left_over_factors_is_not_done(cluster: FakeCluster) -> None:
    """Or it would not be tried again, and Slurm would heed them one day."""
    cluster.add(1)
    system = adapter(cluster)
    system.snapshot()
    cluster.break_command("scontrol", "down")
    with pytest.raises(BatchSystemUnavailable):
        system.release(np.array([1]))


def test_a_broken_record_is_no_reason_not_to_write_or_release_factors(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.nice").write_text("no json")
    cluster.set(settings={"PriorityType": "priority/multifactor"})
    cluster.add(1)
    system = adapter(cluster, tmp_path / "state")
    assert system.apply([FactorChange(job_id=1, old=0, new=7)]).applied == 1
    assert cluster.record(1)["site"] == 7
    assert system.release().applied == 1
    assert cluster.record(1)["site"] == 0
    assert "left_over=Nice" in caplog.text


def test_values_that_the_daemon_of_another_host_gave_are_known(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Otherwise its values would pass for the user's own."""
    cluster.add(1, nice=50)
    ours, others = (adapter(cluster, tmp_path / "state") for _ in range(2))
    for system, factor in ((ours, 900), (others, 950), (ours, 800)):
        system.snapshot()
        write(system, 1, factor)
        assert nice(cluster, 1) == 50 - factor
    assert others.release(np.array([1])).applied == 1
    assert nice(cluster, 1) == 50


def test_a_held_job_that_keeps_a_left_over_value_is_told_as_kept(cluster: FakeCluster) -> None:
    cluster.add(1, nice=50)
    system = adapter(cluster)
    system.snapshot()
    write(system, 1, 900)
    cluster.change(1, reason="JobHeldUser", eligible=None)
    cluster.set(settings={"PriorityType": "priority/multifactor"})
    assert system.facts().lever == "SiteFactor"
    assert system.release().later == {1}
    assert nice(cluster, 1) == 50 - 900
