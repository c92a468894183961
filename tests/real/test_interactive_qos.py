"""A site that has an interactive QOS with a priority bonus already keeps its jobs first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.real.conftest import private_slurm
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_first_light import (
    FIFO_PLAN,
)

pytestmark = pytest.mark.real

#: The bonus is more than any age can make up for.
PLAN = replace(FIFO_PLAN, options={**FIFO_PLAN.options, "PriorityWeightQOS": "100000"})


qos_slurm = private_slurm(PLAN, lambda slurm: slurm.add_qos("interactive", "priority=1000"))


@pytest.mark.parametrize("site_points", [True, False], ids=["points count", "turned off"])
def test_a_bonus_orders_one_users_jobs_as_slurm_alone_does(
    qos_slurm: PrivateSlurm, tmp_path: Path, site_points: bool
) -> None:
    qos_slurm.set_partition("down")
    qos = {
        qos_slurm.submit(f"--qos={name}", user="alice"): name
        for name in ("normal", "interactive") * 4
    }
    try:
        qos_slurm.wait_eligible(tuple(qos))
        alone = qos_slurm.by_priority()
        assert [qos[job] for job in alone] == ["interactive"] * 4 + ["normal"] * 4
        policy = DrawnOrder(seed=1)
        cycle = cycle_of(adapter_of(qos_slurm), policy, tmp_path, site_points=site_points)
        for policy.sign in (1, -1):
            assert cycle.run().failure is None
        assert cycle.run().writes == 0
        ours, scored = qos_slurm.by_priority(), sorted(qos, key=lambda job: -policy.score(job))
        assert [qos[job] for job in scored] != [qos[job] for job in alone]
        if site_points:
            scored.sort(key=lambda job: qos[job] != "interactive")
        assert ours == scored
    finally:
        qos_slurm.run("scancel", "-u", "alice")
