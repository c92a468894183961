"""Jobs that an administrator or Slurm moves keep no factor of the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.batch_system_contract import set_factor
from tests.real.daemon_under_test import running_hook
from tests.real.drawn_order import adapter_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_slurm_adapters_real import submit

pytestmark = [pytest.mark.real, pytest.mark.promise]


def site_of(slurm: PrivateSlurm, job: int) -> int:
    """SITE column of sprio."""
    slurm.wait_eligible((job,))
    return int(float(slurm.run("sprio", "-h", "-j", str(job), "-o", "%S").stdout))


@pytest.mark.parametrize("by_hand", [1, 3])
def test_a_low_priority_set_by_hand_is_seen_after_two_writes(
    closed_slurm: PrivateSlurm, by_hand: int
) -> None:
    jobs = (submit(closed_slurm), submit(closed_slurm))
    closed_slurm.wait_eligible(jobs)
    closed_slurm.scontrol("update", f"jobid={jobs[0]}", f"priority={by_hand}")
    system = adapter_of(closed_slurm)
    for _ in range(2):  # one may have been lost
        system.snapshot()
        system.apply([set_factor(job, 5000) for job in jobs])
    pending = system.snapshot().pending
    admin_set = dict(zip(pending.jobs.job_id.tolist(), pending.admin_set.tolist(), strict=True))
    assert admin_set == {jobs[0]: True, jobs[1]: False}


def test_a_factor_taken_back_while_the_job_runs_is_not_there_after_a_requeue(
    closed_slurm: PrivateSlurm,
) -> None:
    slurm = closed_slurm
    job = submit(slurm)
    slurm.wait_eligible((job,))
    system = adapter_of(slurm)
    system.apply([set_factor(job, 3000)])
    assert site_of(slurm, job) == 3000
    slurm.set_partition("up")
    slurm.wait_state(job, "RUNNING")
    assert system.release(system.snapshot().running.jobs.job_id).applied == 1
    slurm.set_partition("down")
    slurm.scontrol("requeue", str(job))
    slurm.wait_state(job, "PENDING", 60)
    slurm.scontrol("update", f"jobid={job}", "starttime=now")  # Slurm delays requeued jobs
    assert site_of(slurm, job) == 0


def test_release_after_a_kill_also_frees_jobs_that_run(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    slurm = closed_slurm
    # nine processors wanted of eight: one job waits for the others
    jobs = [submit(slurm, "--ntasks=3") for _ in range(3)]
    slurm.wait_eligible(tuple(jobs))
    with running_hook(slurm, tmp_path, "min-run-wait", cycle=0.5) as hook:
        written = [job for job in jobs if site_of(slurm, job) != 0]
        assert written
        slurm.set_partition("up")
        slurm.wait_state(written[0], "RUNNING")
        hook.wait_for("running=", 5)
        hook.process.kill()
        hook.process.wait(timeout=10)
    done = slurm.slurm_rl("release", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    slurm.set_partition("down")
    for job in jobs:
        slurm.run("scontrol", "requeue", str(job), check=False)
    for job in jobs:
        slurm.wait_state(job, "PENDING", 60)
        slurm.scontrol("update", f"jobid={job}", "starttime=now")
        assert site_of(slurm, job) == 0, done.stdout
