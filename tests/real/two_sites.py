"""Two real clusters on one slurmdbd, each with an offer service, and a user who routes jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.offer_under_test import OfferService, offer_service
from tests.real.private_cluster import ClusterPlan, NodeKind, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.users import AS_HIM, add_system_user
from tests.real.users import NAME as ORDINARY

NAMES = ("north", "south")


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
def two_sites(
    release: SlurmRelease | None,
    more: Mapping[str, str],
    kinds: Mapping[str, Sequence[NodeKind]] | None = None,
) -> Iterator[TwoSites]:
    """Both clusters with their services.

    Args:
        release: of both.
        more: lines of [offer] and behind it, by site.
        kinds: of nodes, by site; a site that is not named has two plain nodes.
    """
    add_system_user(ORDINARY)
    # only root can enter another release's folder
    before = AS_HIM if release is None else ()
    with ExitStack() as stack:
        clusters: dict[str, PrivateSlurm] = {}
        for name in NAMES:
            plan = ClusterPlan(
                accounts=ACCOUNTS,
                options={"ClusterName": name, "MessageTimeout": "5"},
                kinds=(kinds or {}).get(name, ()),
            )
            first = clusters.get(NAMES[0])
            clusters[name] = stack.enter_context(running_slurm(plan, release, first))
        services = {
            name: stack.enter_context(
                offer_service(cluster.env, cluster.directory / "offer", more[name], before)
            )
            for name, cluster in clusters.items()
        }
        home = clusters[NAMES[0]].directory / "home"
        write_sites(home / "slurm-rl" / "sites.toml", services)
        yield TwoSites(clusters=clusters, services=services, home=home)
