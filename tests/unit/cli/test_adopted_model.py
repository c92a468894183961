"""A candidate that won takes the model's place once, whatever the file is called."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.what_if.model_in_service import adopt
from tests.unit.hook.test_experiment_turns import DECLARED


@pytest.mark.parametrize("name", ["present", "present[1]", "pre*sent"])
def test_the_one_before_is_kept_however_often_it_is_asked_for(tmp_path: Path, name: str) -> None:
    present, candidate = tmp_path / f"{name}.onnx", tmp_path / "new.onnx"
    for path, content in ((present, b"before"), (candidate, b"new")):
        for ending in (".onnx", ".json", ".md"):
            path.with_suffix(ending).write_bytes(content)
    declared = replace(
        DECLARED,
        policy="new",
        candidate=str(candidate),
        model_sha256=hashlib.sha256(b"new").hexdigest(),
        champion_sha256=hashlib.sha256(b"before").hexdigest(),
    )
    kept = adopt(declared, present, 1000.0)
    assert adopt(declared, present, 90_000.0 * 1000) == kept  # another day, as after a crash
    assert (kept.read_bytes(), present.read_bytes()) == (b"before", b"new")
