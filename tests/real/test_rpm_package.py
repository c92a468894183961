"""The RPM in a Debian root: installed, upgraded and removed by rpm, it leaves no program behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP
from tests.real.slurm_releases import MARK
from tests.real.throwaway_root import BOOKWORM, ThrowawayRoot, held_root, skip_without

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as docs/install.md says; it takes some minutes."""
    skip_without("nsenter", "unshare", "setpriv")
    if shutil.which("rpmbuild") is None:
        pytest.skip("rpmbuild is missing: apt-get install rpm")
    if not (BOOKWORM / MARK).is_file():
        pytest.skip(f"{BOOKWORM} is missing: run tests/real/install_release.sh bookworm")
    built = subprocess.run(
        [TOP / "deploy" / "rpm" / "build.sh", tmp_path_factory.mktemp("dist")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return Path(built.stdout.splitlines()[-1])


def rpm(root: ThrowawayRoot, *words: str) -> str:
    """Run the machine's rpm on the root, in the namespace that sees it under its path."""
    folder = Path(f"/proc/{root.pid}/root").readlink()
    enter = ("nsenter", f"--target={root.pid}", "--mount", "--net")
    done = subprocess.run(
        [*enter, "rpm", f"--root={folder}", "--nodeps", "--force-debian", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_installed_upgraded_and_removed(package: Path) -> None:
    with held_root(BOOKWORM) as root:
        rpm(root, "--install", str(package))
        version = package.name.split("-")[2].replace("~", ".")
        assert root.run("slurm-rl", "--version").stdout == f"slurm-rl {version}\n"
        words = ("slurm-rl", "benchmark", "hook", "--jobs", "100", "--repeats", "2", "--json")
        assert '"jobs": 100' in root.run("runuser", "-u", "slurmrl", "--", *words).stdout
        settings = root.folder / "etc/slurm-rl/slurm-rl.toml"
        settings.write_text(settings.read_text() + "# ours\n")
        (root.folder / "var/lib/slurm-rl/kept").touch()
        rpm(root, "--upgrade", "--replacepkgs", str(package))
        assert settings.read_text().endswith("# ours\n")
        assert root.run("runuser", "-u", "slurmrl", "--", "slurm-rl", "show-config").stdout
        rpm(root, "--erase", "slurm-rl")
        assert not (root.folder / "opt/slurm-rl").exists()
        assert not (root.folder / "usr/bin/slurm-rl").is_symlink()
        assert not list((root.folder / "usr/lib/systemd/system").glob("slurm-rl*"))
        assert (root.folder / "var/lib/slurm-rl/kept").exists()  # rpm has no purge
