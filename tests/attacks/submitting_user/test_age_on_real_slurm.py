"""The same attacks on a real Slurm that enforces limits: what it counts, what it says of why."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.hook.rails.guard_rails import StarvationBound
from slurm_rl_plugin.hook.rails.reserve import ReserveSettings, starving_jobs
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.drawn_order import adapter_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = [pytest.mark.real, pytest.mark.promise]

PLAN = ClusterPlan(
    nodes=1, accounts=ACCOUNTS, options={"AccountingStorageEnforce": "associations,limits,qos"}
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivateSlurm]:
    skip_without_daemons()
    with running_slurm(PLAN) as slurm:
        # all processors busy, so that jobs wait for them
        busy = slurm.submit(user="alice", account="physics", processors=4, seconds=300)
        slurm.wait_state(busy, "RUNNING")
        yield slurm


def accrued(snapshot: QueueSnapshot, job_id: int) -> float:
    return float(snapshot.accrued_wait[snapshot.pending.jobs.job_id == job_id][0])


def test_a_hold_and_its_release_begin_the_age_anew(cluster: PrivateSlurm) -> None:
    system = adapter_of(cluster)
    job = cluster.submit(user="alice", account="physics")
    cluster.wait_until(lambda: accrued(system.snapshot(), job) >= 4.0, 20, "some age")
    cluster.run("scontrol", "hold", str(job), user="alice")
    assert accrued(system.snapshot(), job) == 0.0
    cluster.run("scontrol", "release", str(job), user="alice")
    cluster.wait_eligible((job,))
    assert accrued(system.snapshot(), job) < 4.0
    cluster.run("scancel", str(job))


def test_a_job_at_the_limit_of_its_own_account_lifts_nothing(cluster: PrivateSlurm) -> None:
    system = adapter_of(cluster)
    cluster.run("sacctmgr", "-i", "modify", "account", "biology", "set", "GrpTRES=cpu=1")
    honest = cluster.submit(user="alice", account="physics", processors=2)
    own = cluster.submit(user="bob", account="biology", processors=2)
    words = ("squeue", "-h", "-j", str(own), "-o", "%r")
    cluster.wait_until(
        lambda: cluster.run(*words).stdout.startswith("AssocGrpCpu"), 60, "the limit as reason"
    )
    cluster.wait_until(lambda: accrued(system.snapshot(), honest) > 1.0, 20, "some age")
    snapshot = system.snapshot()
    ids = snapshot.pending.jobs.job_id
    assert accrued(snapshot, own) > 0.0  # Slurm goes on counting
    assert ids[starving_jobs(snapshot, ReserveSettings(most=1, lift_after=0.5))].tolist() == [
        honest
    ]
    decision = Decision(scores=(ids == own).astype(np.float64))
    scores = StarvationBound(bound=0.5).check(decision, snapshot).scores
    assert scores.tolist() == decision.scores.tolist()  # one account's age lifts none of another
    cluster.run("scancel", str(honest), str(own))
