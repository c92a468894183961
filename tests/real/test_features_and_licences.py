"""Whole nodes, features and licences on a real Slurm: read, and shown by `explain`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from tests.real.conftest import private_slurm
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.drawn_order import settings_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_kinds_of_nodes import PLAN
from tests.real.test_operator_commands import Operator
from tests.real.test_resources_seen import close, states, submit

pytestmark = pytest.mark.real


#: Two nodes with a feature, one of much memory, one of two GPUs; two licences.
cluster = private_slurm(replace(PLAN, options={**PLAN.options, "Licenses": "matlab:2"}))


def test_what_jobs_wait_for_is_told(cluster: PrivateSlurm, tmp_path: Path) -> None:
    whole = submit(cluster, "--exclusive", "--constraint=old", "--mem=1000")
    licensed = submit(cluster, "--licenses=matlab:2", "--constraint=old", "--mem=2000")
    for job in (whole, licensed):
        cluster.wait_until(lambda job=job: "R" in states(cluster, job), 20, "a running job")  # type: ignore[misc]
    third = submit(cluster, "--licenses=matlab:1")
    alone = submit(cluster, "--exclusive", "--constraint=old|old")
    plain = submit(cluster, "--hold", "--constraint=(old|old)&old")

    system = SlurmCommands(settings_of(cluster, timeout=10.0))
    system.facts()  # which release it is
    snapshot = system.snapshot()
    jobs, requests, now = snapshot.pending.jobs, snapshot.pending.jobs.requests, snapshot.resources
    assert requests is not None
    assert now is not None
    place = {job: row for row, job in enumerate(jobs.job_id.tolist())}
    exclusive = {job: bool(requests.exclusive[row]) for job, row in place.items()}
    assert exclusive == {third: False, alone: True, plain: False}
    told = {job: requests.constraints[requests.constraint[row]] for job, row in place.items()}
    assert told == {third: "", alone: "old|old", plain: "(old|old)&old"}
    assert requests.of("license/matlab")[place[third]] == 1.0
    # the first job has its node whole, whatever it asked for, of another the second has 2000 MB
    assert now.free.tolist() == [16.0 - 4 - 1, 88000.0 - 8000 - 2000, 2.0]

    write_configuration(tmp_path, "sjf", mode="shadow", cycle=1)
    operator = Operator(cluster=cluster, folder=tmp_path)
    out = operator.types("explain", str(third)).stdout
    assert "It waits for 1 licence of matlab; 0 are free." in out
    out = operator.types("explain", str(alone)).stdout
    assert "with old|old, for itself." in out
    assert "It waits for a whole node with old|old; of 2 0 are idle." in out
    cluster.run("scancel", *(str(job) for job in (whole, licensed, third, alone, plain)))
    cluster.wait_empty(30)


def test_a_request_made_larger_after_it_was_ranked_is_seen(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    """Memory, then GPUs; jobs without an update change nothing, though Slurm tries them."""
    close(cluster)
    job = submit(cluster, "--mem=1000", "--gres=gpu:1", minutes=1)
    others = [submit(cluster, "--partition=all,gpu", minutes=3), submit(cluster, "--exclusive")]
    with running_hook(cluster, tmp_path, "sjf", cycle=0.5) as hook:
        for number, change in enumerate(("minmemorynode=6000", "gres=gpu:2"), start=1):
            cluster.run("scontrol", "update", f"jobid={job}", change, user="alice")
            cluster.wait_until(
                lambda number=number: len(changes(hook.audit)) == number,  # type: ignore[misc]
                20,
                f"line of {change}",
            )
        seen = hook.log.count("cycle=done")
        cluster.wait_until(lambda: hook.log.count("cycle=done") > seen + 3, 20, "further cycles")
        assert changes(hook.audit) == [
            (job, "memory", 1000.0, 6000.0),
            (job, "gpus", 1.0, 2.0),
        ]
        assert hook.stop() == 0
    cluster.run("scancel", *(str(each) for each in (job, *others)))
    close(cluster, "up")


def changes(audit: list[dict[str, object]]) -> list[tuple[object, ...]]:
    names = ("job", "reason", "old", "new")
    return [tuple(line[name] for name in names) for line in audit if line["event"] == "request"]
