"""`slurm-rl compile`: an obstacle is one sentence, and the compiled code is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.cli import compile as compilation
from slurm_rl_plugin.simulator.kernel.kept_code import FOR_ALL, named_for_all
from tests.functional.typed import Typed


@pytest.mark.parametrize(
    ("named", "words", "fault"),
    [
        ("compiled", ["reproduce"], "reproduce compiles nothing: give demo, evaluate, train"),
        ("", [], f"{FOR_ALL} is empty"),
        ("/dev/null/compiled", [], "cannot be used"),
    ],
)
def test_what_stands_in_its_way_is_one_sentence(
    tmp_path: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    words: list[str],
    fault: str,
) -> None:
    monkeypatch.setenv(FOR_ALL, str(tmp_path / named) if named else "")
    said = typed.refused("compile", *words)
    assert fault in said
    assert said.count("\n") == 1


def test_a_verb_that_fails_is_told_with_its_reason(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOR_ALL, str(tmp_path / "compiled"))
    monkeypatch.setattr(compilation, "_RUNS", {"evaluate": (("evaluate", "missing.swf"),)})
    said = typed.refused("compile")
    assert "slurm-rl evaluate failed on a drawn log: " in said
    assert said.count("\n") == 1


def test_a_folder_that_is_named_from_here_is_the_same_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOR_ALL, "code")
    assert named_for_all() == tmp_path / "code"


@pytest.mark.study
def test_the_next_user_compiles_nothing_of_it(tmp_path: Path) -> None:
    for_all, his = tmp_path / "compiled", tmp_path / "his"
    environment = {**os.environ, FOR_ALL: str(for_all), "NUMBA_CACHE_DIR": str(his)}

    def run(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words],
            env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True,
            check=True,
        ).stdout  # fmt: skip

    assert str(for_all) in run("compile", "train")
    assert not his.exists()
    model = str(tmp_path / "model.onnx")
    run("train", "egee:jobs=2000,seed=1", "--steps", "1", "-o", model)
    assert len(list(for_all.rglob("*.nbc"))) > 50
    assert not list(his.rglob("*.nbc"))
