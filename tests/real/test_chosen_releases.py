"""A release that cannot be tested says what is missing; needs no daemons."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.real.slurm_releases import INSTALLER, MARK, RELEASES, missing_release

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_that_is_not_there_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    release = RELEASES[name]
    assert missing_release(release).endswith(f": run {INSTALLER} {release.suite}")
    release.folder.mkdir(parents=True)
    release.folder.joinpath(MARK).write_text("99.01\n")
    assert f"holds Slurm 99.01 and not {name}" in missing_release(release)
    release.folder.joinpath(MARK).write_text(f"{name}\n")
    assert missing_release(release) == ""


def install(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOP / INSTALLER, *words],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the installer leaves it, but for the programs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = RELEASES["24.11"].folder
    folder.mkdir(parents=True)
    folder.joinpath(MARK).write_text("24.11\n")
    return folder


def test_a_finished_folder_is_used_again(tmp_path: Path, finished: Path) -> None:
    done = install(tmp_path, "trixie")
    assert (done.returncode, done.stdout) == (0, f"Slurm 24.11 of trixie is in {finished}\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as the installer does")
def test_only_a_folder_of_its_own_is_removed(tmp_path: Path, finished: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    done = install(tmp_path, "--remove", "trixie", str(other))
    assert (done.returncode, other.is_dir()) == (1, True)
    assert "not made by this script" in done.stderr
    assert install(tmp_path, "--remove", "trixie").returncode == 0
    assert not finished.exists()


def test_a_suite_without_an_entry_is_refused(tmp_path: Path) -> None:
    done = install(tmp_path, "woody")
    assert done.returncode == 1
    assert "usage" in done.stderr
