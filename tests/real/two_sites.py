"""Two real clusters on one slurmdbd, an offer service beside each, and a user who routes jobs."""

from __future__ import annotations

import json
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.certificates import self_signed
from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.ordinary_user import AS_HIM
from tests.real.ordinary_user import NAME as ORDINARY
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.system_users import add_system_user

NAMES = ("north", "south")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferService:
    """The service's process and what is needed to ask it."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int

    @property
    def log(self) -> str:
        return (self.folder / "offer.log").read_text()

    @property
    def certificate(self) -> Path:
        return self.folder / "offer.pem"

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text()

    def stop(self) -> int:
        """Stop it as systemd does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def offer_service(
    environment: dict[str, str], folder: Path, more: str = "", before: Sequence[str] = ()
) -> Iterator[OfferService]:
    """Start a service with TLS and a token; killed at the end if it still runs.

    `more` are lines of [offer], and `before` words before its command. Others must be able to get
    into the folder where these change the user.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = self_signed(folder, "offer")
    files.key.chmod(0o644)
    (folder / "token").write_text(secrets.token_hex(32))
    (folder / "slurm-rl.toml").write_text(f"""
[offer]
port = 0
tls_certificate = "{files.certificate}"
tls_key = "{files.key}"
token_file = "{folder}/token"
{more}
""")
    log = folder / "offer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(*before, sys.executable, "-m", "slurm_rl_plugin.cli.entry"),
                *("offer", "--config", str(folder / "slurm-rl.toml")),
            ],
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            stderr=output,
            stdout=output,
            cwd="/",
        )
    try:
        end = time.monotonic() + 60
        while not (found := re.search(r"url=https://127.0.0.1:(\d+)/offer", log.read_text())):
            assert time.monotonic() < end, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield OfferService(process=process, folder=folder, port=int(found[1]))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSites:
    """Clusters and services by name, and the files of the user who routes."""

    clusters: dict[str, PrivateSlurm]
    services: dict[str, OfferService]
    home: Path

    def environment(self) -> dict[str, str]:
        """Of a user on the first site's login node."""
        return {
            **self.clusters[NAMES[0]].env,
            "XDG_CONFIG_HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home),
        }

    def route(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """`slurm-rl route` as a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "slurm_rl_plugin.cli.entry", "route", *words],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd="/",
            check=False,
        )

    def routed(self, *words: str) -> dict[str, Any]:
        """What `route --json` prints."""
        done = self.route("--json", *words)
        assert done.returncode == 0, done.stderr + done.stdout
        document: dict[str, Any] = json.loads(done.stdout)
        return document


def write_sites(path: Path, services: dict[str, OfferService]) -> None:
    """The user's own list of sites."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            f'[[site]]\nname = "{name}"\nurl = "https://localhost:{each.port}"\n'
            f'ca = "{each.certificate}"\ntoken_file = "{each.folder}/token"\n'
            for name, each in services.items()
        )
    )


@contextmanager
def two_sites(release: SlurmRelease | None, more: str) -> Iterator[TwoSites]:
    """Both clusters with their services; `more` are lines of [offer]."""
    add_system_user(ORDINARY)
    # only root can enter another release's folder
    before = AS_HIM if release is None else ()
    with ExitStack() as stack:
        clusters: dict[str, PrivateSlurm] = {}
        for name in NAMES:
            plan = ClusterPlan(
                accounts=ACCOUNTS, options={"ClusterName": name, "MessageTimeout": "5"}
            )
            first = clusters.get(NAMES[0])
            clusters[name] = stack.enter_context(running_slurm(plan, release, first))
        services = {
            name: stack.enter_context(
                offer_service(cluster.env, cluster.directory / "offer", more, before)
            )
            for name, cluster in clusters.items()
        }
        home = clusters[NAMES[0]].directory / "home"
        write_sites(home / "slurm-rl" / "sites.toml", services)
        yield TwoSites(clusters=clusters, services=services, home=home)
