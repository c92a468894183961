"""Slurm or OpenPBS where nobody has configured it: what is here, else what answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems import registry
from slurm_rl_plugin.batch_systems.registry import BatchSystemChoice, choose_batch_system
from slurm_rl_plugin.batch_systems.slurm import kind as slurm_kind
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
