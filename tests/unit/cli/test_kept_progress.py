"""Ctrl-C names what the same command goes on from, where anything is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.progress import told_if_interrupted
from slurm_rl_plugin.learning import training
from slurm_rl_plugin.learning.checkpoint import Checkpoint


def words_of(path: Path | None, *, several: bool = False) -> str:
    with pytest.raises(KeyboardInterrupt) as stop, told_if_interrupted(path, several=several):
        raise KeyboardInterrupt
    return str(stop.value)


def keep(path: Path, steps: int) -> None:
    kept = Checkpoint(path, {})
    for step in range(steps):
        kept.add(step)


def test_nothing_kept_is_nothing_said(tmp_path: Path) -> None:
    assert words_of(None) == ""
    assert words_of(tmp_path / "none") == ""
    keep(tmp_path / "begun", 0)
    assert words_of(tmp_path / "begun") == ""


def test_the_file_is_named(tmp_path: Path) -> None:
    keep(tmp_path / "kept", 2)
    keep(tmp_path / "kept.2", 2)
    told = f"interrupted: the same command goes on from {tmp_path}/kept"
    assert words_of(tmp_path / "kept") == f"{told}."
    assert words_of(tmp_path / "kept", several=True) == f"{told} and 1 more."


@pytest.mark.parametrize("kept", [True, False])
def test_a_training_names_its_checkpoint(
    kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "z.onnx"

    def interrupted(*given: object, checkpoint: Path, **more: object) -> None:
        if kept:
            keep(checkpoint, 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_policy", interrupted)
    assert main(["train", "mmn:seed=3,jobs=100", "-o", str(output), "--steps", "1"]) == 1
    told = f"interrupted: the same command goes on from {output}.checkpoint."
    assert capsys.readouterr().err.endswith(f"slurm-rl train: {told if kept else 'interrupted.'}\n")
