"""Compiled code is kept by what it computes: a docstring compiles nothing, a formula its users."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.simulator.kernel.kept_code import PACKAGE

PROGRAM = """
import sys
from slurm_rl_plugin.simulator.kernel.compiled_features import log_seconds as compiled
print(round(float(compiled(eval(sys.argv[1]))), 6), sum(compiled.stats.cache_hits.values()))
"""


def run_in(tree: Path, kept: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "3.0"],
        env={
            "PYTHONPATH": str(tree),
            "XDG_CACHE_HOME": str(kept),
            "PATH": "/usr/bin:/bin",
        },
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.split()


def test_another_clone_with_other_docstrings_compiles_nothing_a_formula_does(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for tree in (one, other):
        shutil.copytree(PACKAGE, tree / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    formula = other / PACKAGE.name / "features" / "site.py"
    first, compiled = run_in(one, tmp_path / "kept")
    assert compiled == "0"
    formula.write_text(
        formula.read_text().replace('"""Seconds, >', '"""Other words.\n\nSeconds, >', 1)
    )
    assert run_in(other, tmp_path / "kept") == [first, "1"]
    text = formula.read_text()
    changed = text.replace("def log_seconds(", "_MORE = 1.0\n\n\ndef log_seconds(")
    assert changed != text
    formula.write_text(changed)
    assert run_in(other, tmp_path / "kept") == [first, "0"]


def test_of_many_states_of_a_module_the_oldest_go(tmp_path):
    kept = tmp_path / "kept" / "slurm-rl" / "compiled"
    for day in range(9):
        folder = kept / f"simulator.kernel.compiled_features-{day:016}"
        folder.mkdir(parents=True)
        os.utime(folder, (day, day))
    (kept / "simulator.kernel.cluster-0").mkdir()
    run_in(PACKAGE.parent, tmp_path / "kept")
    left = {folder.name for folder in kept.glob("simulator.kernel.compiled_features-*")}
    assert len(left) == 4
    assert {f"simulator.kernel.compiled_features-{day:016}" for day in (6, 7, 8)} < left
    assert (kept / "simulator.kernel.cluster-0").is_dir()


@pytest.mark.parametrize("named", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_where_nothing_can_be_kept_it_says_so_and_compiles_for_itself(tmp_path, named):
    folder = tmp_path / "of the run"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "3.0"],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), named: "/dev/null/kept"},
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[1] == "0"
    assert "/dev/null/kept" in done.stderr
    assert "compiles for itself alone" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(folder.iterdir())
