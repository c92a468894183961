"""The broker that learns, between two real clusters without any offer service."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.load import Outcome, mean, outcomes
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

NORTH, SOUTH = NAMES = ("north", "south")
#: Jobs that are routed; more make a measurement.
JOBS = int(os.environ.get("SLURM_RL_TEST_ROUTED_JOBS", "48"))
#: Every sixth job requests more time than the south allows.
LONG_EVERY, LONG, SHORT, MOST_IN_THE_SOUTH = 6, 30, 1, 10
_PARTITION = "PartitionName=batch Nodes=ALL Default=YES MaxTime={} DefaultTime=5 State=UP"

Route = Callable[..., tuple[dict[str, Any], str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A job that was submitted: where, what for, and what sites said that refused it."""

    site: str
    job_id: int
    minutes: int
    refusals: int


@pytest.fixture(scope="module")
def clusters(release: SlurmRelease | None) -> Iterator[dict[str, PrivateSlurm]]:
    """Two sites of 8 processors; the south refuses jobs that ask for more than its limit."""
    skip_without_daemons(release)
    found: dict[str, PrivateSlurm] = {}
    with ExitStack() as stack:
        for name, limit in zip(NAMES, ("60", MOST_IN_THE_SOUTH), strict=True):
            plan = ClusterPlan(
                accounts=ACCOUNTS,
                partitions=[_PARTITION.format(limit)],
                options={"ClusterName": name, "EnforcePartLimits": "ALL"},
            )
            found[name] = stack.enter_context(running_slurm(plan, release, found.get(NORTH)))
        yield found


@pytest.fixture
def route(
    clusters: dict[str, PrivateSlurm],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Route]:
    """`slurm-rl route --broker learning` of a user who has learned nothing, and what it printed."""
    homes = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    for name, value in {**clusters[NORTH].env, **homes}.items():
        monkeypatch.setenv(name, value)
    sites = tmp_path / "slurm-rl" / "sites.toml"
    sites.parent.mkdir()
    sites.write_text("".join(f'[[site]]\nname = "{name}"\n' for name in NAMES))

    def run(*words: str) -> tuple[dict[str, Any], str]:
        capsys.readouterr()
        status = main(["route", "--json", "--broker", "learning", *words])
        said = capsys.readouterr()
        assert status == 0, said.err + said.out
        return json.loads(said.out), said.err

    yield run
    for cluster in clusters.values():
        cluster.cancel("root", "alice")


def sbatch(minutes: int, seconds: float, *more: str) -> list[str]:
    return [
        *("--", "sbatch", "--ntasks=1", f"--time={minutes}", "--chdir=/", "--output=/dev/null"),
        *(*more, f"--wrap=sleep {seconds:g}"),
    ]


def occupy(cluster: PrivateSlurm) -> None:
    """Another user takes all processors but one."""
    job = cluster.submit(processors=7, seconds=3000, minutes=9, user="alice", account="physics")
    cluster.wait_state(job, "RUNNING", 20)


