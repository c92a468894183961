"""A site that has an interactive QOS with a priority bonus already: what we add there.

Half of the users of short jobs name the QOS, the other half forgets to, as people do. Jobs of the
QOS are exempt: the site has put them first already, and our order would not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.real.conftest import private_slurm
from tests.real.daemon_under_test import running_hook
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.load import Outcome, PlannedJob, mean, mixed_load, submit_all
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_first_light import (
    BATCH,
    FIFO_PLAN,
    INTERACTIVE,
    MODEL,
    SEED,
    run_all,
)

pytestmark = pytest.mark.real

#: The bonus is more than any age can make up for.
PLAN = replace(FIFO_PLAN, options={**FIFO_PLAN.options, "PriorityWeightQOS": "100000"})
Waits = dict[str, float]


qos_slurm = private_slurm(PLAN, lambda slurm: slurm.add_qos("interactive", "priority=1000"))


def kind(job: PlannedJob) -> str:
    """Of the short jobs those that run for two seconds at most name the QOS."""
    if not job.interactive:
        return "batch"
    return "marked" if job.seconds <= 2 else "forgotten"


def submit(slurm: PrivateSlurm) -> dict[int, PlannedJob]:
    slurm.set_partition("down")
    marked = ("--qos=interactive",)
    jobs = mixed_load(INTERACTIVE, BATCH, SEED)
    return submit_all(slurm, jobs, lambda job: marked if kind(job) == "marked" else ())


def waits(opened: float, done: dict[int, Outcome], jobs: dict[int, PlannedJob]) -> Waits:
    """Mean seconds from the opening of the partition to the start, by kind of job."""
    by_kind: dict[str, list[float]] = {}
    for job, plan in jobs.items():
        by_kind.setdefault(kind(plan), []).append(max(done[job].start - opened, 0.0))
    return {name: mean(each) for name, each in by_kind.items()}


def test_forgotten_jobs_start_soon_and_marked_ones_no_later(
    qos_slurm: PrivateSlurm, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    jobs = submit(qos_slurm)
    opened = datetime.now(tz=UTC).timestamp()
    plain = waits(opened, run_all(qos_slurm, jobs), jobs)

    jobs = submit(qos_slurm)
    exempt = 'exempt_qos = ["interactive"]'
    with running_hook(qos_slurm, tmp_path, MODEL, rails=exempt) as hook:
        opened = datetime.now(tz=UTC).timestamp()
        done = run_all(qos_slurm, jobs)
        assert hook.metric("slurm_rl_fallback_active") == 0
    ours = waits(opened, done, jobs)

    record_property("waits", {"plain": plain, "hook": ours})
    for name, seconds in plain.items():
        print(f"{name}: QOS alone {seconds:.1f} s, with the hook {ours[name]:.1f} s")  # noqa: T201
    assert {each.state for each in done.values()} == {"COMPLETED"}
    assert ours["forgotten"] < plain["forgotten"] * 2 / 3
    assert ours["marked"] < plain["marked"] + 3.0


@pytest.mark.parametrize("site_points", [True, False], ids=["points count", "turned off"])
def test_a_bonus_orders_one_users_jobs_as_slurm_alone_does(
    qos_slurm: PrivateSlurm, tmp_path: Path, site_points: bool
) -> None:
    qos_slurm.set_partition("down")
    qos = {
        qos_slurm.submit(f"--qos={name}", user="alice", account="physics"): name
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
