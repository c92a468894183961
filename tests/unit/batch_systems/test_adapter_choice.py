"""Which batch system and which adapter is taken where none is configured."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems import registry
from slurm_rl_plugin.batch_systems.registry import BatchSystemChoice, choose_batch_system
from slurm_rl_plugin.batch_systems.slurm import kind as slurm_kind
from slurm_rl_plugin.batch_systems.slurm.adapter import (
    choose_adapter,
    installed_pyslurm,
    running_slurm,
)
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.errors import ConfigurationError
from tests.fakes.fake_pbs_cluster import FakePbs


@pytest.fixture
def fake(tmp_path: Path) -> FakePbs:
    return FakePbs(tmp_path)


def with_slurm(fake: FakePbs, folder: Path, answer: str) -> dict[str, str]:
    """The environment, with a scontrol that does what the line of shell says."""
    programs = folder / "slurm"
    programs.mkdir()
    (programs / "scontrol").write_text(f"#!/bin/sh\n{answer}\n")
    (programs / "scontrol").chmod(0o755)
    return {**fake.env, "PATH": f"{programs}:{fake.env['PATH']}:/bin"}


def is_pbs(choice: BatchSystemChoice) -> bool:
    """Whether OpenPBS was taken."""
    return choice.kind.name == "pbs"


def test_what_is_configured_is_taken(fake: FakePbs) -> None:
    assert is_pbs(choose_batch_system("pbs", {}))
    assert not is_pbs(choose_batch_system("slurm", fake.env))
    assert "is configured" in choose_batch_system("slurm_commands", fake.env).because


def test_what_is_here_is_taken(fake: FakePbs, tmp_path: Path) -> None:
    alone = choose_batch_system("auto", fake.env)
    assert (is_pbs(alone), alone.sure) == (True, True)
    assert "no scontrol" in alone.because
    environment = {**with_slurm(fake, tmp_path, "exit 1"), "PBS_CONF_FILE": str(tmp_path / "none")}
    only_slurm = choose_batch_system("auto", environment)
    assert (is_pbs(only_slurm), only_slurm.sure) == (False, True)
    assert "no OpenPBS is here" in only_slurm.because


def test_torque_is_not_taken_for_openpbs(fake: FakePbs, tmp_path: Path) -> None:
    torque = tmp_path / "torque.conf"
    torque.write_text("PBS_SERVER=head\n")
    assert not is_pbs(choose_batch_system("auto", {**fake.env, "PBS_CONF_FILE": str(torque)}))


@pytest.mark.parametrize(
    ("scontrol", "qstat", "slurm_conf", "pbs", "sure"),
    [
        ("exit 0", "", True, False, False),  # both answer
        ("exit 0", "down", True, False, True),
        ("exit 1", "", True, True, True),  # a Slurm that was left over
        ("exit 1", "", False, True, True),
        ("exit 1", "down", False, True, True),
        ("exit 1", "down", True, False, False),  # at a boot, say
        ("exit 0", "", False, False, False),  # configless
    ],
)
def test_of_two_the_one_that_answers_is_taken(
    fake: FakePbs,
    tmp_path: Path,
    scontrol: str,
    qstat: str,
    slurm_conf: bool,
    pbs: bool,
    sure: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if qstat:
        fake.break_command("qstat", qstat)
    conf = tmp_path / "slurm.conf"
    if slurm_conf:
        conf.touch()
    monkeypatch.setattr(slurm_kind, "SLURM_CONFS", (str(conf),))
    choice = choose_batch_system("auto", with_slurm(fake, tmp_path, scontrol))
    assert (is_pbs(choice), choice.sure) == (pbs, sure), choice.because
    assert sure or "set adapter" in choice.because


def test_the_slurm_conf_that_is_named_counts(
    fake: FakePbs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_kind, "SLURM_CONFS", ())
    fake.break_command("qstat", "down")
    environment = with_slurm(fake, tmp_path, "exit 1")
    named = {**environment, "SLURM_CONF": str(tmp_path / "pbs.conf")}
    assert not is_pbs(choose_batch_system("auto", named))
    assert is_pbs(choose_batch_system("auto", environment))


def test_one_that_hangs_does_not_answer(
    fake: FakePbs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "SECONDS_TO_ANSWER", 1.0)
    choice = choose_batch_system("auto", with_slurm(fake, tmp_path, "sleep 60"))
    assert is_pbs(choice)


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
