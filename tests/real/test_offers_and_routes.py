"""Jobs routed between two real clusters: to the faster start, past a dead site, by bound offers."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from slurm_rl_plugin.cli.entry import main
from tests.functional.small_site import write_site_utility_model
from tests.real.conftest import skip_without_daemons
from tests.real.load import Outcome, outcomes
from tests.real.offer_under_test import OfferService, offer_service
from tests.real.private_cluster import NodeKind, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.two_sites import NAMES, TwoSites, two_sites, write_sites
from tests.real.users import AS_HIM, NAME, skip_unless_he_may_run_python

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

#: Both sites have two nodes of four processors; those of the south have two GPUs each.
KINDS = {SOUTH: (NodeKind(name="n", count=2, processors=4, gpus=2),)}
AS_ALICE = ("setpriv", "--reuid=alice", "--regid=alice", "--clear-groups")
ALICES = (
    *("--", "sbatch", "--ntasks=2", "--time=2", "--account=physics", "--chdir=/"),
    *("--output=/dev/null", "--wrap=sleep 2"),
)
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
        with two_sites(release, {name: lines + SHARES[name] for name in NAMES}, KINDS) as sites:
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
    full = cluster.submit(processors=processors, seconds=600, user="alice")
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


def test_what_a_site_fails_is_bad_news_and_what_the_user_fails_is_not(
    sites: TwoSites, route: Route
) -> None:
    """A job whose node dies, one that cannot be launched, and one that ends with an error.

    It is the first test: the broker reads an hour of accounting once.
    """
    south, north = sites.clusters[SOUTH], sites.clusters[NORTH]

    def direct(cluster: PrivateSlurm, *words: str) -> int:
        usual = ("--parsable", "--chdir=/", "--time=1")
        return int(cluster.run("sbatch", *usual, *words).stdout.partition(";")[0])

    quiet = "--output=/dev/null"
    lost = direct(south, quiet, "--no-requeue", "--nodelist=n2", "--wrap=sleep 30")
    south.wait_state(lost, "RUNNING", 20)
    south.scontrol("update", "nodename=n2", "state=down", "reason=test")
    unlaunched = direct(south, "--output=/nowhere/at/all", "--wrap=true")
    wrong = direct(north, quiet, "--wrap=exit 1")
    ended(north, [wrong])
    states = {each.state for each in ended(south, [lost, unlaunched]).values()}
    assert states == {"NODE_FAIL", "FAILED"}
    # where slurmd has registered again, it is up by itself
    south.run("scontrol", "update", "nodename=n2", "state=resume", check=False)
    states_of_nodes = ("sinfo", "-h", "-N", "-o", "%t")
    south.wait_until(lambda: "down" not in south.run(*states_of_nodes).stdout, 60, "n2 up")
    for cluster, jobs in ((south, {lost, unlaunched}), (north, {wrong})):
        cluster.wait_until(lambda c=cluster, j=jobs: j <= listed(c), 60, "jobs listed by time")
    ranking = route("--broker", "learning", *short_job("after"))["ranking"]
    assert [each["site"] for each in ranking] == [NORTH, SOUTH]
    assert "; the site failed " in ranking[1]["reason"]
    assert "failed" not in ranking[0]["reason"]


def listed(cluster: PrivateSlurm) -> set[int]:
    """Jobs that accounting lists by time; a new one is known by its number some seconds before."""
    return {*map(int, cluster.run("sacct", "-a", "-X", "-n", "-o", "JobIDRaw").stdout.split())}


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


@pytest.mark.parametrize(
    "options",
    [
        ("--gres=gpu:2",),
        ("--gpus=2", "--cpus-per-gpu=1"),
        ("--gpus=2", "--gpus-per-task=1"),
        ("--gpus=1", "--ntasks-per-gpu=2"),
        ("--ntasks=2", "--gpus-per-task=1", "--mem-per-gpu=100"),
    ],
    ids=" ".join,
)
def test_a_job_of_gpus_goes_where_they_are(
    sites: TwoSites, route: Route, options: tuple[str, ...]
) -> None:
    ranking = route("--", "sbatch", "--time=1", *options, "--wrap=true")["ranking"]
    assert [each["site"] for each in ranking] == [SOUTH]


def test_too_many_gpus_are_nowhere(sites: TwoSites) -> None:
    done = sites.route("--json", "--", "sbatch", "--time=1", "--gres=gpu:3", "--wrap=true")
    assert done.returncode == 1
    assert [each["site"] for each in json.loads(done.stdout)["skipped"]] == [NORTH, SOUTH]


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
        cluster.submit(processors=1, seconds=600, user="bob")
    sites.clusters[NORTH].submit(processors=4, seconds=600, user="alice")
    load(sites.clusters[SOUTH], processors=7)
    rankings = {}
    for account, first in (("physics", SOUTH), ("biology", NORTH)):
        job = short_job("shares")
        words = ["--broker", "utility", *job[:2], f"--account={account}", *job[2:]]
        rankings[account] = published_ranking(sites, route, words, first)
    full, idle = rankings["physics"]
    assert full["expected_start"] > idle["expected_start"] + 60


def published_ranking(
    sites: TwoSites, route: Route, words: list[str], first: str
) -> list[dict[str, Any]]:
    """The ranking once both sites have published, each once a minute, what they have now."""
    found: list[dict[str, Any]] = []

    def is_first() -> bool:
        found[:] = route(*words)["ranking"]
        if [each["published"] for each in found] != [True, True] or found[0]["site"] != first:
            return False
        return bool(found[0]["utility"] > found[1]["utility"] + 0.1)

    sites.clusters[NORTH].wait_until(is_first, 180, f"{first} first, by the utilities of both")
    return found


def test_nothing_is_submitted_by_asking(sites: TwoSites, route: Route) -> None:
    for number in range(3):
        route(*short_job(f"asked-{number}"))
    for cluster in sites.clusters.values():
        assert cluster.run("squeue", "-h").stdout == ""
        names = cluster.run("sacct", "-a", "-X", "-n", "-o", "JobName%30").stdout.split()
        assert not [name for name in names if name.startswith("asked-")]


@pytest.fixture
def north(sites: TwoSites) -> PrivateSlurm:
    """The first cluster, of 8 processors, all of them taken for a minute at most."""
    cluster = sites.clusters[NORTH]
    full = cluster.submit(processors=8, minutes=1, seconds=600, user="bob")
    cluster.wait_state(full, "RUNNING", 20)
    return cluster


def reservations(cluster: PrivateSlurm) -> list[str]:
    said = cluster.run("scontrol", "show", "reservation", "-o").stdout.splitlines()
    return [line for line in said if line.startswith("ReservationName=")]


def routed_by_alice(sites: TwoSites, service: OfferService, lines: str) -> dict[str, Any]:
    """What `route --submit` says to a user who knows one site."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        write_sites(home / "slurm-rl" / "sites.toml", {NORTH: service})
        own = home / "own.toml"
        own.write_text(f'[route]\nsites_file = ""\n{lines}')
        for path in (home, home / "slurm-rl"):
            shutil.chown(path, "alice", "alice")
        environment = {
            **sites.clusters[NORTH].env,
            "XDG_CONFIG_HOME": folder,
            "XDG_STATE_HOME": folder,
            "HOME": folder,
        }
        done = subprocess.run(
            [
                *(*AS_ALICE, sys.executable, "-m", "slurm_rl_plugin.cli.entry", "route"),
                *("--config", str(own), "--submit", "--json", *ALICES),
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
            check=False,
        )
    said = done.stderr + done.stdout + service.log
    assert done.returncode == 0, said
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture
def serve(
    sites: TwoSites, north: PrivateSlurm, release: SlurmRelease | None
) -> Iterator[Callable[[str], OfferService]]:
    """Starts a service of the first site by an operator of Slurm, with more lines."""
    if release is not None:
        pytest.skip("a job's user cannot enter the folder of another release: only root can")
    if subprocess.run([*AS_ALICE, sys.executable, "-c", ""], check=False).returncode:
        pytest.skip("alice cannot run this Python: open its folders to other users")
    north.run("sacctmgr", "-i", "add", "user", NAME, "account=physics", check=False)
    north.make_operator(NAME)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        place.chmod(0o755)
        shutil.chown(place, NAME)
        kept = f'{QUICK}\nbind_file = "{place}/bound.json"\n'
        yield lambda more: stack.enter_context(
            offer_service(north.env, place / "offer", kept + more, AS_HIM)
        )


def test_the_job_of_a_user_starts_in_what_was_bound(
    sites: TwoSites, north: PrivateSlurm, serve: Callable[[str], OfferService]
) -> None:
    """A job of higher priority that needs the whole cluster does not delay it."""
    service = serve("bind_seconds = 30\nbind_part = 0.5\n")
    found = routed_by_alice(sites, service, "bind = true\n")
    assert len(reservations(north)) == 1, service.log
    (made,) = reservations(north)
    assert "Accounts=physics" in made
    job = int(found["submitted"]["job_id"])
    assert north.run("squeue", "-h", "-j", str(job), "-o", "%v|%u").stdout.strip() == (
        f"{made.split()[0].partition('=')[2]}|alice"
    )
    rival = north.submit("--nice=-100000", processors=8, minutes=10, seconds=1, user="bob")
    north.wait_until(lambda: job in outcomes(north, [job]), 150, "the job's end in accounting")
    ran = outcomes(north, [job])[job]
    assert ran.state == "COMPLETED"
    north.wait_until(lambda: not reservations(north), 30, "the reservation taken back")
    assert ran.start <= ended(north, [rival])[rival].start
    assert service.stop() == 0


def test_a_job_runs_at_a_site_that_the_users_site_asked(
    sites: TwoSites, north: PrivateSlurm, serve: Callable[[str], OfferService], tmp_path: Path
) -> None:
    """The user's list names the full site alone."""
    known = tmp_path / "known" / "sites.toml"
    write_sites(known, {SOUTH: sites.services[SOUTH]})
    for folder in (known.parent, *known.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    service = serve(f'forward_hops = 1\n[route]\nsites_file = "{known}"\n')
    begin = time.time()  # noqa: TID251 - Slurm's clock
    found = routed_by_alice(sites, service, "hops = 1\n")
    assert found["submitted"]["site"] == SOUTH
    south, job = sites.clusters[SOUTH], int(found["submitted"]["job_id"])
    ran = ended(south, [job])[job]
    assert ran.state == "COMPLETED"
    assert ran.start - begin < 30.0
    assert service.stop() == 0
