"""The package as another commit has it, which the same measurements are asked of."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

#: The top of this project: the measurements are always those of now.
TOP = Path(__file__).parents[4]
#: 0.1.0: the last commit before the first entry of Unreleased in the CHANGELOG.
LAST_RELEASE = "cc3fba4b"
_PRODUCT = ("slurm_rl_plugin", "policy_models")


def product_of(commit: str, folder: Path) -> Path:
    """The package of a commit, written below a folder; its top.

    Raises:
        SystemExit: git knows no such commit, as in a copy without its history.
    """
    top = folder / commit.replace("/", "-")
    done = subprocess.run(
        ["git", "archive", commit, *_PRODUCT], cwd=TOP, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"git has no {commit} here: {done.stderr.decode().strip()}: give --before another")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(top, filter="data")
    return top


def environment(product: Path | None) -> dict[str, str]:
    """In which the package of `product` is imported, and the measurements of now."""
    path = [str(each) for each in (product, TOP) if each is not None]
    # the folder in which this was started must not come before them
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}
