"""Jobs routed between two real clusters: to the faster start, past a dead site, under attack."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.serving.page_server import MOST_CONNECTIONS
from tests.functional.small_site import write_site_utility_model
from tests.real.conftest import skip_without_daemons
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.hostile_clients import HostileLoad
from tests.real.load import Outcome, outcomes
from tests.real.private_cluster import PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.two_sites import NAMES, TwoSites, two_sites
from tests.real.users import skip_unless_he_may_run_python

pytestmark = pytest.mark.real

#: Of [offer]: tests follow each other quickly, and no answer is old.
QUICK = "busy_share = 1\nkeep = 0\ntimeout = 5\nrequests_per_minute = 100000"
JOBS_A_SITE = 20
NORTH, SOUTH = NAMES
#: What each site promises its accounts: whatever was used in the other tests, most of all by
#: physics, physics is further below its share in the south and biology in the north.
SHARES = {
    NORTH: "[shares]\nphysics = 0.05\nbiology = 0.95\n",
    SOUTH: "[shares]\nphysics = 0.95\nbiology = 0.05\n",
}

Route = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def both(release: SlurmRelease | None) -> Iterator[TwoSites]:
    skip_without_daemons(release)
    skip_unless_he_may_run_python()
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the services run as an ordinary user
        model = write_site_utility_model(Path(folder) / "utility.onnx")
        model.chmod(0o644)
        lines = f'{QUICK}\nutility_model = "{model}"\n'
        with two_sites(release, {name: lines + SHARES[name] for name in NAMES}) as sites:
            yield sites


@pytest.fixture
def sites(both: TwoSites) -> Iterator[TwoSites]:
    """Both clusters empty."""
    yield both
    for cluster in both.clusters.values():
        empty(cluster)


@pytest.fixture
def route(
    sites: TwoSites, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Route:
    """`slurm-rl route --json` in this process, which saves a second each time."""
    for name, value in sites.environment().items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        status = main(["route", "--json", *words])
        said = capsys.readouterr()
        assert status == 0, said.err + said.out
        document: dict[str, Any] = json.loads(said.out)
        return document

    return run


def empty(cluster: PrivateSlurm) -> None:
    cluster.cancel("root", "alice", "bob")
    cluster.wait_empty(20)


def load(cluster: PrivateSlurm, processors: int = 8) -> int:
    """Fill processors, all of them, and let one small job wait behind; the number of this one."""
    full = cluster.submit(processors=processors, seconds=600, user="alice", account="physics")
    cluster.wait_state(full, "RUNNING", 20)
    return cluster.submit(minutes=1, seconds=1, name="probe")


def short_job(name: str) -> list[str]:
    return [
        *("--", "sbatch", "--ntasks=1", "--time=1", f"--job-name={name}", "--chdir=/"),
        *("--output=/dev/null", "--wrap=sleep 1"),
    ]


def ended(cluster: PrivateSlurm, jobs: list[int]) -> dict[int, Outcome]:
    """What became of the jobs, once accounting knows of all."""
    found: dict[int, Outcome] = {}

    def all_known() -> bool:
        found.update(outcomes(cluster, jobs))
        return set(found) == set(jobs)

    cluster.wait_until(all_known, 60, f"{len(jobs)} jobs in accounting")
    return found


def test_jobs_go_where_they_really_start_first(sites: TwoSites, route: Route) -> None:
    """A probe that waits on the loaded site shows the earliest start of any job there.

    The load is taken away when all routed jobs have run, so that the probe starts at last.
    """
    right = 0
    for loaded, free in ((NORTH, SOUTH), (SOUTH, NORTH)):
        probe = load(sites.clusters[loaded])
        answers = [
            route("--submit", *short_job(f"{loaded}-{number}")) for number in range(JOBS_A_SITE)
        ]
        sent = [answer["submitted"] for answer in answers]
        here = [job["job_id"] for job in sent if job["site"] == free]
        starts = ended(sites.clusters[free], here)
        empty_but_probe(sites.clusters[loaded], probe)
        begun = ended(sites.clusters[loaded], [probe])[probe].start
        right += sum(each.start < begun for each in starts.values())
        empty(sites.clusters[loaded])
    assert right >= 0.95 * 2 * JOBS_A_SITE, f"{right} of {2 * JOBS_A_SITE}"


def empty_but_probe(cluster: PrivateSlurm, probe: int) -> None:
    others = [
        job for job in cluster.run("squeue", "-h", "-o", "%A").stdout.split() if job != str(probe)
    ]
    cluster.run("scancel", *others)


def test_what_became_of_routed_jobs_is_learned_from(sites: TwoSites, route: Route) -> None:
    submitted = route("--submit", *short_job("learned"))["submitted"]
    file = sites.home / "slurm-rl" / "routed-jobs.json"
    waiting = [each["job_id"] for each in json.loads(file.read_text())["on_their_way"]]
    assert submitted["job_id"] in waiting
    outcome = ended(sites.clusters[submitted["site"]], [submitted["job_id"]])
    route("--broker", "learning", *short_job("next"))
    known = json.loads(file.read_text())
    assert submitted["job_id"] not in [each["job_id"] for each in known["on_their_way"]]
    last = known["ended"][-1]
    assert last["site"] == submitted["site"]
    assert last["request"]["name"] == "learned"
    assert (last["started"], last["ended"]) == (
        outcome[submitted["job_id"]].start,
        outcome[submitted["job_id"]].end,
    )


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["hung", "dead"])
def test_a_site_whose_slurmctld_is_gone_is_passed_by(
    sites: TwoSites, route: Route, number: signal.Signals
) -> None:
    """The other one is loaded, so that the dead site would be the better one."""
    load(sites.clusters[NORTH])
    assert route(*short_job("before"))["ranking"][0]["site"] == SOUTH
    sites.clusters[SOUTH].kill("slurmctld", number)
    try:
        for more in ([], ["--submit"]):
            began = time.monotonic()
            answer = route(
                *more,
                *short_job("after"),
            )
            # ten of [route] timeout, and sbatch or sacct on a busy machine
            assert time.monotonic() - began < 25
            assert [each["site"] for each in answer["ranking"]] == [NORTH]
            (skipped,) = answer["skipped"]
            assert (skipped["site"], "not answer" in skipped["why"]) == (SOUTH, True), skipped
        assert answer["submitted"]["site"] == NORTH
    finally:
        sites.clusters[SOUTH].restart("slurmctld")
    wait_for_offer(sites, route)


def wait_for_offer(sites: TwoSites, route: Route) -> None:
    """Until the service asks the batch system again."""
    sites.clusters[SOUTH].wait_until(
        lambda: len(route(*short_job("again"))["ranking"]) == 2, 60, "offers of both"
    )


def test_a_job_goes_where_its_account_is_short_of_its_share(sites: TwoSites, route: Route) -> None:
    """However long it waits there: the site is full, and the other one has free processors."""
    for cluster in sites.clusters.values():  # without usage all sites have the same utility
        cluster.submit(processors=1, seconds=600, user="bob", account="biology")
    sites.clusters[NORTH].submit(processors=4, seconds=600, user="alice", account="physics")
    load(sites.clusters[SOUTH], processors=7)
    rankings = {}
    for account in ("physics", "biology"):
        job = short_job("shares")
        words = ["--broker", "utility", *job[:2], f"--account={account}", *job[2:]]
        rankings[account] = published_ranking(sites, route, words)
    assert [each["site"] for each in rankings["biology"]] == [NORTH, SOUTH]
    full, idle = rankings["physics"]
    assert (full["site"], idle["site"]) == (SOUTH, NORTH)
    assert full["expected_start"] > idle["expected_start"] + 60


def published_ranking(sites: TwoSites, route: Route, words: list[str]) -> list[dict[str, Any]]:
    """The ranking once both sites have published, each once a minute, what they have now."""
    found: list[dict[str, Any]] = []

    def differ() -> bool:
        found[:] = route(*words)["ranking"]
        if [each["published"] for each in found] != [True, True]:
            return False
        return bool(found[0]["utility"] > found[1]["utility"] + 0.1)

    sites.clusters[NORTH].wait_until(differ, 180, "different utilities of both sites")
    return found


def test_nothing_is_submitted_by_asking(sites: TwoSites, route: Route) -> None:
    for number in range(3):
        route(*short_job(f"asked-{number}"))
    for cluster in sites.clusters.values():
        assert cluster.run("squeue", "-h").stdout == ""
        names = cluster.run("sacct", "-a", "-X", "-n", "-o", "JobName%30").stdout.split()
        assert not [name for name in names if name.startswith("asked-")]


def test_hostile_clients_are_refused_and_leave_the_daemon_alone(
    sites: TwoSites, route: Route, tmp_path: Path
) -> None:
    cluster = sites.clusters[NORTH]
    more = "soonest_cycle = 0.4\nbusy_share = 1"
    with running_hook(cluster, tmp_path, "sjf", cycle=0.5, more=more) as hook:
        quiet = cycles_of(hook, 4.0)
        with HostileLoad(sites.services[NORTH]) as hostile:
            attacked = cycles_of(hook, 8.0)
            hostile.run_all()
        assert hostile.faults == []
        assert set(hostile.statuses) <= {400, 401, 404, 405, 409, 411, 413, 429}, hostile.statuses
        assert {400, 401, 413} <= set(hostile.statuses)
        served = route(*short_job("served"))["ranking"]  # authorized clients get answers again
        assert {each["site"] for each in served} == set(NAMES)
        assert sites.services[NORTH].process.poll() is None
        failures = [line for line in hook.log.splitlines() if "cycle=done" in line]
        assert all("failure=none" in line for line in failures)
        assert quiet > 0
        assert attacked > 0
    assert threads_of(sites) < MOST_CONNECTIONS + 16


def cycles_of(hook: RunningHook, seconds: float) -> float:
    """Cycles a second over some time."""
    before = hook.metric("slurm_rl_cycles_total") or 0.0
    began = time.monotonic()
    time.sleep(seconds)
    after = hook.metric("slurm_rl_cycles_total") or 0.0
    return (after - before) / (time.monotonic() - began)


def threads_of(sites: TwoSites) -> int:
    """Threads of the attacked service."""
    folder = Path(f"/proc/{sites.services[NORTH].process.pid}/task")
    return len(list(folder.iterdir()))
