"""pyslurm is taken only where it is installed and made for the running Slurm; else commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.adapter import (
    choose_adapter,
    installed_pyslurm,
    running_slurm,
)
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.errors import ConfigurationError


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages; no other pyslurm is seen, though one may be installed."""
    folder = tmp_path / "packages"
    folder.mkdir()
    others = [path for path in sys.path if not list(Path(path).glob("pyslurm*"))]
    monkeypatch.setattr(sys, "path", [str(folder), *others])
    return folder


def install(packages: Path, release: str) -> None:
    """Leave the metadata of a pyslurm, and a package that must not be imported."""
    info = packages / f"pyslurm-{release}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: pyslurm\nVersion: {release}\n"
    )
    package = packages / "pyslurm"
    package.mkdir()
    package.joinpath("__init__.py").write_text("raise SystemExit('imported')")


def named(choice: tuple[type[SlurmCommands], str]) -> tuple[str, str]:
    return choice[0].name, choice[1]


def commands(tmp_path: Path, script: str) -> CommandRunner:
    """A scontrol of its own; it notes that it was called."""
    program = tmp_path / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n{script}\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"])
    return CommandRunner(environment={"PATH": path}, timeout=1.0)


@pytest.mark.parametrize(
    ("pyslurm", "says", "adapter", "because"),
    [
        ("22.5.3", "echo slurm-wlm 22.05.8", "slurm", "pyslurm 22.5.3 is for this Slurm"),
        ("25.11.2", "echo slurm 25.11.0-0rc1", "slurm", "pyslurm 25.11.2 is for this Slurm"),
        (
            *("25.11.2", "echo slurm 22.05.8", "slurm_commands"),
            "pyslurm 25.11.2 is not for Slurm 22.05.8",
        ),
        ("22.5.1", "echo slurm 22.05.8", "slurm_commands", "pyslurm 22.5.1 cannot change jobs"),
        ("22.5.3", "exit 1", "slurm_commands", "the release of Slurm is not known"),
        ("22.5.3", "echo what", "slurm_commands", "the release of Slurm is not known"),
        ("22.5.3", "sleep 60", "slurm_commands", "the release of Slurm is not known"),
    ],
)
def test_auto(
    packages: Path, tmp_path: Path, pyslurm: str, says: str, adapter: str, because: str
) -> None:
    install(packages, pyslurm)
    assert named(choose_adapter("auto", commands(tmp_path, says))) == (adapter, because)


def test_without_pyslurm_slurm_is_not_even_asked(packages: Path, tmp_path: Path) -> None:
    choice = choose_adapter("auto", commands(tmp_path, "echo slurm 22.05.8"))
    assert named(choice) == ("slurm_commands", "pyslurm is not installed")
    assert not tmp_path.joinpath("called").exists()


def test_commands_where_they_are_wanted(packages: Path, tmp_path: Path) -> None:
    install(packages, "22.5.3")
    choice = choose_adapter("slurm_commands", commands(tmp_path, ""))
    assert named(choice) == ("slurm_commands", "it is configured")
    assert not tmp_path.joinpath("called").exists()


@pytest.mark.parametrize("says", ["echo slurm 22.05.8", "exit 1"])
def test_pyslurm_where_it_is_wanted_and_may_work(packages: Path, tmp_path: Path, says: str) -> None:
    """A controller that does not answer at the start of the daemon is no fault to mend."""
    install(packages, "22.5.3")
    choice = choose_adapter("slurm", commands(tmp_path, says))
    assert named(choice) == ("slurm", "it is configured")


@pytest.mark.parametrize("pyslurm", [None, "25.11.2", "22.5.1"])
def test_pyslurm_where_it_is_wanted_and_cannot_work(
    packages: Path, tmp_path: Path, pyslurm: str | None
) -> None:
    if pyslurm:
        install(packages, pyslurm)
    with pytest.raises(ConfigurationError, match=r"install the pyslurm .*\"auto\"") as caught:
        choose_adapter("slurm", commands(tmp_path, "echo slurm 22.05.8"))
    assert "\n" not in str(caught.value)


def test_detecting_does_not_import(packages: Path, tmp_path: Path) -> None:
    assert installed_pyslurm() is None
    install(packages, "22.5.3")
    assert installed_pyslurm() == "22.5.3"
    assert running_slurm(commands(tmp_path, "echo slurm 24.11.5")) == "24.11.5"
    assert tmp_path.joinpath("called").read_text() == "--version\n"
    assert "pyslurm" not in sys.modules
