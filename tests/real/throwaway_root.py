"""Our Debian package, and a root folder to install it in: changes are gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP
from tests.real.daemon import ClusterError, wait_until
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


BOOKWORM = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").joinpath(
    "slurm-rl-plugin", "releases", "bookworm"
)
#: Words are a work folder and the folder below; then comes what to run in "$work/root".
LAYERS = """
set -eu
work=$1 below=$2
shift 2
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=$below,upperdir=$work/upper,workdir=$work/work" "$work/root"
"""
HOLD = """
mount --rbind /proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount -t tmpfs tmpfs "$work/root/run"
exec chroot "$work/root" sleep infinity
"""
#: Only the units of basic.target, a machine id of its own, and no files of our package.
BOOT = """
rm -rf "$work/root/etc/systemd/system/"*.wants
for folder in etc var/lib var/log; do rm -rf "$work/root/$folder/slurm-rl"; done
echo 5c1e0c1a4f0d4b7e9d1f0a6b3c2d1e0f >"$work/root/etc/machine-id"
exec systemd-nspawn --quiet --directory="$work/root" --machine="throwaway-$$" --boot \
    --register=no --keep-unit --console=pipe --link-journal=no "$@" systemd.unit=basic.target
"""
#: Where the container's processes are listed; its groups stay unless they are removed.
GROUPS = ("payload", "supervisor")


@dataclass(frozen=True, slots=True)
class ThrowawayRoot:
    """A root to run programs in.

    Attributes:
        pid: of a process in it.
        namespaces: nsenter's options for those that it has to itself.
    """

    pid: int
    namespaces: Sequence[str]

    @property
    def folder(self) -> Path:
        """The root, as seen from outside."""
        return Path(f"/proc/{self.pid}/root")

    def run(
        self, *command: str, check: bool = True, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root.

        Raises:
            ClusterError: it failed, and `check` is set.
        """
        enter = ("nsenter", f"--target={self.pid}", *self.namespaces)
        where = (f"--root={self.folder}", f"--wd={self.folder}")
        done = subprocess.run(
            (*enter, *where, "--", *command),
            env={"PATH": SEARCH_PATH, "HOME": "/root", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise ClusterError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done


@contextmanager
def held_root(below: Path) -> Iterator[ThrowawayRoot]:
    """A root over a folder, without a network and without services."""
    with _process(("unshare", "--mount", "--net"), below, HOLD, ()) as process:
        folder = Path(f"/proc/{process.pid}/root")
        wait_until(lambda: folder.readlink() != Path("/"), 10, "the root", lambda: "")
        yield ThrowawayRoot(process.pid, ("--mount", "--net"))


@contextmanager
def booted_root(below: Path, binds: Sequence[Path]) -> Iterator[ThrowawayRoot]:
    """A root over a folder in which systemd is the first process; the network is the machine's.

    Raises:
        ClusterError: systemd does not come up here.
    """
    words = tuple(f"--bind={path}" for path in binds)
    try:
        with _process(("unshare", "--mount"), below, BOOT, words) as process:
            root = _booted(process)
            try:
                yield root
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(root.pid, signal.SIGKILL)
                process.wait(timeout=20)
    finally:
        _remove_groups()


@contextmanager
def _process(
    namespace: Sequence[str], below: Path, script: str, words: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    work = Path(tempfile.mkdtemp(prefix="throwaway-root-"))
    bound = ("setpriv", "--pdeathsig", "KILL")  # ends with the test run, however that ends
    command = (*bound, *namespace, "sh", "-c", LAYERS + script, "sh", str(work), str(below), *words)
    with (work / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={"PATH": SEARCH_PATH},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    except ClusterError as error:
        raise ClusterError(f"{error}: {(work / 'log').read_text()}") from error
    finally:
        process.kill()
        process.wait(timeout=10)
        shutil.rmtree(work, ignore_errors=True)


def _booted(container: subprocess.Popen[bytes]) -> ThrowawayRoot:
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children")

    def first_process() -> int:
        if container.poll() is not None:
            raise ClusterError(f"systemd-nspawn ended with status {container.returncode}")
        words = children.read_text().split()
        return int(words[0]) if words else 0

    def is_up() -> bool:
        pid = first_process()
        if not pid:
            return False
        root = ThrowawayRoot(pid, ("--mount", "--pid", "--uts", "--ipc"))
        return root.run("systemctl", "is-active", "basic.target", check=False).returncode == 0

    wait_until(is_up, 30, "systemd in a container", lambda: "")
    return ThrowawayRoot(first_process(), ("--mount", "--pid", "--uts", "--ipc"))


def _remove_groups() -> None:
    for name in GROUPS:
        top = Path("/sys/fs/cgroup")
        for folder in (*top.glob(name), *top.glob(f"*/{name}")):
            for each in (*sorted(folder.rglob("*/"), reverse=True), folder):
                with contextlib.suppress(OSError):  # others' groups hold processes
                    each.rmdir()
