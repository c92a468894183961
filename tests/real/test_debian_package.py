"""Our package in a Debian 12 without a network: what it brings, and that it leaves nothing."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from requirements.lock import HERE, packages_of
from slurm_rl_plugin import RELEASE
from tests.architecture.markdown_documents import TOP
from tests.real.slurm_releases import MARK
from tests.real.throwaway_root import BOOKWORM, ThrowawayRoot, held_root, skip_without

pytestmark = pytest.mark.real

CONFIGURATION = "/etc/slurm-rl/slurm-rl.toml"
#: What a purge must take along; dpkg and man-db write to their own.
WATCHED = ("/etc", "/opt", "/usr", "/lib", "/var/lib", "/var/log")
OTHERS = re.compile(
    r"/var/lib/(dpkg|systemd)|/var/log/dpkg|/etc/(\.pwd\.lock|(passwd|group|g?shadow)-)"
)


@pytest.fixture(scope="module")
def bookworm() -> Path:
    skip_without("nsenter", "unshare", "setpriv")
    if not (BOOKWORM / MARK).is_file():
        pytest.skip(f"{BOOKWORM} is missing: run tests/real/install_release.sh bookworm")
    return BOOKWORM


@pytest.fixture(scope="module")
def installed(bookworm: Path, debian_package: Path) -> Iterator[ThrowawayRoot]:
    with held_root(bookworm) as root:
        install(root, debian_package)
        yield root


@pytest.fixture
def fresh(bookworm: Path) -> Iterator[ThrowawayRoot]:
    with held_root(bookworm) as root:
        yield root


def install(root: ThrowawayRoot, package: Path) -> None:
    (root.folder / "srv/slurm-rl.deb").write_bytes(package.read_bytes())
    root.run("dpkg", "--install", "/srv/slurm-rl.deb")


def files(root: ThrowawayRoot) -> set[str]:
    # dpkg removes an empty /opt with the last package in it
    found = root.run("find", *WATCHED, "-xdev", check=False).stdout.splitlines()
    return {path for path in found if not OTHERS.match(path)}


def accounts(root: ThrowawayRoot) -> list[str]:
    return [(root.folder / "etc" / name).read_text() for name in ("passwd", "group", "shadow")]


def version_of(package: Path) -> str:
    """Of its name, in Python's spelling."""
    return package.name.split("_")[1].replace("~", ".")


def test_the_command_and_its_version(installed: ThrowawayRoot, debian_package: Path) -> None:
    printed = installed.run("slurm-rl", "--version").stdout
    assert printed == f"slurm-rl {version_of(debian_package)}\n"
    assert version_of(debian_package).startswith(RELEASE)
    assert installed.run("runuser", "-u", "slurmrl", "--", "slurm-rl", "--version").stdout


def test_the_shipped_model_decides(installed: ThrowawayRoot) -> None:
    words = ("slurm-rl", "benchmark", "hook", "--jobs", "100", "--repeats", "2", "--json")
    measured = json.loads(installed.run(*words).stdout)
    assert measured["jobs"] == 100
    assert measured["decide_seconds"]["median"] > 0


def test_check_without_slurm_fails_tidily(installed: ThrowawayRoot) -> None:
    done = installed.run("runuser", "-u", "slurmrl", "--", "slurm-rl", "check", check=False)
    assert done.returncode == 1
    assert done.stderr == ""
    results = {tuple(line.split()[:2]) for line in done.stdout.splitlines()[1:]}
    assert ("fail", "batch") in results
    assert {("pass", "state_file"), ("pass", "audit_file"), ("pass", "model")} <= results


def test_the_default_is_shadow_and_nothing_is_enabled(installed: ThrowawayRoot) -> None:
    shown = installed.run("slurm-rl", "show-config", "--json").stdout
    assert json.loads(shown)["hook"]["mode"] == "shadow"
    for unit in ("slurm-rl.service", "slurm-rl-watchdog.timer", "slurm-rl-offer.service"):
        enabled = installed.run("systemctl", "is-enabled", unit, check=False)
        assert enabled.stdout.strip() == "disabled"


