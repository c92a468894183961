"""The default bound on our order, and the fair share of a real slurmctld."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real.daemon_under_test import write_configuration
from tests.real.private_cluster import PrivateSlurm

pytestmark = [pytest.mark.real, pytest.mark.promise]


def fair_share(cluster: PrivateSlurm, folder: Path) -> tuple[str, str]:
    checks = json.loads(cluster.slurm_rl("check", "--json", folder=folder).stdout)["checks"]
    (found,) = [each for each in checks if each["name"] == "fair share"]
    return found["result"], found["what"]


def test_by_default_no_job_gains_more_than_three_days_of_waiting(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    """A thousand points of age a day: fair share, with ten thousand, goes on deciding."""
    jobs = tuple(
        closed_slurm.submit(user=user, account=account, minutes=minutes)
        for user, account in (("alice", "physics"), ("bob", "biology"))
        for minutes in (9, 5, 1)
    )
    closed_slurm.wait_eligible(jobs)
    path = write_configuration(tmp_path, "sjf", mode="active", cycle=1)
    path.write_text(path.read_text().replace("influence_hours = 0\n", ""))
    assert fair_share(closed_slurm, tmp_path) == (
        "pass",
        "accounts' shares count: the first place adds 3000 points, next to "
        "PriorityWeightFairshare = 10000",
    )
    assert closed_slurm.slurm_rl("run", "--once", folder=tmp_path).returncode == 0
    factors = closed_slurm.site_factors()
    assert set(factors) == set(jobs)
    assert max(factors.values()) == 3000
    assert min(factors.values()) > 0


def test_check_warns_where_the_order_overrides_fair_share(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    write_configuration(tmp_path, "sjf", mode="shadow", cycle=1)
    result, what = fair_share(closed_slurm, tmp_path)
    assert result == "warn"
    assert "influence_hours = 0 overrides PriorityWeightFairshare = 10000" in what
