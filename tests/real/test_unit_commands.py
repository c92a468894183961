"""What the shipped units run after a daemon that was killed, over a real Slurm without systemd."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP
from tests.functional.test_system_files import settings
from tests.real.daemon_under_test import running_hook
from tests.real.private_cluster import PrivateSlurm

pytestmark = pytest.mark.real

UNITS = TOP / "deploy" / "systemd"


def site_factors(slurm: PrivateSlurm) -> list[int]:
    lines = slurm.run("sprio", "-h", "-o", "%i %S").stdout.splitlines()
    return [int(float(line.split()[1])) for line in lines]


@pytest.mark.parametrize(
    ("unit", "key"), [("slurm-rl", "ExecStopPost"), ("slurm-rl-watchdog", "ExecStart")]
)
def test_the_command_of_the_unit_leaves_no_factor_after_a_kill(
    closed_slurm: PrivateSlurm, tmp_path: Path, unit: str, key: str
) -> None:
    slurm = closed_slurm
    program, *words = shlex.split(settings(UNITS / f"{unit}.service")["Service"][key])
    assert program == "/opt/slurm-rl/bin/slurm-rl"

    def command() -> subprocess.CompletedProcess[str]:
        ours = (sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words)
        configuration = str(tmp_path / "slurm-rl.toml")
        return slurm.run(*ours, "--config", configuration, env={"PYTHONPATH": str(TOP)})

    for minutes in (9, 5, 1):
        slurm.submit(minutes=minutes)
    slurm.wait_until(lambda: len(site_factors(slurm)) == 3, 10, "all jobs eligible")
    with running_hook(slurm, tmp_path, "sjf", cycle=0.5) as hook:
        slurm.wait_until(lambda: any(site_factors(slurm)), 20, "factors")
        assert command().stdout == ""  # the daemon looks after them
        assert any(site_factors(slurm))
        hook.process.kill()
        hook.process.wait(timeout=10)
    assert any(site_factors(slurm))
    assert command().stdout.startswith("released ")
    assert site_factors(slurm) == [0, 0, 0]
    job = slurm.run("squeue", "-h", "-o", "%A").stdout.split()[0]
    slurm.run("scontrol", "update", f"jobid={job}", "sitefactor=77")
    assert command().stdout == ""  # not one of ours
    assert 77 in site_factors(slurm)