def test_units_are_clean_where_they_are_installed(installed: ThrowawayRoot) -> None:
    units = ("slurm-rl.service", "slurm-rl-offer.service")
    units += ("slurm-rl-watchdog.service", "slurm-rl-watchdog.timer")
    done = installed.run("systemd-analyze", "verify", *units, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_manual_pages_and_completion_are_found(installed: ThrowawayRoot) -> None:
    for page in ("slurm-rl", "slurm-rl-run", "slurm-rl.toml"):
        assert f"/{page}." in installed.run("man", "-w", page).stdout
    loader = ". /usr/share/bash-completion/bash_completion; _completion_loader slurm-rl"
    shown = installed.run("bash", "-c", f"{loader}; complete -p slurm-rl").stdout
    assert "_slurm_rl" in shown
    installed.run("ls", "/usr/share/zsh/vendor-completions/_slurm-rl")


def test_it_lists_what_it_contains_with_licences_and_locked_hashes(
    installed: ThrowawayRoot,
    debian_package: Path,
) -> None:
    folder = "/usr/share/doc/slurm-rl"
    parts = json.loads(installed.run("cat", f"{folder}/slurm-rl.cdx.json").stdout)
    assert parts["metadata"]["component"]["version"] == version_of(debian_package)
    locked = packages_of((HERE / "runtime.txt").read_text())
    found = {canonicalize_name(each["name"]): each for each in parts["components"]}
    assert found.keys() == locked.keys()
    for name, each in found.items():
        assert f"=={each['version']} " in locked[name]
        assert f"sha256:{each['hashes'][0]['content']}" in locked[name]
    licences = installed.run("cat", f"{folder}/THIRD-PARTY-LICENSES").stdout.splitlines()
    assert len(licences) == len(locked)
    inside = set(installed.run("dpkg", "--listfiles", "slurm-rl").stdout.splitlines())
    named = {found[1] for line in licences if (found := re.search(r": see (/.*)", line))}
    assert named <= inside


def test_pbs_setup_names_hooks_that_are_installed(installed: ThrowawayRoot) -> None:
    printed = installed.run("slurm-rl", "pbs-setup", "--print", "--formula=").stdout
    named = {word.strip("'\"") for word in printed.split() if "/slurm_rl_" in word}
    assert len(named) == 3
    installed.run("ls", *named)


def test_nothing_is_downloaded_or_compiled_later(installed: ThrowawayRoot) -> None:
    root = installed
    listed = set(root.run("dpkg", "--listfiles", "slurm-rl").stdout.splitlines())
    there = set(root.run("find", "/opt/slurm-rl").stdout.splitlines())
    assert there <= listed
    assert root.run("dpkg", "--verify", "slurm-rl").stdout == ""


def test_a_changed_configuration_survives_an_installation_again_and_a_removal(
    fresh: ThrowawayRoot, debian_package: Path
) -> None:
    install(fresh, debian_package)
    path = fresh.folder / CONFIGURATION[1:]
    path.write_text("# ours\n")
    install(fresh, debian_package)
    assert path.read_text() == "# ours\n"
    fresh.run("dpkg", "--remove", "slurm-rl")
    assert path.read_text() == "# ours\n"
    assert not (fresh.folder / "opt/slurm-rl").exists()


def test_a_purge_leaves_nothing(fresh: ThrowawayRoot, debian_package: Path) -> None:
    before, users = files(fresh), accounts(fresh)
    install(fresh, debian_package)
    units = ("slurm-rl.service", "slurm-rl-watchdog.timer", "slurm-rl-offer.service")
    fresh.run("systemctl", "enable", *units)
    fresh.run("slurm-rl", "check", check=False)  # as root: Python might write next to its modules
    for path in ("var/lib/slurm-rl/state.json", "var/log/slurm-rl/audit.jsonl.1"):
        (fresh.folder / path).write_text("{}")
    for folder in ("lib/slurm-rl-forecast", "cache/slurm-rl-forecast"):
        (fresh.folder / "var" / folder).mkdir(parents=True)  # as systemd makes them
    (fresh.folder / "etc/slurm-rl/DISABLE").touch()
    assert len(files(fresh)) > len(before) + 500
    fresh.run("dpkg", "--purge", "slurm-rl")
    assert files(fresh) - before == set()
    assert accounts(fresh) == users


def test_lintian_finds_no_error(debian_package: Path) -> None:
    skip_without("lintian")
    words = ["lintian", "--allow-root", "--fail-on", "error", str(debian_package)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_size_is_as_documented(debian_package: Path) -> None:
    megabytes = debian_package.stat().st_size / 1e6
    told = re.search(r"a package of (\d+) MB", (TOP / "docs/install.md").read_text())
    assert told
    assert megabytes == pytest.approx(float(told[1]), rel=0.25)
