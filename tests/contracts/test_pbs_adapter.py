"""The PBS adapter under the contract that every adapter keeps, by libpbs and by qalter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.batch_system_contract import BatchSystemContract, PreparedQueue
from tests.fakes.fake_pbs_cluster import NOW, FakePbs


def prepared(fake: FakePbs) -> PreparedQueue:
    """Jobs 1 and 2 run, 3 to 5 wait, 6 is held; 5 is an array."""
    for job in (1, 2):
        fake.add(f"{job}.head", job_state="R", stime=NOW - 50)
    for job in (3, 4):
        fake.add(f"{job}.head", Account_Name="biology" if job == 4 else "physics")
    fake.add("5[].head", array="True", array_state_count="Queued:3 Running:0 Exiting:0 Expired:0 ")
    fake.add("6.head", job_state="H", Hold_Types="u", etime=None)

    return PreparedQueue(
        system=fake.adapter(),
        waiting=(3, 4, 5),
        held=6,
        start=lambda job: fake.run_job(f"{job}.head"),
        start_untold=lambda job: fake.change(f"{job}.head", job_state="R", stime=None),
        end=lambda job: fake.end_job(f"{job}.head"),
        another=fake.adapter,
    )


class TestPbsByLibrary(BatchSystemContract):
    @pytest.fixture
    def queue(self, tmp_path: Path, library: Path) -> PreparedQueue:
        return prepared(FakePbs(tmp_path, library))


class TestPbsByQalter(BatchSystemContract):
    @pytest.fixture
    def queue(self, tmp_path: Path) -> PreparedQueue:
        return prepared(FakePbs(tmp_path))