def routed_load(
    clusters: dict[str, PrivateSlurm], submit: Callable[[list[str]], tuple[str, int, int]]
) -> list[Routed]:
    """JOBS jobs, the north occupied during the first half of them, the south during the other.

    Args:
        clusters: by name.
        submit: a command; its site and number, and how many sites refused it.
    """
    found = []
    for number in range(JOBS):
        if number in (0, JOBS // 2):
            busy = NAMES[number > 0]
            for cluster in clusters.values():
                cluster.run("scancel", "-u", "alice")
            occupy(clusters[busy])
        minutes = LONG if number % LONG_EVERY == 0 else SHORT
        site, job_id, refusals = submit(sbatch(minutes, 4.0))
        found.append(Routed(site=site, job_id=job_id, minutes=minutes, refusals=refusals))
        time.sleep(0.5)
    return found


def waits(clusters: dict[str, PrivateSlurm], jobs: list[Routed]) -> list[float]:
    """Seconds that each job waited, once all have run."""
    for cluster in clusters.values():
        cluster.run("scancel", "-u", "alice")
    found: dict[tuple[str, int], Outcome] = {}

    def all_known() -> bool:
        for name, cluster in clusters.items():
            here = [job.job_id for job in jobs if job.site == name]
            known = outcomes(cluster, here) if here else {}
            found.update({(name, number): each for number, each in known.items()})
        return len(found) == len(jobs)

    clusters[NORTH].wait_until(all_known, 120, "all jobs in accounting")
    ran = [found[job.site, job.job_id] for job in jobs]
    return [float(each.start - each.submit) for each in ran]


def told(jobs: list[Routed], waited: list[float]) -> str:
    """Part of the short jobs sent north and mean wait, by eighths of the load."""
    lines = []
    size = len(jobs) // 8
    for first in range(0, 8 * size, size):
        part = slice(first, first + size)
        short = [job.site == NORTH for job in jobs[part] if job.minutes == SHORT]
        lines.append(
            f"jobs {first + 1}-{first + size}: short ones north {mean([*map(float, short)]):.2f}, "
            f"mean wait {mean(waited[part]):.1f} s"
        )
    refusals = [number + 1 for number, job in enumerate(jobs) if job.refusals]
    long = [job for job in jobs if job.minutes == LONG]
    lines.append(
        f"all {len(jobs)}: mean wait {mean(waited):.1f} s, longest {max(waited):.0f} s; "
        f"{len(long)} long jobs, refused at number {refusals}"
    )
    return "\n".join(lines)


def test_jobs_leave_the_busy_site_and_refusals_are_not_repeated(
    clusters: dict[str, PrivateSlurm], route: Route
) -> None:
    def submit(command: list[str]) -> tuple[str, int, int]:
        document, said = route("--submit", *command)
        sent = document["submitted"]
        return sent["site"], sent["job_id"], said.count("did not accept the job")

    jobs = routed_load(clusters, submit)
    waited = waits(clusters, jobs)
    print(told(jobs, waited))  # noqa: T201 - the measurement
    assert {job.site for job in jobs if job.minutes == LONG} == {NORTH}
    assert 1 <= sum(job.refusals for job in jobs) <= 2
    for half, free in ((jobs[: JOBS // 2], SOUTH), (jobs[JOBS // 2 :], NORTH)):
        short = [job.site == free for job in half[len(half) // 2 :] if job.minutes == SHORT]
        assert mean([*map(float, short)]) > 0.8, told(jobs, waited)


def listed(cluster: PrivateSlurm) -> set[int]:
    """Jobs that accounting lists by time; a new one is known by its number some seconds before."""
    return {*map(int, cluster.run("sacct", "-a", "-X", "-n", "-o", "JobIDRaw").stdout.split())}


def test_what_a_site_fails_is_bad_news_and_what_the_user_fails_is_not(
    clusters: dict[str, PrivateSlurm], route: Route
) -> None:
    """A job whose node dies, one that cannot be launched, and one that ends with an error."""
    south, north = clusters[SOUTH], clusters[NORTH]

    def direct(cluster: PrivateSlurm, *words: str) -> int:
        return int(cluster.run(*("sbatch", "--parsable", *words)).stdout.partition(";")[0])

    lost = direct(south, *sbatch(SHORT, 30, "--no-requeue", "--nodelist=n2")[2:])
    south.wait_state(lost, "RUNNING", 20)
    south.run("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    unlaunched = direct(south, *sbatch(SHORT, 0, "--output=/nowhere/at/all")[2:])
    wrong = direct(north, "--ntasks=1", "--chdir=/", "--output=/dev/null", "--wrap=exit 1")
    for cluster, jobs in ((south, {lost, unlaunched}), (north, {wrong})):
        cluster.wait_until(
            lambda cluster=cluster, jobs=jobs: (
                jobs <= listed(cluster) & {*outcomes(cluster, [*jobs])}
            ),
            60,
            "jobs in accounting",
        )
    # where slurmd has registered again, it is up by itself
    south.run("scontrol", "update", "nodename=n2", "state=resume", check=False)
    states = {each.state for each in outcomes(south, [lost, unlaunched]).values()}
    assert states == {"NODE_FAIL", "FAILED"}
    document, said = route(*sbatch(SHORT, 1))
    assert said == ""
    ranking = document["ranking"]
    assert [each["site"] for each in ranking] == [NORTH, SOUTH]
    assert "; the site failed " in ranking[1]["reason"]
    assert "failed" not in ranking[0]["reason"]
