"""The wheel, in an environment of its own: what it holds is found there. And the source archive."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_rl_plugin.policies.registry import SHIPPED_MODELS
from tests.architecture.markdown_documents import TOP

SOURCES = (
    *("setup.py", "pyproject.toml", "README.md", "LICENSE"),
    *("slurm_rl_plugin", "policy_models", "deploy"),
)
FURTHER = ("MANIFEST.in", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile")


def copy_sources(folder: Path, *names: str) -> None:
    folder.mkdir()
    for name in names:
        if (TOP / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(TOP / name, folder / name, ignore=ignored)
        else:
            shutil.copy(TOP / name, folder / name)


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def built(folder: Path) -> Path:
    """A wheel, from a copy: pip builds in the folder that it is given."""
    copy_sources(folder / "source", *SOURCES)
    pip("wheel", "--quiet", "--no-deps", f"--wheel-dir={folder}", str(folder / "source"))
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As for a head node: without the papers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_RL_PAPERS", "no")
        return built(tmp_path_factory.mktemp("wheel"))


def test_without_that_word_it_holds_the_papers_and_what_they_claim(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(built(tmp_path)).namelist())
    wing = (TOP / "slurm_rl_plugin" / "papers").rglob("*.*")
    papers = {path.relative_to(TOP).as_posix() for path in wing if path.suffix in (".py", ".toml")}
    assert len(papers) > 40
    assert papers <= names


def test_it_holds_code_types_and_models_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if "/papers/" in name or name.endswith("claims.toml")]
    data = ("py.typed", "learning/model_card.md", "learning/q_network.onnxtxt")
    assert {f"slurm_rl_plugin/{name}" for name in data} <= {*names}
    assert any(name.startswith("slurm_rl_plugin/cli/demo/logs/") for name in names)
    models = {Path(name).stem for name in names if name.endswith(".onnx")}
    assert models == set(SHIPPED_MODELS)
    hooks = {Path(name).name for name in names if "/share/slurm-rl/pbs/" in name}
    assert {"slurm_rl_class.py", "slurm_rl_class.json", "slurm_rl_dead_man.py"} <= hooks
    assert any(name.endswith("/share/slurm-rl/pbs/systemd/pbs.conf") for name in names)
    assert not [name for name in names if name.startswith(("tests", "deploy"))]


def test_the_archive_of_the_sources_holds_what_install_md_copies(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    copy_sources(tmp_path / "source", *SOURCES, "docs", "tests", *FURTHER)
    build = "import sys; from setuptools import build_meta as b; b.build_sdist(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        cwd=tmp_path / "source",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        held = {name.partition("/")[2] for name in packed.getnames()}
    for folder in ("deploy", "docs", "policy_models"):
        there = {path.relative_to(TOP).as_posix() for path in (TOP / folder).rglob("*.*")}
        assert not {name for name in there - held if "__pycache__" not in name}
    assert {*FURTHER, "LICENSE", "README.md", "setup.py"} <= held
    assert not {name for name in held if name.startswith("tests")}


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    pip("--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-deps", str(wheel))
    return folder / "bin" / "slurm-rl"


Installed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def installed(program: Path, tmp_path: Path) -> Installed:
    """Runs a program of that environment.

    Only what the package needs comes from here: an editable installation is not seen so.
    """

    def run(*words: str, name: str = "slurm-rl") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program.with_name(name)), *words],
            env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_shipped_models_are_found_in_another_environment(
    installed: Installed, program: Path
) -> None:
    for model in SHIPPED_MODELS:
        words = ("benchmark", "hook", "--jobs", "20", "--repeats", "1", "--json")
        done = installed(*words, f"--policy={model}")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["jobs"] == 20
    where = "import slurm_rl_plugin as p; print(p.__file__)"
    assert str(program.parents[1]) in installed("-c", where, name="python").stdout


def test_a_head_node_says_where_papers_are_reproduced(installed: Installed) -> None:
    done = installed("reproduce", "heuristics")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("slurm-rl reproduce: the published experiments are not installed")
    assert done.stderr.count("\n") == 1


def test_pbs_setup_names_hooks_that_are_installed(
    installed: Installed, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "site.toml").touch()
    done = installed("pbs-setup", "--print", "--formula=", "--config=site.toml")
    assert done.returncode == 0, done.stderr
    named = {word.strip("'\"") for word in done.stdout.split() if "/slurm_rl_" in word}
    assert len(named) == 3
    for name in named:
        assert Path(name).is_file()
        assert Path(name).is_relative_to(program.parents[1])
