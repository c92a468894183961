"""A user's `route` between two real clusters: an offer that binds, and one of a site not named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.real.conftest import skip_without_daemons
from tests.real.load import outcomes
from tests.real.offer_under_test import OfferService, offer_service
from tests.real.private_cluster import PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.two_sites import NAMES, TwoSites, two_sites, write_sites
from tests.real.users import AS_HIM, NAME

pytestmark = pytest.mark.real

QUICK = "busy_share = 1\nkeep = 0\ntimeout = 5\nrequests_per_minute = 100000"
NORTH, SOUTH = NAMES
AS_ALICE = ("setpriv", "--reuid=alice", "--regid=alice", "--clear-groups")
JOB = (
    *("--", "sbatch", "--ntasks=2", "--time=2", "--account=physics", "--chdir=/"),
    *("--output=/dev/null", "--wrap=sleep 2"),
)


@pytest.fixture(scope="module")
def sites(release: SlurmRelease | None) -> Iterator[TwoSites]:
    skip_without_daemons(release)
    if release is not None:
        pytest.skip("a job's user cannot enter the folder of another release: only root can")
    with two_sites(release, dict.fromkeys(NAMES, QUICK)) as both:
        if subprocess.run([*AS_ALICE, sys.executable, "-c", ""], check=False).returncode:
            pytest.skip("alice cannot run this Python: open its folders to other users")
        both.clusters[NORTH].run("sacctmgr", "-i", "add", "user", NAME, "account=physics")
        both.clusters[NORTH].make_operator(NAME)
        yield both


@pytest.fixture
def north(sites: TwoSites) -> Iterator[PrivateSlurm]:
    """The first cluster, of 8 processors, all of them taken for a minute at most."""
    cluster = sites.clusters[NORTH]
    full = cluster.submit(processors=8, minutes=1, seconds=600, user="bob", account="biology")
    cluster.wait_state(full, "RUNNING", 20)
    yield cluster
    for each in sites.clusters.values():
        each.cancel("root", "alice", "bob")
        each.wait_empty(30)


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
                *("--config", str(own), "--submit", "--json", *JOB),
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
def serve(sites: TwoSites, north: PrivateSlurm) -> Iterator[Callable[[str], OfferService]]:
    """Starts the first site's service anew, with more lines."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        shutil.chown(place, NAME)
        opened = []

        def start(more: str) -> OfferService:
            kept = f'{QUICK}\nbind_file = "{place}/bound.json"\n'
            service = offer_service(north.env, place / "offer", kept + more, AS_HIM)
            opened.append(service)
            return service.__enter__()

        try:
            yield start
        finally:
            for each in opened:
                each.__exit__(None, None, None)


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
    rival = north.submit(
        "--nice=-100000", processors=8, minutes=10, seconds=1, user="bob", account="biology"
    )
    north.wait_until(lambda: job in outcomes(north, [job]), 150, "the job's end in accounting")
    ended = outcomes(north, [job])[job]
    assert ended.state == "COMPLETED"
    north.wait_until(lambda: not reservations(north), 30, "the reservation taken back")
    north.wait_until(lambda: rival in outcomes(north, [rival]), 60, "the other job's end")
    assert ended.start <= outcomes(north, [rival])[rival].start
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
    south.wait_until(lambda: job in outcomes(south, [job]), 60, "the job's end in accounting")
    ended = outcomes(south, [job])[job]
    assert ended.state == "COMPLETED"
    assert ended.start - begin < 30.0
    assert service.stop() == 0
