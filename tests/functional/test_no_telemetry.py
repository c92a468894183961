"""A head node tells nobody of its models: nothing leaves it, nothing is kept to identify it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
#: Under continuous integration onnxruntime is silent by itself.
QUIET = ("CI", "TF_BUILD", "GITHUB_ACTIONS", "JENKINS_URL", "BUILD_ID")
LOAD = "from slurm_rl_plugin.services.hook import load_policy; load_policy('default')"


@pytest.mark.parametrize("already", [{}, {"ORT_DISABLE_TELEMETRY": "0"}], ids=["unset", "off"])
def test_loading_a_model_leaves_nothing_behind(tmp_path: Path, already: dict[str, str]) -> None:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in QUIET and not key.startswith("ORT_")
    }
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**kept, **home, **already},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert list(tmp_path.rglob("*")) == []
