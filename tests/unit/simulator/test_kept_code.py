"""Compiled code is kept by what it computes: a docstring compiles nothing, a formula its users."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin.simulator.kernel import kept_code
from slurm_rl_plugin.simulator.kernel.kept_code import FOR_ALL, PACKAGE

KERNEL = "slurm_rl_plugin.kernel"
SOURCES = {
    "__init__": "",
    "units": "SECOND = 1.0",
    "speed": '"""Speed."""\n\n\ndef twice(x):\n    """Two of it."""\n    return 2 * x',
    "kernel": "from slurm_rl_plugin.speed import twice\nfrom slurm_rl_plugin import units",
    "beside": "from slurm_rl_plugin.units import SECOND",
}


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A package of five modules."""
    package = tmp_path / "slurm_rl_plugin"
    package.mkdir()
    for name, text in SOURCES.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.setattr(kept_code, "PACKAGE", package)
    kept_code._read.cache_clear()
    kept_code.closure_digest.cache_clear()
    yield package
    kept_code._read.cache_clear()
    kept_code.closure_digest.cache_clear()


def digest_after(sources: Path, name: str, text: str) -> str:
    (sources / f"{name}.py").write_text(text)
    kept_code._read.cache_clear()
    kept_code.closure_digest.cache_clear()
    return kept_code.closure_digest(KERNEL)


def test_a_module_computes_with_what_it_imports(sources):
    assert kept_code.import_closure(KERNEL) == {
        KERNEL,
        "slurm_rl_plugin.speed",
        "slurm_rl_plugin.units",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("speed", "def twice(x):\n    # a comment\n\n    return 2 * x"),
        ("speed", '"""Other words."""\ndef twice(x):\n    """Of other words."""\n    return 2*x'),
        ("beside", "SECOND = 3.0"),
    ],
)
def test_words_and_strangers_change_nothing(sources, name, text):
    assert digest_after(sources, name, text) == digest_after(sources, "units", SOURCES["units"])
    before = digest_after(sources, name, SOURCES[name])
    assert digest_after(sources, name, text) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("speed", "def twice(x):\n    return 3 * x"),
        ("units", "SECOND = 2.0"),
        ("kernel", "from slurm_rl_plugin.speed import twice\nfrom slurm_rl_plugin import beside"),
    ],
)
def test_what_is_computed_elsewhere_counts(sources, name, text):
    before = kept_code.closure_digest(KERNEL)
    assert digest_after(sources, name, text) != before


PROGRAM = """
import sys
from slurm_rl_plugin.simulator.kernel.compiled_features import log_seconds as compiled
print(round(float(compiled(eval(sys.argv[1]))), 6), sum(compiled.stats.cache_hits.values()))
"""


def run_in(tree: Path, kept: Path, for_all: Path | str = "", argument: str = "3.0") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, argument],
        env={
            "PYTHONPATH": str(tree),
            "XDG_CACHE_HOME": str(kept),
            "PATH": "/usr/bin:/bin",
            FOR_ALL: str(for_all),
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
    formula = other / PACKAGE.name / "features" / "schema.py"
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


def test_what_was_compiled_for_all_is_not_compiled_again(tmp_path):
    tree, hers = PACKAGE.parent, tmp_path / "hers" / "slurm-rl" / "compiled"
    first, compiled = run_in(tree, tmp_path / "installed")
    assert compiled == "0"
    for_all = tmp_path / "installed" / "slurm-rl" / "compiled"
    before = {path: path.read_bytes() for path in for_all.rglob("*.nb*")}
    assert run_in(tree, tmp_path / "hers", for_all) == [first, "1"]
    assert not list(hers.rglob("*.nb*"))
    assert {path: path.read_bytes() for path in for_all.rglob("*.nb*")} == before
    shutil.rmtree(for_all)  # the environment was installed anew
    assert run_in(tree, tmp_path / "hers", for_all) == [first, "0"]
    assert run_in(tree, tmp_path / "hers", for_all) == [first, "1"]


def test_code_that_was_compiled_anew_for_all_is_that_of_the_same_arguments(tmp_path):
    """Files of code are numbered in the order in which they were compiled."""
    for_all = tmp_path / "installed" / "slurm-rl" / "compiled"
    tree = PACKAGE.parent
    expected = [run_in(tree, tmp_path / "other", argument=each)[0] for each in ("3", "3.9")]
    for arguments in (("3", "3.9"), ("3.9", "3")):
        for each in arguments:
            run_in(tree, tmp_path / "installed", argument=each)
        found = [run_in(tree, tmp_path / "hers", for_all, each) for each in ("3", "3.9")]
        assert found == [[value, "1"] for value in expected]
        shutil.rmtree(for_all)


@pytest.mark.parametrize("named", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_where_nothing_can_be_kept_it_says_so_and_compiles_for_itself(tmp_path, named):
    folder = tmp_path / "of the run"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "3.0"],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), named: "/dev/null/kept", FOR_ALL: ""},
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


@pytest.mark.parametrize("named", ["", "/dev/null/compiled"])
def test_without_a_folder_for_all_it_compiles_as_ever(tmp_path, named):
    first, compiled = run_in(PACKAGE.parent, tmp_path / "hers", named)
    assert compiled == "0"
    assert run_in(PACKAGE.parent, tmp_path / "hers", named) == [first, "1"]
