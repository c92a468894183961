"""A head node to install our package on: a booted systemd and a private Slurm."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import ACCOUNTS, skip_without_daemons
from tests.real.daemon import ClusterError, wait_until
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.throwaway_root import ThrowawayRoot, booted_root, skip_without
from tests.real.users import add_system_user

SHARED = ClusterPlan(accounts=ACCOUNTS)
DAEMON, WATCHDOG = "slurm-rl.service", "slurm-rl-watchdog.service"


class HeadNode:
    """A booted root in which our package is installed, and a private Slurm."""

    def __init__(self, root: ThrowawayRoot, slurm: PrivateSlurm) -> None:
        self.root, self.slurm = root, slurm

    def systemctl(self, *words: str, check: bool = True) -> str:
        return self.root.run("systemctl", *words, check=check).stdout.strip()

    def shows(self, name: str, unit: str = DAEMON) -> str:
        return self.systemctl("show", "--value", f"--property={name}", unit)

    def journal(self, unit: str = DAEMON) -> str:
        return self.root.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}").stdout

    def configure(self, text: str) -> None:
        (self.root.folder / "etc/slurm-rl/slurm-rl.toml").write_text(text)

    def factors(self) -> list[int]:
        lines = self.slurm.run("sprio", "-h", "-o", "%i %S").stdout.splitlines()
        return [int(float(line.split()[1])) for line in lines]

    def carries(self) -> bool:
        return any(self.factors())

    def wait(self, condition: bool, what: str, seconds: float = 40) -> None:
        """Waits until jobs carry factors, or until no job does."""
        wait_until(lambda: self.carries() == condition, seconds, what, self.journal)

    def start_daemon(self) -> str:
        """Starts it, until jobs carry factors; its process."""
        self.systemctl("start", DAEMON)
        self.wait(True, "factors")
        return self.shows("MainPID")

    def audit(self) -> list[dict[str, Any]]:
        text = (self.root.folder / "var/log/slurm-rl/audit.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


@contextmanager
def booted_head_node(*binds: Path, plan: ClusterPlan = SHARED) -> Iterator[HeadNode]:
    """Boots one without our package; slurmrl is an operator, slurmrl-offer may only submit.

    It sees the folders `binds` and no others of /tmp and /run.
    """
    skip_without_daemons()
    skip_without("systemd-nspawn", "nsenter", "dpkg")
    for user in ("slurmrl", "slurmrl-offer"):
        add_system_user(user)
    # a unit sees neither /tmp nor /root
    directory = Path(tempfile.mkdtemp(prefix="private-slurm-", dir="/run"))
    directory.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        slurm = stack.enter_context(PrivateSlurm(directory, plan))
        slurm.run("sacctmgr", "-i", "add", "user", "slurmrl,slurmrl-offer", "account=physics")
        slurm.run("sacctmgr", "-i", "modify", "user", "slurmrl", "set", "AdminLevel=Operator")
        try:
            root = stack.enter_context(booted_root(Path("/"), (slurm.directory, *binds)))
        except ClusterError as error:
            pytest.skip(f"needs a machine where systemd-nspawn can boot a container: {error}")
        environment = root.folder / "etc/default/slurm-rl"
        environment.write_text(f"SLURM_CONF={slurm.env['SLURM_CONF']}\n")
        yield HeadNode(root, slurm)
