"""Our Debian package, built from this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP
from tests.real.slurm_releases import SEARCH_PATH


def skip_without(*programs: str) -> None:
    """Skip the test where it is not run by root, or a program is missing."""
    missing = [each for each in programs if shutil.which(each, path=SEARCH_PATH) is None]
    if os.geteuid() != 0 or missing:
        lacking = f" (missing: {' '.join(missing)})" if missing else ""
        pytest.skip(f"needs root and Debian: run tests/real/install_daemons.sh{lacking}")


def build_package(folder: Path, source: Path = TOP) -> Path:
    """Build it from a checkout; skips the test without Debian or a Python of Debian's."""
    skip_without("dpkg-deb", "/usr/bin/python3")
    asked = subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], check=False)
    if asked.returncode:
        pytest.skip("needs python3-venv: run tests/real/install_daemons.sh")
    done = subprocess.run(
        [source / "deploy" / "debian" / "build.sh", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())
