"""A library that is missing, broken or not for this processor is one sentence; help needs none."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_rl_plugin import __version__
from slurm_rl_plugin.batch_systems.pbs.kind import PBS
from slurm_rl_plugin.batch_systems.registry import taken_back_by_hand
from slurm_rl_plugin.batch_systems.slurm.kind import SLURM
from slurm_rl_plugin.cli.entry import TRACEBACK, VERBS, missing_library, verb_parser
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_pbs_cluster import FakePbs
from tests.fakes.without_extras import without_extras
from tests.functional.typed import Typed

OF_SLURM, OF_PBS = SLURM.by_hand, PBS.by_hand
#: Verbs that need only what requirements/runtime.txt brings: all others simulate.
ON_A_HEAD_NODE = VERBS.keys() - {
    *("demo", "train", "convert", "evaluate", "what-if", "tune", "reproduce"),
    "limits",
}


@pytest.fixture
def on_pbs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in FakePbs(tmp_path).env.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("prometheus_client.core", "runtime"),
        ("numpy", "runtime"),
        ("numba", "train"),
        ("sklearn.linear_model", "train"),
    ],
)
def test_it_names_what_brings_the_library(name: str, file: str) -> None:
    said = missing_library("evaluate", ModuleNotFoundError("No module", name=name))
    place = f"-r requirements/{file}.txt in a checkout of version {__version__}"
    assert said == f"needs {name.partition('.')[0]}: pip install {place}."


def test_one_that_cannot_be_loaded_says_why() -> None:
    for what in ("run", "enable", "evaluate", "experiment"):
        said = missing_library(what, ImportError("libx.so:\n no such file", name="onnxruntime"))
        assert said.startswith("onnxruntime cannot be loaded (libx.so: no such file): pip install")
        assert "factors" not in said


#: polars' own check on the processor of a Sandy Bridge; after it, SIGILL.
_ON_AN_OLD_PROCESSOR = """
import importlib.util, os, signal, sys
where = importlib.util.find_spec("polars").submodule_search_locations[0]
spec = importlib.util.spec_from_file_location("polars._cpu_check", where + "/_cpu_check.py")
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)
has = ("sse3", "ssse3", "cmpxchg16b", "sse4.1", "sse4.2", "popcnt", "pclmulqdq", "avx")
flags = dict.fromkeys(check._read_cpu_flags(), False) | dict.fromkeys(has, True)
check._read_cpu_flags = lambda: flags
whole_check = check.check_cpu_flags
def check_and_run(needed):
    whole_check(needed)
    os.kill(os.getpid(), signal.SIGILL)
check.check_cpu_flags = check_and_run
sys.modules["polars._cpu_check"] = check
from slurm_rl_plugin.cli.entry import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="polars checks processors of x86-64")
@pytest.mark.parametrize(
    "words",
    [("convert", "log", "-o", "x.parquet"), ("limits", "log"), ("evaluate", "log")],
    ids=lambda words: words[0],
)
def test_a_processor_without_avx2_is_named_before_it_ends_the_process(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(
        "JobIDRaw|Submit|Start|End|ElapsedRaw|NCPUS|State\n1|1|2|99|97|1|COMPLETED\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", _ON_AN_OLD_PROCESSOR, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = f"slurm-rl {words[0]}: this host's processor lacks instructions that polars needs ("
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(said)
    assert "avx2" in done.stderr
    assert "pip install 'polars[rtcompat]'" in done.stderr
    assert not list(tmp_path.glob("*.parquet"))


def test_a_verb_of_the_way_out_says_what_does_it_by_hand_where_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "pbs.conf"))
    both = f"by hand with `{OF_SLURM}` (Slurm) or `{OF_PBS}` (OpenPBS)."
    assert missing_library("release", ImportError("x")).endswith(both)
    (tmp_path / "scontrol").write_text("#!/bin/sh\n")
    (tmp_path / "scontrol").chmod(0o755)
    assert missing_library("release", ImportError("x")).endswith(f"by hand with `{OF_SLURM}`.")


@pytest.mark.parametrize(
    ("error", "begin"),
    [
        (
            ModuleNotFoundError("No module", name="numba"),
            "needs numba: pip install -r requirements/",
        ),
        (RuntimeError("unforeseen"), "failed (RuntimeError: unforeseen)"),
    ],
)
def test_an_experiment_that_cannot_be_stopped_says_how_to_roll_factors_back(
    error: Exception, begin: str, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    def fails(options: argparse.Namespace) -> int:
        raise error

    monkeypatch.delenv(TRACEBACK, raising=False)
    monkeypatch.setattr("slurm_rl_plugin.cli.experiment.main", fails)
    for action in ("start", "stop"):
        status, _, said = typed("experiment", action)
        assert (status, said.count("\n")) == (1, 1)
        assert said.startswith(f"slurm-rl experiment: {begin}")
        assert (taken_back_by_hand(os.environ) in said) is (action == "stop")


@pytest.mark.usefixtures("on_pbs")
def test_where_nothing_is_known_release_says_the_line_of_pbs(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "broken.toml").write_text("[")
    words = ("--config", tmp_path / "broken.toml", "--state-file", tmp_path / "none")
    status, _, said = typed("release", *words)
    assert status == 1
    assert f"restore the factors by `{OF_PBS}`." in said
    assert "scontrol" not in said


def test_the_line_is_the_one_of_the_documents() -> None:
    for document in ("README.md", "docs/operators.md", "deploy/debian/prerm"):
        assert OF_SLURM in (TOP / document).read_text()
    assert OF_PBS in (TOP / "docs" / "pbs.md").read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_help_needs_no_extra(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each verb, and it is the same help as with all extras."""
    done = without_extras(verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    monkeypatch.setenv("COLUMNS", "80")
    assert done.stdout == verb_parser(verb).format_help()


@pytest.mark.parametrize("verb", sorted(ON_A_HEAD_NODE))
def test_a_verb_of_operators_and_users_needs_no_extra(verb: str) -> None:
    done = without_extras(verb, "--no-such-option")
    assert done.returncode == 2
    assert "needs" not in done.stderr


def test_help_leaves_nothing_behind() -> None:
    """In one process: help first, then the verb itself."""
    program = (
        "import sys\nfrom slurm_rl_plugin.cli.entry import main\n"
        "try:\n    main(['limits', '--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit(main(['limits', 'mmn:jobs=50,seed=1', '--processors', '50', '--json']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"accounts"' in done.stdout


def test_help_behind_two_dashes_is_of_another_command() -> None:
    done = without_extras("start", "--config", "/nowhere.toml", "--", "sbatch", "--help")
    assert done.returncode != 0
    assert "usage" not in done.stdout
