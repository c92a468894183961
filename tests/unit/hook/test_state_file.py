from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fields import job_number
from slurm_rl_plugin.hook.memory.carried_factors import CarriedFactors, StateFile
from tests.unit.hook.queues import QueueInMemory, pending_jobs

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
