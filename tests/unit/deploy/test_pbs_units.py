"""The drop-in for units on PBS: the setuid pbs_iff can identify the daemon's user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP

DROP_IN = TOP / "deploy/pbs/systemd/pbs.conf"
UNITS = TOP / "deploy/systemd"
SERVICES = ("slurm-rl.service", "slurm-rl-watchdog.service")
#: By systemd.exec(5): with User= each of them brings NoNewPrivileges=yes.
NO_NEW_PRIVILEGES = {
    *("SystemCallFilter", "SystemCallArchitectures", "RestrictAddressFamilies"),
    *("RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "MemoryDenyWriteExecute"),
    *("LockPersonality", "PrivateDevices", "ProtectClock", "ProtectHostname"),
    *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "DynamicUser"),
    *("NoNewPrivileges", "SystemCallLog", "RestrictFileSystems"),
}


def settings(path: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in path.read_text().splitlines() if line[:1] != "#")
    return {name: value for name, sign, value in pairs if sign}


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_keeps_new_privileges_away(service: str) -> None:
    together = {**settings(UNITS / service), **settings(DROP_IN)}
    left = {name: together[name] for name in NO_NEW_PRIVILEGES if name in together}
    assert {name for name, value in left.items() if value not in ("", "no")} == set()


def test_the_daemon_itself_gets_no_capability() -> None:
    """With this one it could claim to be root to pbs_server."""
    assert settings(DROP_IN)["CapabilityBoundingSet"] == "CAP_NET_BIND_SERVICE"
    assert "AmbientCapabilities" not in settings(DROP_IN)
    assert settings(UNITS / SERVICES[0])["AmbientCapabilities"] == ""


def test_systemd_understands_it(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("needs systemd-analyze: install systemd")
    for unit in UNITS.iterdir():
        # the daemon is not installed here, which is no fault of the drop-in
        text = unit.read_text().replace("/opt/slurm-rl/bin/slurm-rl", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    for service in SERVICES:
        (tmp_path / f"{service}.d").mkdir()
        shutil.copy(DROP_IN, tmp_path / f"{service}.d")
    done = subprocess.run(
        [program, "verify", "--man=no", *(str(tmp_path / service) for service in SERVICES)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "pbs.conf" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
