"""Each command of an operator on a real Slurm, compared with Slurm's own output."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real.daemon_under_test import started_hook, write_configuration
from tests.real.private_cluster import PrivateSlurm

pytestmark = [pytest.mark.real, pytest.mark.promise]

TOP = Path(__file__).parents[2]
PLAIN_JOBS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Runs `slurm-rl` on a cluster with the configuration of one folder."""

    cluster: PrivateSlurm
    folder: Path

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command; shown where a test fails or `-s` is given."""
        done = self.cluster.slurm_rl(*words, folder=self.folder)
        print(f"$ slurm-rl {' '.join(words)}\n{done.stdout}{done.stderr}-> {done.returncode}")  # noqa: T201
        return done

    def reads(self, *words: str, status: int = 0) -> dict[str, Any]:
        """The JSON document of a verb."""
        done = self.types(*words, "--json")
        assert done.returncode == status, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def queue(self) -> dict[int, dict[str, Any]]:
        return {job["jobid"]: job for job in self.reads("queue")["jobs"]}

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Runs the daemon from its first cycle on; it is stopped as systemd does."""
        with started_hook(self.cluster.env, self.folder) as hook:
            yield
            assert hook.stop() == 0


@pytest.fixture
def operator(closed_slurm: PrivateSlurm, tmp_path: Path, free_port: int) -> Operator:
    (tmp_path / "slurm-rl.toml").write_text(f"""
[hook]
mode = "active"
influence_hours = 0
cycle = 1
disable_file = "{tmp_path}/DISABLE"
state_file = "{tmp_path}/state.json"
audit_file = "{tmp_path}/audit.jsonl"

[policy]
model = "{TOP}/policy_models/default.onnx"
inference_deadline = 10

[guard_rails]
exempt_accounts = ["biology"]

[metrics]
port = {free_port}
""")
    return Operator(cluster=closed_slurm, folder=tmp_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Numbers of the jobs that are not plain."""

    array: int
    held: int
    dependent: int
    by_hand: int
    exempt: int


def submit_queue(cluster: PrivateSlurm) -> Jobs:
    """A job of every kind and many plain ones of two partitions."""

    def submit(*options: str, minutes: float = 30, exempt: bool = False) -> int:
        return cluster.submit(*options, user="bob" if exempt else "alice", minutes=minutes)

    for number in range(PLAIN_JOBS):
        partition = "short" if number % 4 == 0 else "batch"
        submit(f"--partition={partition}", f"--nice={7 * number}", minutes=4 + 5 * (number % 7))
    first = submit(minutes=2)
    jobs = Jobs(
        array=submit("--array=1-6", minutes=1),
        held=submit("--hold"),
        dependent=submit(f"--dependency=afterok:{first}"),
        by_hand=submit(),
        exempt=submit(exempt=True),
    )
    cluster.run("scontrol", "update", f"jobid={jobs.by_hand}", "priority=4000000")
    cluster.wait_until(lambda: len(sprio(cluster)) == PLAIN_JOBS + 4, 10, "all jobs in sprio")
    return jobs


def sprio(cluster: PrivateSlurm) -> dict[int, tuple[int, int]]:
    """Job -> total priority and our term, as `sprio` shows them."""
    lines = cluster.run("sprio", "-h", "-o", "%i %Y %S").stdout.splitlines()
    cells = (line.split() for line in lines)
    return {int(job): (int(total), int(float(site))) for job, total, site in cells}


def ranked(queue: dict[int, dict[str, Any]], rank: str) -> list[int]:
    return sorted((job for job in queue if queue[job][rank]), key=lambda job: queue[job][rank])


def test_every_verb_of_the_operator(operator: Operator) -> None:
    cluster = operator.cluster
    jobs = submit_queue(cluster)
    site_order = cluster.by_priority()

    before = operator.queue()
    assert ranked(before, "siterank") == ranked(before, "nowrank") == site_order
    assert {job: row["total"] for job, row in before.items() if row["rank"]} == {
        job: total for job, (total, _) in sprio(cluster).items()
    }
    assert before[jobs.by_hand]["rank"] == 1
    assert {job: row["untouched"] for job, row in before.items() if row["untouched"]} == {
        jobs.held: "held",
        jobs.dependent: "not_eligible",
        jobs.by_hand: "admin_set",
        jobs.exempt: "exempt_account",
    }

    assert operator.types("run", "--once", "--shadow").returncode == 0
    assert {site for _, site in sprio(cluster).values()} == {0}
    told = operator.reads("audit", "--event", "would_write")["lines"]
    orderable = [job for job in ranked(before, "rank") if not before[job]["untouched"]]
    (cycle,) = operator.reads("audit", "--event", "cycle")["lines"]
    assert cycle["order"] == orderable
    assert {line["job"] for line in told} <= set(orderable)

    assert operator.types("run", "--once").returncode == 0
    after = operator.queue()
    assert cluster.by_priority() == ranked(after, "nowrank") == ranked(after, "rank")
    assert cluster.by_priority() == ranked(before, "rank")
    assert ranked(after, "siterank") == site_order
    assert {job: row["factor"] for job, row in after.items() if row["rank"]} == {
        job: site for job, (_, site) in sprio(cluster).items()
    }

    why = operator.reads("explain", f"{jobs.array}_3")
    assert why["job"] == jobs.array
    assert why["ranks"]["decided"] == cluster.by_priority().index(jobs.array) + 1
    assert why["ranks"]["site"] == site_order.index(jobs.array) + 1
    assert why["features"]
    assert why["terms"]["batch"]["total"] == sprio(cluster)[jobs.array][0]
    assert why["audit"][-1]["event"] == "write"
    assert "held" in operator.types("explain", str(jobs.held)).stdout
    unread = operator.reads("explain", str(jobs.dependent))["not_read"]
    assert [each for each in unread if "priority" in each] == [
        "its factor and the terms of its priority: sprio lists no job that is held or not eligible."
    ]

    left = operator.types("status")
    assert (left.returncode, "slurm-rl release" in left.stdout) == (1, True)
    assert operator.types("release").returncode == 0
    assert {site for _, site in sprio(cluster).values()} == {0}
    assert cluster.by_priority() == site_order


def test_status_of_a_daemon_that_runs(operator: Operator) -> None:
    cluster = operator.cluster
    for minutes in (9, 5, 1):
        cluster.submit(user="alice", minutes=minutes)
    cluster.wait_until(lambda: len(sprio(cluster)) == 3, 10, "all jobs in sprio")
    checks = operator.reads("check")["checks"]
    assert {each["result"] for each in checks} == {"pass"}, checks
    plain = cluster.by_priority()
    with operator.daemon():
        told = operator.reads("status")
        assert told["daemon"] == "runs"
        assert told["metrics"]["mode"] == "active"
        assert told["metrics"]["model"]["sha256"] == told["policy"]["sha256"]
        assert told["slurm"]["with_factor"] > 0
        assert told["problems"] == []
        # the command reads the daemon's memory, not accounting, and has the same order
        assert cluster.by_priority() == ranked(operator.queue(), "rank")
        assert operator.types("pause", "--for", "1h", "--reason", "a try").returncode == 0
        assert cluster.by_priority() == plain
        assert {site for _, site in sprio(cluster).values()} == {0}
        assert "a try" in operator.types("status").stdout
        assert operator.types("enable").returncode == 0
        ordered = lambda: any(site for _, site in sprio(cluster).values())  # noqa: E731
        cluster.wait_until(ordered, 20, "factors after the pause")
    assert operator.reads("status", status=1)["daemon"] == "absent"


def test_by_default_no_job_gains_more_than_three_days_of_waiting(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    """A thousand points of age a day: fair share, with ten thousand, goes on deciding."""
    cluster = closed_slurm
    jobs = {
        cluster.submit(user=user, minutes=minutes)
        for user in ("alice", "bob")
        for minutes in (9, 5, 1)
    }
    cluster.wait_eligible(jobs)
    write_configuration(tmp_path, "sjf", mode="active", cycle=1, influence=None)
    operator = Operator(cluster=cluster, folder=tmp_path)
    (found,) = (each for each in operator.reads("check")["checks"] if each["name"] == "fair share")
    assert (found["result"], found["what"]) == (
        "pass",
        "accounts' shares count: the first place adds 3000 points, next to "
        "PriorityWeightFairshare = 10000",
    )
    assert operator.types("run", "--once").returncode == 0
    factors = cluster.site_factors()
    assert set(factors) == jobs
    assert max(factors.values()) == 3000
    assert min(factors.values()) > 0
