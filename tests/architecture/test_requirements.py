"""What is installed: the files of exact versions and hashes, and that nothing goes around them."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from requirements.lock import BEGINS_WITH, HERE, asked, packages_of, versions_of
from tests.architecture.markdown_documents import DOCUMENTS, TOP, shell_lines

ASKED = asked()
#: pyslurm must fit the site's Slurm, so a site builds it of its own sources.
BUILT_BY_THE_SITE = ("'setuptools<70' wheel 'Cython<3'", "dist/pyslurm-*.whl")
#: What follows `pip install`, as the documents, make and scripts write it.
PIP = re.compile(r"(?:pip\"?(?: --\S+ \S+)? (?:install|wheel)|\$\(PIP_INSTALL\)) (.*)")


def text_of(name: str) -> str:
    return (HERE / f"{name}.txt").read_text()


def installed_by(name: str) -> dict[str, str]:
    first = BEGINS_WITH.get(name)
    return versions_of(text_of(name)) | (installed_by(first) if first else {})


@pytest.mark.parametrize("name", [*ASKED, "lowest"])
def test_a_file_takes_nothing_without_its_hash(name: str) -> None:
    text, first = text_of(name), BEGINS_WITH.get(name)
    options = ["--require-hashes", "--only-binary :all:", *([f"-r {first}.txt"] if first else [])]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[: len(options)] == options  # no index either
    packages = "".join(packages_of(text).values())
    assert packages.splitlines() == lines[len(options) :]
    for block in packages_of(text).values():
        assert re.fullmatch(r"\S+==\S+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n", block)


@pytest.mark.parametrize("name", ASKED)
def test_a_file_brings_what_setup_py_asks_for(name: str) -> None:
    """Where one does not: make lock."""
    versions = installed_by(name)
    for requirement in map(Requirement, ASKED[name]):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_the_lowest_versions_are_the_lower_bounds() -> None:
    versions = versions_of(text_of("lowest"))
    for requirement in map(Requirement, {*ASKED["build"], *ASKED["test"]}):
        (lower,) = [each.version for each in requirement.specifier if each.operator == ">="]
        assert Version(versions[canonicalize_name(requirement.name)]) == Version(lower), requirement


def test_numba_ends_with_the_release_that_is_tried() -> None:
    """The simulator uses private parts of it."""
    (numba,) = [each for each in map(Requirement, ASKED["train"]) if each.name == "numba"]
    (upper,) = [each.version for each in numba.specifier if each.operator == "<"]
    major, minor = Version(installed_by("train")["numba"]).release[:2]
    assert upper == f"{major}.{minor + 1}"


def test_everything_that_pip_installs_is_locked() -> None:
    lines = [line for document in DOCUMENTS for line in shell_lines(document)]
    scripts = ("Makefile", "deploy/debian/build.sh", ".ci/run", "tests/real/install_daemons.sh")
    for script in scripts:
        text = (TOP / script).read_text().replace("\\\n", " ")
        lines += re.sub(r"^PIP_INSTALL :=.*", "", text, flags=re.MULTILINE).splitlines()
    seen = set()
    for line in lines:
        for what in PIP.findall(line):
            files = re.findall(r"-r (?:\"\S+?/)?requirements/(\w+)\.txt", what)
            ours = "--no-deps" in what and ("--no-build-isolation" in what or ".whl" in what)
            assert ours or files or "$(OURSELVES)" in what or what in BUILT_BY_THE_SITE, line
            seen.update(files)
    assert seen == {*ASKED, "lowest"}
