"""Make the files of this folder anew: exact versions and hashes of all that is installed.

    make lock            keeps the versions that still fit setup.py
    make lock UPGRADE=1  takes the newest ones

uv resolves for all platforms and for every Python from 3.11 at the same time. It asks the package
index that PIP_INDEX_URL names, or its own default.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from distutils.core import run_setup
from itertools import product
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
HERE = TOP / "requirements"
#: What makes these files and the list of the package's parts, and nothing else.
_TOOLS = ("uv>=0.13", "cyclonedx-bom>=7")
#: Follows code that inputs reach; later ones have no wheel for Python 3.11.
_COVERAGE = ("atheris>=3,<3.1",)
#: Builds the manual as a site.
_SITE = ("furo>=2024.8", "myst-parser>=4")
#: Each file and the one that it begins with, whose packages it does not repeat.
BEGINS_WITH = {"train": "runtime", "test": "train"}
_HEAD = """\
# Made by `make lock` of {source}: exact versions, and hashes of every wheel of each.
--require-hashes
--only-binary :all:
"""
#: For each of these Pythons on each of these platforms all but atheris must have a wheel.
_PYTHONS = ("3.11", "3.12", "3.13")
_PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
_OLDEST = f"--python-version={_PYTHONS[0]}"


def asked() -> dict[str, list[str]]:
    """What each file must bring, as setup.py and pyproject.toml ask for it."""
    told = run_setup(str(TOP / "setup.py"), stop_after="init")
    build = tomllib.loads((TOP / "pyproject.toml").read_text())["build-system"]["requires"]
    extras = told.extras_require
    return {
        "build": build,
        "runtime": told.install_requires,
        "train": [*told.install_requires, *extras["train"]],
        "test": [*told.install_requires, *extras["test"]],
        "tools": list(_TOOLS),
        "coverage": list(_COVERAGE),
        "site": list(_SITE),
    }


def packages_of(text: str) -> dict[str, str]:
    """Each package of a file of requirements and its lines."""
    blocks = re.findall(r"^(?:[\w.-]+==.*\n)(?:    --hash=.*\n)*", text, re.MULTILINE)
    return {block.partition("==")[0]: block for block in blocks}


def versions_of(text: str) -> dict[str, str]:
    """Each package of a file and its one version."""
    return {name: block.split()[0].partition("==")[2] for name, block in packages_of(text).items()}


def _resolved(wanted: Iterable[str], folder: Path, kept: str, *options: str) -> str:
    """What uv resolves; versions in `kept` are taken where they fit."""
    (folder / "wanted.in").write_text("".join(f"{each}\n" for each in wanted))
    (folder / "found.txt").write_text(kept)
    words = ["--quiet", "--only-binary=:all:", "--generate-hashes", "--no-annotate", "--no-header"]
    where = {"UV_DEFAULT_INDEX": index} if (index := os.environ.get("PIP_INDEX_URL")) else {}
    words += ["--output-file=found.txt", "wanted.in"]
    subprocess.run(
        ["uv", "pip", "compile", *words, *options],
        cwd=folder,
        env={**os.environ, **where, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
    )
    return (folder / "found.txt").read_text()


def lock(kept: str) -> Mapping[str, str]:
    """Every file's text.

    Raises:
        subprocess.CalledProcessError: a package has no wheel somewhere; uv said which.
    """
    wanted = asked()
    everywhere = ("--universal", "--fork-strategy=fewest", _OLDEST)
    files = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        each = sorted({word for words in wanted.values() for word in words})
        together = _resolved(each, folder, kept, *everywhere)
        found = {
            name: packages_of(_resolved(words, folder, together, *everywhere))
            for name, words in wanted.items()
        }
        for name, packages in found.items():
            first = BEGINS_WITH.get(name, "")
            own = [block for each, block in packages.items() if each not in found.get(first, {})]
            source = "pyproject.toml" if name == "build" else "setup.py"
            begin = f"-r {first}.txt\n" if first else ""
            files[name] = _HEAD.format(source=source) + begin + "".join(own)
        everything = (found["test"] | found["tools"] | found["build"]).values()
        locked = [block.partition(" \\\n")[0] for block in everything]
        for python, platform in product(_PYTHONS, _PLATFORMS):
            where = (f"--python-version={python}", f"--python-platform={platform}")
            _resolved(locked, folder, "", *where)
        lowest = [*wanted["build"], *wanted["test"]]
        oldest = _resolved(lowest, folder, "", "--resolution=lowest-direct", _OLDEST)
        files["lowest"] = _HEAD.format(source="setup.py's lower bounds") + oldest
    return files


def main() -> int:
    """Write every file."""
    paths = [HERE / f"{name}.txt" for name in asked()]
    kept = "" if "--upgrade" in sys.argv else "".join(p.read_text() for p in paths if p.exists())
    for name, text in lock("".join(packages_of(kept).values())).items():
        (HERE / f"{name}.txt").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
