"""The short version of `make faults`: some of its faults, each on a cluster of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.faults.every_fault import fault_named
from tests.bench.faults.injection import inject
from tests.real.conftest import skip_without_daemons
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

#: Seconds for a cycle itself on a busy machine; without the fixed pause it would take 300.
BUSY = 15.0


@pytest.mark.parametrize("name", ["slurmctld stopped amid the writes", "disk full"])
def test_a_fault_harms_no_job_shows_and_leaves_nothing(
    release: SlurmRelease | None, tmp_path: Path, name: str
) -> None:
    skip_without_daemons(release)
    found = inject(fault_named(name), tmp_path, seed=1, slack=BUSY, release=release)
    assert found.complaints == []
    assert found.jobs > 40
