"""Attacks that must fail, a folder for each attacker; a new attack has its place in his.

| folder | who attacks |
|---|---|
| `local_user` | a user with a shell on the head node |
| `submitting_user` | a user who submits jobs, names and changes them |
| `network_client` | whoever reaches the metrics or the offer service, or answers as a site |
| `daemon_account` | whoever has the daemon's account, against root and the site |
| `damaged_files` | nobody: files, libraries and clocks that are broken |

Where another user is meant, the test runs as one, by a real setuid in a child; without root it is
skipped. Real Slurm is marked `real`, as elsewhere. docs/security.md names the test of each threat.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.head_node import HeadNode


@pytest.fixture(scope="session")
def _everything_imported() -> None:
    """Python may lie where only root may read: what is imported late is imported before."""
    folder = Path(tempfile.mkdtemp())
    try:
        node = HeadNode(folder, uid=0)
        for words in (["run", "--once"], ["status"], ["release", "--unattended"], ["release"]):
            node.verb(*words)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def head_node(_everything_imported: None) -> Iterator[HeadNode]:
    """A fake Slurm, and the daemon's folders as the package makes them; all users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-rl-attack-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield HeadNode(folder)
    finally:
        shutil.rmtree(folder)
