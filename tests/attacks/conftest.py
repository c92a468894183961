"""Attacks that must fail, a folder for each attacker.

| folder | who attacks |
|---|---|
| `local_user` | a user with a shell on the head node |
| `submitting_user` | a user who submits jobs, names and changes them |
| `network_client` | a client of the metrics or of the offer service, or a site that answers |
| `daemon_account` | a user with the daemon's account, against root and the site |
| `damaged_files` | no attacker: broken files, libraries and clocks |

An attack of another user runs as that user, by a real setuid in a child; without root it is
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
    """Imports everything early: only root may be able to read Python's folder."""
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
