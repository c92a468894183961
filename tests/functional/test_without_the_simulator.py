"""A head node has no simulator: its verbs work all the same, each as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import VERBS
from tests.architecture.markdown_documents import TOP

#: Libraries of the extras, which the daemon's own environment has not.
EXTRAS = (
    "numba",
    "llvmlite",
    "matplotlib",
    "rich",
    "polars",
    "onnx",
    "cmaes",
    "sklearn",
    "submitit",
)
#: Verbs that simulate, train or read logs of any size.
SIMULATES = frozenset(
    ("demo", "train", "convert", "evaluate", "what-if", "tune", "renew", "reproduce", "compile")
) | {"forecast", "limits"}
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS}))
from slurm_rl_plugin.cli.entry import main, verb_parser
"""


def without_extras(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program in an interpreter that finds no library of an extra."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + program, *words],
        env={"PYTHONPATH": str(TOP), "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_verbs_of_a_head_node_need_no_library_of_the_simulator() -> None:
    verbs = [verb for verb in VERBS if verb not in SIMULATES]
    done = without_extras("[verb_parser(verb) for verb in sys.argv[1:]]", *verbs)
    assert done.stderr == ""


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["read", "json"])
def test_the_shadow_report_tells_of_the_audit_log(tmp_path: Path, words: list[str]) -> None:
    line = {"event": "cycle", "time": 1795300000.0, "mode": "shadow", "policy": "sjf", "model": ""}
    lists = ("order", "site_rank", "interactive", "account", "accounts", "guard_rails", "failed")
    line |= {"reason": "policy", "jobs": 0, **{key: [] for key in lists}}
    (tmp_path / "audit.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "site.toml").write_text(f'[hook]\naudit_file = "{tmp_path}/audit.jsonl"\n')
    done = without_extras(
        "sys.exit(main(sys.argv[1:]))",
        *("shadow-report", "--config", str(tmp_path / "site.toml"), *words),
    )
    assert done.returncode == 0, done.stderr
    if words:
        document = json.loads(done.stdout)
        assert document["shadow"]["cycles"] == 1
        assert "needs numba" in document["prediction"]["unavailable"]
    else:
        assert "No replay: the replay needs numba" in done.stdout
