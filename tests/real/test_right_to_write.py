"""The right to write: a daemon without it says so once and waits; one job's denial is no harm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.users import AS_HIM, NAME, STAFF, give_him

pytestmark = [pytest.mark.real, pytest.mark.promise]

SENTENCE = "sacctmgr modify user NAME set AdminLevel=Operator"
#: A site's own rule, which refuses to change one kind of job in the words of a missing right.
RULE = """
function slurm_job_submit(description, partitions, user)
    return slurm.SUCCESS
end
function slurm_job_modify(description, job, partitions, user)
    if job.name == "guarded" then
        return slurm.ESLURM_ACCESS_DENIED
    end
    return slurm.SUCCESS
end
return slurm
"""
PLAN = ClusterPlan(
    nodes=1,
    accounts={**ACCOUNTS, **STAFF},
    partitions=CLOSED_PARTITIONS,
    options={"JobSubmitPlugins": "lua"},
    files={"job_submit.lua": RULE},
)
PLUGIN = "slurm*/job_submit_lua.so"


@pytest.fixture
def guarded(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """A cluster with that rule, in which nothing starts."""
    skip_without_daemons(release)
    if release is not None:
        pytest.skip("only root can enter another release's folder")
    if not list(Path("/usr/lib").glob(f"*/{PLUGIN}")) + list(Path("/usr/lib64").glob(PLUGIN)):
        pytest.skip("needs Slurm's job_submit/lua: install slurm-wlm-basic-plugins")
    with running_slurm(PLAN) as cluster:
        yield cluster


def submit(cluster: PrivateSlurm, *limits: float, name: str = "trial") -> list[int]:
    jobs = [cluster.submit(user="alice", minutes=each, name=name) for each in limits]
    cluster.wait_eligible(tuple(jobs))
    return jobs


def test_without_the_right_it_is_said_nothing_is_written_and_it_resumes_once_given(
    guarded: PrivateSlurm, tmp_path: Path
) -> None:
    folder = give_him(tmp_path)
    jobs = submit(guarded, 30, 20, 10)
    write_configuration(folder, "sjf", mode="active", cycle=0.5)
    denied = guarded.slurm_rl("check", folder=folder, user=NAME)
    assert denied.returncode == 1
    (line,) = [each for each in denied.stdout.splitlines() if SENTENCE in each]
    assert re.search(r"fail\s+right to write", line)
    with running_hook(guarded, folder, "sjf", cycle=0.5, before=AS_HIM) as hook:
        hook.wait_for("failure=none", 30)  # the cycle after
        log = hook.log
        assert log.count(SENTENCE) == 1
        assert "mode=active" not in log.partition(SENTENCE)[2]
        assert "mode=shadow" in log.rpartition("cycle=done")[2]
        assert not any(guarded.site_factors().values())
        guarded.make_operator(NAME)
        hook.wait_for("mode=active policy=sjf pending=3 running=0 writes=2", 60)
        assert any(guarded.site_factors().values())
        assert hook.log.count(SENTENCE) == 1
    assert guarded.site_factors() == dict.fromkeys(jobs, 0)
    allowed = guarded.slurm_rl("check", folder=folder, user=NAME)
    assert re.search(r"pass\s+right to write", allowed.stdout), allowed.stdout
    assert SENTENCE not in allowed.stdout


def test_a_job_that_the_site_guards_holds_up_no_other(
    guarded: PrivateSlurm, tmp_path: Path
) -> None:
    jobs = submit(guarded, 30, 20)
    (denied,) = submit(guarded, 5, name="guarded")
    cycle = cycle_of(adapter_of(guarded), DrawnOrder(seed=1), tmp_path)
    cycle.policy.scores.update({denied: 9.0})  # type: ignore[attr-defined]
    reports = [cycle.run() for _ in range(3)]
    assert [report.failure for report in reports] == [None] * 3
    assert [report.mode for report in reports] == ["active"] * 3
    assert [report.suppressed["rejected"] for report in reports] == [1] * 3
    assert [report.writes > 0 for report in reports] == [True, False, False]  # alone, twice
    more = submit(guarded, 10)
    assert cycle.run().writes > 0
    written = guarded.site_factors()
    assert written[denied] == 0
    assert any(written[job] for job in (*jobs, *more))
    cycle.release()
    assert set(guarded.site_factors().values()) == {0}
